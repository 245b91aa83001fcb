"""Several routers before the same workers, none of which knows of the others: the work is spread all the same."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from inference.contracts.prompts import ChatMessage, ChatPrompt
from inference.contracts.reports import WorkerLoad
from inference.contracts.states import Role
from inference.router.choosing.ask import Ask, Barred
from inference.router.choosing.knowledge import Knowledge
from inference.router.choosing.pick_decode import pick_decode
from inference.router.choosing.place import Place
from inference.router.choosing.roster import roster_of
from inference.router.choosing.standing import WorkerKey, key_of
from tests.inference.router.choosing.crew import deployment, worker

WORKERS = 8
ASKED_EVERY = 10  # requests
ROSTER = roster_of(deployment(*(worker(f"u{number}", Role.UNIFIED) for number in range(WORKERS))))


class Simulation:
    """Requests of conversations come at random routers, run for a while and end. Time is counted in requests."""

    def __init__(self, routers: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.routers = [Knowledge(most_blocks=10_000, cool_s=5.0, most_s=60.0, try_s=30.0) for _ in range(routers)]
        self.requests: Counter[WorkerKey] = Counter()
        self.tokens: Counter[WorkerKey] = Counter()
        self.turns: list[tuple[str, WorkerKey]] = []

    def told(self, key: WorkerKey) -> WorkerLoad:
        standings = [router.standings[key] for router in self.routers]
        return WorkerLoad(
            running=sum(each.answers for each in standings),
            waiting=0,
            waiting_tokens=sum(each.backlog_tokens for each in standings),
            kv_blocks_used=sum(each.kv_tokens for each in standings) // 16,
            kv_blocks_total=100_000,
            kv_block_tokens=16,
        )

    def ask_all(self, now: float) -> None:
        """As `Figures` does."""
        for router in self.routers:
            for candidate in ROSTER.answering.workers:
                router.told(candidate.key, self.told(candidate.key), now)

    def run(self, conversations: list[list[ChatPrompt]], at_once: int) -> None:
        running: list[tuple[int, int, Knowledge, WorkerKey, Place]] = []
        for number, (name, prompt) in enumerate(self._interleaved(conversations)):
            while len(running) >= at_once or (running and running[0][0] <= number):
                _, _, router, key, place = heapq.heappop(running)
                place.leave()
                router.told(key, self.told(key), float(number))
            if number % ASKED_EVERY == 0:
                self.ask_all(float(number))
            router = self.rng.choice(self.routers)
            chain = router.prompts.chain(prompt, "")
            tokens, answer = router.prompts.tokens("chat", chain.octets), self.rng.randrange(50, 400)
            earlier = router.prompts.tokens("chat", chain.earlier_octets)
            ask = Ask(tokens, answer, router.prompts.held("chat", chain), chain.session, earlier)
            chosen = pick_decode(ROSTER, router.standings, ask, Barred(), self.rng)
            assert chosen is not None
            key = key_of(chosen)
            place = Place("chat", router.standings)
            place.move_to(key, tokens + answer)
            router.told(key, self.told(key), float(number))
            router.prompts.was_read(chain, key)
            self.requests[key] += 1
            self.tokens[key] += tokens + answer
            self.turns.append((name, key))
            heapq.heappush(running, (number + answer // 4, number, router, key, place))

    def _interleaved(self, conversations: list[list[ChatPrompt]]) -> Iterator[tuple[str, ChatPrompt]]:
        open_ones = [(str(number), iter(turns)) for number, turns in enumerate(conversations)]
        while open_ones:
            at = self.rng.randrange(len(open_ones))
            prompt = next(open_ones[at][1], None)
            if prompt is None:
                open_ones.pop(at)
            else:
                yield open_ones[at][0], prompt


def conversations(count: int, turns: int, *, system: str = "You are brief. " * 60) -> list[list[ChatPrompt]]:
    """All of them begin with the same long system message."""
    made = []
    for number in range(count):
        messages = [ChatMessage(role="system", content=system)]
        of_one = []
        for turn in range(turns):
            messages.append(ChatMessage(role="user", content=f"question {turn} of {number} " * 20))
            of_one.append(ChatPrompt(messages=tuple(messages)))
            messages.append(ChatMessage(role="assistant", content=f"answer {turn} of {number} " * 40))
        made.append(of_one)
    return made


@pytest.mark.parametrize("routers", [1, 4])
@pytest.mark.parametrize("turns", [1, 5])
@pytest.mark.parametrize("seed", range(3))
def test_work_is_spread_within_a_tenth_of_ideal(routers: int, turns: int, seed: int) -> None:
    simulation = Simulation(routers, seed)
    simulation.run(conversations(4000 // turns, turns), at_once=120)
    ideal = sum(simulation.tokens.values()) / WORKERS
    assert max(simulation.tokens.values()) < 1.1 * ideal
    assert min(simulation.tokens.values()) > 0.9 * ideal


def test_conversations_stay_where_they_are_far_more_often_than_by_chance() -> None:
    """Though a turn seldom comes to the router of the turn before."""
    simulation = Simulation(4, 1)
    simulation.run(conversations(300, 5), at_once=4)
    at: dict[str, WorkerKey] = {}
    stayed = moved = 0
    for name, key in simulation.turns:
        if name in at:
            stayed += at[name] == key
            moved += at[name] != key
        at[name] = key
    assert stayed > 3 * (stayed + moved) / WORKERS
