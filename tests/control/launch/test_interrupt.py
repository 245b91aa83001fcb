from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from controlplane.launch.interrupt import SIGNALS, Interrupt, Stopped


@pytest.fixture
def interrupt() -> Iterator[Interrupt]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    made = Interrupt()
    made.install()
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_stops_at_once(interrupt: Interrupt, number: signal.Signals) -> None:
    with pytest.raises(Stopped):
        signal.raise_signal(number)


def test_a_signal_waits_until_a_process_is_written_down(interrupt: Interrupt) -> None:
    done = []

    def start() -> None:
        with interrupt.held():
            signal.raise_signal(signal.SIGINT)
            done.append("written down")

    with pytest.raises(Stopped):
        start()
    assert done == ["written down"]


def test_an_impatient_second_signal_does_not_disturb_the_stopping(interrupt: Interrupt) -> None:
    with pytest.raises(Stopped):
        signal.raise_signal(signal.SIGINT)

    signal.raise_signal(signal.SIGINT)


def test_nothing_disturbs_the_stopping_after_a_failure(interrupt: Interrupt) -> None:
    interrupt.ignore()

    signal.raise_signal(signal.SIGTERM)
