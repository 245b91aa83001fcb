"""When things happened to one request, and the account of its time to first token.

All readings come from one monotonic clock of this process; what workers report are durations. The segments add up to
the TTFT that the router saw: what no worker explains is the segment "network".
"""

from __future__ import annotations

from dataclasses import dataclass

from inference.contracts.generation import WorkerTimings
from inference.contracts.timings import Segment


@dataclass(slots=True)
class Stopwatch:
    """Readings in seconds; None where it has not happened.

    received: the whole request is here. first_attempt, attempt: the first and the latest reserve call were begun.
    waited_before, waited_after: for room at any worker, before the first attempt and after it, in seconds.
    reserved: the latest ticket came. first_token: the first token came. first_text: the first text for the client.
    second_token, last_token: as named. tokens: so far.
    """

    received: float
    first_attempt: float | None = None
    attempt: float | None = None
    reserved: float | None = None
    first_token: float | None = None
    first_text: float | None = None
    second_token: float | None = None
    last_token: float | None = None
    tokens: int = 0
    waited_before: float = 0.0
    waited_after: float = 0.0

    def waited(self, seconds: float) -> None:
        """Every worker was busy for so long."""
        if self.first_attempt is None:
            self.waited_before += seconds
        else:
            self.waited_after += seconds

    def begin_attempt(self, now: float) -> None:
        """A new attempt starts from nothing: no text of an earlier one has reached the client."""
        if self.first_attempt is None:
            self.first_attempt = now
        self.attempt = now
        self.reserved = self.first_token = self.first_text = self.second_token = self.last_token = None
        self.tokens = 0

    def saw_tokens(self, count: int, now: float) -> float | None:
        """Note `count` new tokens; gives the gap since the token before, None for the first."""
        gap = None if self.last_token is None else now - self.last_token
        if self.first_token is None:
            self.first_token = now
        if self.tokens < 2 <= self.tokens + count:
            self.second_token = now
        self.last_token = now
        self.tokens += count
        return gap

    @property
    def ttft_s(self) -> float | None:
        return None if self.first_text is None else self.first_text - self.received

    @property
    def first_gap_s(self) -> float | None:
        if self.first_token is None or self.second_token is None:
            return None
        return self.second_token - self.first_token

    @property
    def tpot_s(self) -> float | None:
        if self.tokens < 2 or self.first_token is None or self.last_token is None:
            return None
        return (self.last_token - self.first_token) / (self.tokens - 1)


def segments(watch: Stopwatch, prefill: WorkerTimings) -> tuple[Segment, ...]:
    """The stages of the time to first token, in order; empty when no text ever came. prefill: as told by the worker
    that read the prompt.

    router        request complete until the first reserve call (checks, choice)
    queue         waited for a worker with room
    retry         attempts that came to nothing
    reserve       call for the ticket that held, with its answer
    prefill_queue asked until first computed, at the prefilling worker
    prefill       first chunk until the first token
    held_text     first token until text was certain (a partial character, a possible stop string)
    network       the rest: calls, connections, and what nobody explains
    """
    ttft = watch.ttft_s
    if ttft is None or watch.first_attempt is None or watch.attempt is None or watch.reserved is None:
        return ()
    first_text = watch.received + ttft
    first_token = min(first_text, watch.first_token if watch.first_token is not None else first_text)
    told = [prefill.queue_s, prefill.prefill_s]
    stages = {
        "router": watch.first_attempt - watch.received - watch.waited_before,
        "queue": watch.waited_before + watch.waited_after,
        "retry": watch.attempt - watch.first_attempt - watch.waited_after,
        "reserve": watch.reserved - watch.attempt,
        **dict(zip(("prefill_queue", "prefill"), _fit(told, first_token - watch.reserved), strict=True)),
        "held_text": first_text - first_token,
    }
    parts = [Segment(name=name, seconds=seconds) for name, seconds in stages.items() if seconds]
    rest = ttft - sum(part.seconds for part in parts)
    return (*parts, Segment(name="network", seconds=max(0.0, rest)))


def _fit(told: list[float | None], room: float) -> list[float]:
    """Durations from another clock, shortened in proportion where they exceed the time seen here; unknown ones are left
    to the rest."""
    known = [0.0 if seconds is None else max(0.0, seconds) for seconds in told]
    total = sum(known)
    return known if total <= room or total == 0 else [seconds * room / total for seconds in known]
