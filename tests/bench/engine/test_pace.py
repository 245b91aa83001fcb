from __future__ import annotations

from tests.bench.engine.load import Measured
from tests.bench.engine.pace import figures, metric_sum, quantile, row


def test_a_quantile_is_a_value_that_was_seen() -> None:
    assert (quantile([3.0, 1.0, 2.0], 0.5), quantile([1.0, 2.0], 0.99), quantile([], 0.5)) == (2.0, 2.0, None)


def test_a_metric_is_summed_over_its_labels() -> None:
    text = '# HELP x\nx{role="a"} 2\nx{role="b"} 3.5\nx_total 9\n'
    assert metric_sum(text, "x") == 5.5


def test_a_pace_is_the_slowest_gap_in_a_hundred_over_the_usual_one() -> None:
    seen = figures(Measured(seconds=10, steady_itl=[0.05] * 98 + [0.06] * 2, ttft=[0.7], output_tokens=100))
    found = row("pace", seen, target=1.3, better="at most")
    assert (round(found.ratio, 2), found.reached) == (1.2, True)


def test_without_answers_there_is_no_pace() -> None:
    found = row("pace", figures(Measured(seconds=10)), target=1.3, better="at most")
    assert (found.ratio, found.reached) == (None, False)
