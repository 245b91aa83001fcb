from __future__ import annotations

from pathlib import Path

from inference.agent import worker_log


def test_a_new_run_keeps_the_log_of_the_run_before(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    for run in ("first", "second", "third"):
        with worker_log.open_fresh(path) as log:
            log.write(run.encode())
    assert path.read_text() == "third"
    assert (tmp_path / "worker.log.1").read_text() == "second"
    assert path.stat().st_mode & 0o077 == 0


def test_a_tail_has_no_control_characters_and_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    lines = [f"line {number}" for number in range(100)]
    lines += ["\x1b[31mred\x1b[0m \x1b]0;title\x07text\x00\x08", "\u202eevil", "x" * 5000, "한국어 🙂"]
    path.write_text("\n".join(lines) + "\n\n")
    tail = worker_log.tail(path)
    assert len(tail) == 20
    assert tail[-4:] == ("red text", "evil", "x" * 300, "한국어 🙂")


def test_a_progress_bar_counts_as_one_line_in_its_newest_state(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    path.write_bytes(b"loading\n 10%\r 50%\r100%\r\ndone\r\n")
    assert worker_log.tail(path) == ("loading", "100%", "done")


def test_bytes_that_are_no_text_are_shown_as_replacements(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    path.write_bytes(b"\xff\xfeoops\n")
    assert worker_log.tail(path) == ("\ufffd\ufffdoops",)


def test_no_log_is_an_empty_tail(tmp_path: Path) -> None:
    assert worker_log.tail(tmp_path / "nothing") == ()


def test_an_outgrown_log_keeps_its_newest_lines_while_the_worker_writes_on(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    with worker_log.open_fresh(path) as log:
        for number in range(1000):
            log.write(f"line {number}\n".encode())
        log.flush()
        worker_log.bound(path, 4000)
        assert path.stat().st_size < 2000
        log.write(b"after\n")
        log.flush()
    assert worker_log.tail(path)[-2:] == ("line 999", "after")
    assert path.read_text().startswith("(older lines were dropped")
    size = path.stat().st_size
    worker_log.bound(path, 4000)
    assert path.stat().st_size == size
