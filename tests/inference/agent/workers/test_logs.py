from __future__ import annotations

from pathlib import Path

from inference.agent.workers import logs
from inference.contracts.states import LogRun


def test_a_new_run_keeps_the_log_of_the_run_before(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    for run in ("first", "second", "third"):
        with logs.open_fresh(path) as log:
            log.write(run.encode())
    assert path.read_text() == "third"
    assert (tmp_path / "worker.previous.log").read_text() == "second"
    assert path.stat().st_mode & 0o077 == 0


def test_a_tail_has_no_control_characters_and_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    lines = [f"line {number}" for number in range(100)]
    lines += ["\x1b[31mred\x1b[0m \x1b]0;title\x07text\x00\x08", "\u202eevil", "x" * 5000, "한국어 🙂"]
    path.write_text("\n".join(lines) + "\n\n")
    tail = logs.tail(path)
    assert len(tail) == 20
    assert tail[-4:] == ("red text", "evil", "x" * 300, "한국어 🙂")


def test_a_progress_bar_counts_as_one_line_in_its_newest_state(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    path.write_bytes(b"loading\n 10%\r 50%\r100%\r\ndone\r\n")
    assert logs.tail(path) == ("loading", "100%", "done")


def test_bytes_that_are_no_text_are_shown_as_replacements(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    path.write_bytes(b"\xff\xfeoops\n")
    assert logs.tail(path) == ("\ufffd\ufffdoops",)


def test_no_log_is_an_empty_tail(tmp_path: Path) -> None:
    assert logs.tail(tmp_path / "nothing") == ()


def test_an_outgrown_log_is_moved_on_while_the_worker_writes_and_nothing_recent_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    with logs.open_fresh(path) as log:
        for number in range(1000):
            log.write(f"line {number}\n".encode())
            log.flush()
            logs.rotate(path, 4000)
        log.write(b"after\n")
    assert path.stat().st_size < 4000
    assert (tmp_path / "worker.older.log").stat().st_size < 4100
    shown = logs.read(path, LogRun.CURRENT, 300)
    assert shown is not None
    assert shown[-300:] == (*(f"line {number}" for number in range(701, 1000)), "after")
    assert all(file.stat().st_mode & 0o077 == 0 for file in tmp_path.iterdir())


def test_a_tail_right_after_a_rotation_still_shows_the_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    path.write_text("the last words\n" * 30)
    logs.rotate(path, 10)
    assert path.stat().st_size == 0
    assert logs.tail(path)[-1] == "the last words"


def test_each_of_two_runs_is_read_whole_and_a_third_was_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    for run in ("first", "second", "third"):
        with logs.open_fresh(path) as log:
            log.write(f"{run} begins\n".encode() + b"x" * 100 + b"\n")
            log.flush()
            logs.rotate(path, 50)
            log.write(f"{run} ends\n".encode())
    assert logs.read(path, LogRun.CURRENT, 10) == ("third begins", "x" * 100, "third ends")
    assert logs.read(path, LogRun.PREVIOUS, 10) == ("second begins", "x" * 100, "second ends")
    assert logs.read(path, LogRun.PREVIOUS, 1) == ("second ends",)


def test_no_log_is_told_apart_from_an_empty_one_and_a_question_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    assert logs.read(path, LogRun.CURRENT, 10) is None
    path.write_text("")
    assert logs.read(path, LogRun.CURRENT, 10) == ()
    assert logs.read(path, LogRun.PREVIOUS, 10) is None
    path.write_text("line\n" * 5000)
    assert len(logs.read(path, LogRun.CURRENT, 10**9) or ()) == logs.READ_LINES
    assert logs.read(path, LogRun.CURRENT, -1) == ("line",)


def test_a_log_that_grows_by_size_only_stays_between_one_and_two_limits(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    with logs.open_fresh(path) as log:
        for _ in range(200):
            log.write(b"y" * 99 + b"\n")
            log.flush()
            logs.rotate(path, 1000)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 2200
