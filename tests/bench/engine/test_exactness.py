from __future__ import annotations

from tests.bench.engine.exactness import ends_in, last_line


def test_only_ends_of_tests_that_passed_count() -> None:
    printed = """
PASSED tests/x.py::test_a_thousand_aborts_kills_and_cuts_leave_no_block_behind[tcp]
PASSED tests/x.py::test_killed_prefill_processes_leave_no_block_behind[tcp]
FAILED tests/x.py::test_killed_prefill_processes_leave_no_block_behind[shared_memory] - AssertionError
"""
    assert ends_in(printed) == 1012


def test_of_a_long_complaint_the_end_is_told() -> None:
    assert (last_line("Traceback\n  at\nRuntimeError: no\n"), last_line("")) == ("RuntimeError: no", "it said nothing")
