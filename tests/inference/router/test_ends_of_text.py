"""Characters and stop strings that lie across tokens, as a client gets them: on both routes of the API, streamed and
whole, whether the first token comes from another worker than the second or not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable

import pytest

from inference.testing.faults import Fault, FaultKind, FaultPlan, FaultPoint
from inference.testing.fleet import MODEL, StubFleet, stub_fleet
from inference.testing.stub_settings import StubSettings
from tests.inference.router.conftest import PATIENT, Bench, events_of, eventually
from tests.inference.router.scripted import SECRET

LOCAL, HANDED_OVER = "Hi", "A prompt that is longer than what a decode worker reads by itself, so it is handed over."


def in_bytes(text: str) -> tuple[bytes, ...]:
    """As one-byte tokens."""
    return tuple(bytes([byte]) for byte in text.encode())


CHARACTERS = [
    pytest.param(in_bytes("👩🏽‍🚀 안녕 é e\u0301"), 99, "👩🏽‍🚀 안녕 é e\u0301", "stop", id="split"),
    pytest.param((b"a", b"\xff", b"b"), 99, "a\ufffdb", "stop", id="invalid"),
    pytest.param((b"\xf0\x9f", *in_bytes("한")), 99, "\ufffd한", "stop", id="broken off and on"),
    pytest.param(in_bytes("ok🚲"), 4, "ok\ufffd", "length", id="cut"),
]
STOPS = [
    pytest.param((b"E", b"ND", b"more"), ["END"], "", "stop", id="split"),
    pytest.param((b"END", b"more"), ["END"], "", "stop", id="in the first token"),
    pytest.param((b"a", b"a", b"a", b"b", b"c"), ["aab"], "a", "stop", id="overlaps itself"),
    pytest.param((b"say ", b"STOP", b"PED"), ["STOPPED", "STOP"], "say ", "stop", id="one begins another"),
    pytest.param((b"EN", b"X", b"!"), ["END"], "ENX!", "stop", id="false start"),
    pytest.param((b"x", b"EN"), ["END"], "xEN", "stop", id="false start at the end"),
    pytest.param(in_bytes("안녕"), ["녕"], "안", "stop", id="of one split character"),
]


@pytest.fixture
async def fleet(bench: Bench) -> AsyncIterator[StubFleet]:
    bench.model, bench.deadlines = MODEL, PATIENT
    async with stub_fleet(1, 2, secret=SECRET) as fleet:
        fleet.local_prefill_tokens = 32
        await bench.start()
        bench.publish_deployments(*fleet.table().deployments)
        await eventually(lambda: bench.router.tables.find(MODEL) is not None)
        yield fleet
        await fleet.settled()
        await bench.at_rest()
        await bench.restart_router(lambda: None)


def write(fleet: StubFleet, pieces: tuple[bytes, ...]) -> None:
    for worker in fleet.workers:
        worker.engine.settings = StubSettings(pieces=pieces)


async def answers(
    bench: Bench, prompt: str, before_each: Callable[[], None] = lambda: None, **fields: object
) -> list[tuple[str, str | None]]:
    """Text and reason to end, of chat and of completions, whole and streamed."""
    told = []
    for path, asked in (
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": prompt}]}),
        ("/v1/completions", {"prompt": prompt}),
    ):
        for stream in (False, True):
            body = {"model": MODEL, "stream": stream, **asked, **fields}
            before_each()
            async with bench.http.post(path, json=body) as answer:
                assert answer.status == 200, await answer.text()
                told.append(streamed(await answer.text()) if stream else whole(await answer.json()))
    return told


def whole(answer: dict) -> tuple[str, str]:
    (choice,) = answer["choices"]
    return choice["message"]["content"] if "message" in choice else choice["text"], choice["finish_reason"]


def streamed(text: str) -> tuple[str, str | None]:
    told, finish = "", None
    for name, data in events_of(text):
        for choice in json.loads(data)["choices"] if name is None and data != "[DONE]" else ():
            told += choice["delta"].get("content") or "" if "delta" in choice else choice["text"]
            finish = choice["finish_reason"] or finish
    assert text.rstrip().endswith("[DONE]")
    return told, finish


@pytest.mark.parametrize("prompt", [LOCAL, HANDED_OVER], ids=["local", "handed over"])
@pytest.mark.parametrize(("pieces", "limit", "text", "finish"), CHARACTERS)
async def test_characters_come_whole_and_once(
    bench: Bench, fleet: StubFleet, pieces: tuple[bytes, ...], limit: int, text: str, finish: str, prompt: str
) -> None:
    """F04: no U+FFFD where all bytes are there; what is cut is flushed at the end; a wrong byte stalls nothing."""
    write(fleet, pieces)
    assert await answers(bench, prompt, max_tokens=limit) == [(text, finish)] * 4


@pytest.mark.parametrize("prompt", [LOCAL, HANDED_OVER], ids=["local", "handed over"])
@pytest.mark.parametrize(("pieces", "stop", "text", "finish"), STOPS)
async def test_nothing_of_a_stop_string_reaches_the_client(
    bench: Bench, fleet: StubFleet, pieces: tuple[bytes, ...], stop: list[str], text: str, finish: str, prompt: str
) -> None:
    """F05: and false starts are released."""
    write(fleet, pieces)
    assert await answers(bench, prompt, max_tokens=99, stop=stop) == [(text, finish)] * 4


@pytest.mark.parametrize("prompt", [LOCAL, HANDED_OVER], ids=["local", "handed over"])
@pytest.mark.parametrize("after", [0, 1, 2])
async def test_what_is_held_back_outlives_the_worker_that_holds_it(
    bench: Bench, fleet: StubFleet, after: int, prompt: str
) -> None:
    """F32 with F04 and F05: the worker dies in the middle of a character or of what may be a stop string."""
    for pieces, stop, text in (
        ((b"one ", b"E", b"ND", b" two"), ["END"], "one "),
        ((b"one ", b"E", b"N", b" two"), ["END"], "one EN two"),
        ((b"1", *in_bytes("한"), b"2"), ["3"], "1한2"),
    ):
        write(fleet, pieces)
        told = await answers(bench, prompt, lambda: break_once(fleet, after), max_tokens=99, stop=stop)
        assert told == [(text, "stop")] * 4
    assert 'continuations_total{deployment="stub"}' in await bench.metrics()


def break_once(fleet: StubFleet, after: int) -> None:
    """Whichever writes next fails after so many tokens."""
    fault = FaultPlan([Fault(point=FaultPoint.MID_DECODE, kind=FaultKind.REFUSE, after=after)])
    for worker in fleet.decode:
        worker.engine.faults = fault
