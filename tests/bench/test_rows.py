from __future__ import annotations

import json

from tests.bench.rows import Row, missing


def test_a_row_is_reached_at_its_target() -> None:
    assert Row(name="decode", ratio=1.05, target=1.05).reached is True
    assert Row(name="decode", ratio=1.04, target=1.05).reached is False
    assert Row(name="decode", ratio=1.2, target=1.05, stretch=1.5).stretched is False


def test_where_less_is_better_the_target_is_a_ceiling() -> None:
    row = Row(name="ITL", ratio=1.25, target=1.3, stretch=1.2, better="at most")
    assert (row.reached, row.stretched) == (True, False)


def test_zero_of_what_must_be_zero_is_reached() -> None:
    assert Row(name="leaks", ratio=0, target=0, better="at most").reached is True


def test_unknown_never_counts_as_reached() -> None:
    assert missing("vLLM", "no wheel", target=0.85).reached is False
    assert missing("vLLM", "no wheel", target=0.85).note == "not measured: no wheel"


def test_without_a_target_there_is_nothing_to_reach() -> None:
    assert Row(name="NIXL", value=3.0).reached is None


def test_a_row_is_written_as_json() -> None:
    written = json.loads(json.dumps(Row(name="decode", ratio=2, target=1, details={"batch": 4}).as_dict()))
    assert written["reached"] is True
    assert written["details"] == {"batch": 4}
