from __future__ import annotations

import pytest

from tests.bench.report import facts_line, figure, judged, replace_section, table
from tests.bench.rows import Row, missing


def test_every_row_says_ours_the_others_and_the_judgement() -> None:
    row = Row(
        name="decode, batch 4", unit="tok/s", value=156.2, compared_with="generate", reference=57.3, ratio=2.71,
        target=1.05, stretch=1.5,
    )  # fmt: skip
    assert table([row]).splitlines()[-1] == (
        "| decode, batch 4 | 156 tok/s | generate: 57.3 tok/s | 2.71x | at least 1.05x | 1.50x | stretch |"
    )


def test_a_miss_stands_out() -> None:
    row = Row(name="chunks", ratio=0.123, target=0.1, better="at most", judged="share")
    assert table([row]).splitlines()[-1] == "| chunks | - | - | 12.3 % | at most 10 % | - | **no** |"


def test_what_could_not_be_measured_is_in_the_table() -> None:
    line = table([missing("decode", "no wheel", compared_with="vLLM", target=0.85)]).splitlines()[-1]
    assert line == "| decode (not measured: no wheel) | - | vLLM | - | at least 0.85x | - | **no** |"


def test_a_reason_of_several_lines_does_not_break_the_table() -> None:
    assert len(table([missing("decode", "it ended:\na | b")]).splitlines()) == 3


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (1234.5, "1,234"), (57.31, "57.3"), (-1.234, "-1.23"), (0.0123, "0.012")]
)
def test_figures_have_three_digits(value: float, shown: str) -> None:
    assert figure(value) == shown


def test_judgements_are_factors_shares_and_counts() -> None:
    assert [judged(0.5, how) for how in ("factor", "share", "count")] == ["0.50x", "50 %", "0.5"]


def test_facts_are_one_line() -> None:
    assert facts_line({"cores": 2, "features": ["avx2", "amx"]}) == "cores: 2; features: avx2, amx"


def test_only_the_marked_part_of_a_document_is_written(tmp_path) -> None:
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- bench: generated -->\nold\n<!-- bench: end -->\nafter\n")
    replace_section(document, "bench", "new\n")
    assert document.read_text() == "before\n<!-- bench: generated -->\n\nnew\n\n<!-- bench: end -->\nafter\n"


def test_a_document_without_the_marks_is_left_alone(tmp_path) -> None:
    document = tmp_path / "page.md"
    document.write_text("words\n")
    with pytest.raises(ValueError, match="no section"):
        replace_section(document, "bench", "new")
    assert document.read_text() == "words\n"
