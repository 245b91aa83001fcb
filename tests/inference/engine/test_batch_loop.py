"""The loop with a runner that counts instead of computing: what happens around a step, above all when things fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.sampling import Sampling
from inference.contracts.states import FinishReason
from inference.contracts.timings import Counter, Latency, Window
from inference.engine import batch_loop
from inference.engine.batch_loop import BatchLoop
from inference.engine.interface import KVHandle
from inference.engine.model_runner import Piece
from inference.engine.reservations import CopySpan, Reservations
from inference.engine.sampling.chooser import Chooser
from inference.engine.scheduler import Scheduler
from inference.engine.sequence import Sequence
from inference.engine.text_stream import TextStream
from tests.inference.engine.recorder import DEADLINE_S, Numbers, Recorder, greedy

VOCAB, POISON, NAN = 64, 60, 61


class CountingRunner:
    """Every next token is the last one plus one. A step waits while `gate` is closed, and fails on `poison`."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.steps: list[list[Piece]] = []
        self.poison = POISON
        self.error: Exception = RuntimeError("the model choked")

    def run(self, _cache: object, pieces: list[Piece], on_layer: Callable[[int], None] | None = None) -> torch.Tensor:
        self.entered.set()
        assert self.gate.wait(DEADLINE_S)
        self.steps.append(pieces)
        for layer in range(2) if on_layer is not None else ():
            on_layer(layer)
        if any(self.poison in piece.token_ids for piece in pieces):
            raise self.error
        last = [piece.token_ids[-1] for piece in pieces if piece.wants_logits]
        logits = torch.nn.functional.one_hot(torch.tensor(last, dtype=torch.long) + 1, VOCAB).float()
        logits[[i for i, token in enumerate(last) if token == NAN]] = float("nan")
        return logits

    def close(self) -> None:
        """The next step will wait for `gate.set()`; `entered` tells when it does."""
        self.gate.clear()
        self.entered.clear()


class CopiedCache:
    """Knows what was copied, and nothing else."""

    def __init__(self) -> None:
        self.copies: list[CopySpan] = []

    def copy(self, spans: list[CopySpan]) -> None:
        self.copies += spans


class Rig:
    """A running loop and its parts."""

    def __init__(self) -> None:
        self.runner = CountingRunner()
        self.reservations = Reservations(64, 4)
        self.cache = CopiedCache()
        self.loop = BatchLoop(
            self.runner,
            self.cache,
            self.reservations,
            Scheduler(max_running=4, chunk_tokens=8),
            prepare_thread=lambda: None,
        )
        self.loop.start()

    def submit(
        self, prompt: list[int], sampling: Sampling | None = None, sink: Recorder | None = None, **fields: object
    ) -> tuple[KVHandle, Recorder]:
        sampling, sink = sampling or greedy(3), sink or Recorder()
        handle = self.reservations.reserve(len(prompt) + sampling.max_tokens, prompt, answers=sampling.n)
        fields = {"computed": handle.cached_tokens} | fields
        self.loop.submit(self.sequence(handle, prompt, sampling, sink, **fields))
        return handle, sink

    def sequence(
        self,
        handle: KVHandle,
        prompt: list[int],
        sampling: Sampling,
        sink: Recorder,
        unreadable: frozenset[int] = frozenset(),
        **fields: object,
    ) -> Sequence:
        def decode(ids: list[int]) -> str:
            if unreadable & set(ids):
                raise KeyError("no such token")
            return "".join(map(chr, ids))

        first, *further = [
            Sequence(
                handle,
                list(prompt),
                Chooser(sampling, prompt, answer=n),
                sink,
                TextStream(decode, Numbers(), sampling, answer=n),
                len(prompt),
                answer=n,
            )
            for n in range(sampling.n)
        ]
        first.siblings = further
        for sequence in (first, *further):
            for name, value in fields.items():
                setattr(sequence, name, value)
        return first

    def release(self, handle: KVHandle) -> None:
        self.loop.abort(handle)
        self.reservations.release(handle)


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.runner.gate.set()
    made.loop.stop()


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.002)


def test_an_answer_runs_to_its_limit_in_one_step_per_token(rig: Rig) -> None:
    _, sink = rig.submit([1, 2, 3], greedy(3))
    assert sink.wait().ids == [4, 5, 6]
    assert sink.starts == 1
    assert [piece.token_ids for (piece,) in rig.runner.steps] == [[1, 2, 3], [4], [5]]


def test_progress_covers_the_prompt_in_chunks_and_precedes_the_token(rig: Rig) -> None:
    sink = Recorder(ends_with_prefill=True)
    rig.submit(list(range(20)), sink=sink, prefill_only=True, report_progress=True)
    sink.wait()
    assert [(chunk.start, chunk.end, chunk.done) for chunk in sink.chunks] == [
        (0, 8, False),
        (8, 16, False),
        (16, 20, True),
    ]
    assert sink.ids == [20]
    assert rig.loop.queue() == (0, 0, 0)


def test_blocks_released_during_a_step_are_not_given_away_before_it_ends(rig: Rig) -> None:
    rig.runner.close()
    handle, sink = rig.submit([1, 2, 3])
    assert rig.runner.entered.wait(DEADLINE_S)
    rig.release(handle)
    assert rig.reservations.used_blocks == 2
    rig.runner.gate.set()
    eventually(lambda: rig.reservations.used_blocks == 0)
    assert sink.tokens == []
    assert sink.error is None


def test_a_released_prompt_stops_within_a_chunk_and_the_next_request_runs(rig: Rig) -> None:
    rig.runner.close()
    handle, _ = rig.submit([7] * 40)
    assert rig.runner.entered.wait(DEADLINE_S)
    rig.release(handle)
    _, short = rig.submit([1], greedy(1))
    rig.runner.gate.set()
    assert short.wait().ids == [2]
    assert sum(7 in piece.token_ids for step in rig.runner.steps for piece in step) == 1


def test_fifty_prompts_abandoned_in_turn_leave_nothing_behind(rig: Rig) -> None:
    for _ in range(50):
        handle, _ = rig.submit([1] * 40)
        rig.release(handle)
    _, last = rig.submit([1], greedy(1))
    assert last.wait().ids == [2]
    eventually(lambda: rig.loop.queue() == (0, 0, 0))
    assert rig.reservations.used_blocks == 1


def test_only_the_request_that_the_model_can_not_compute_fails(rig: Rig) -> None:
    rig.runner.close()
    _, first = rig.submit([9], greedy(1))
    assert rig.runner.entered.wait(DEADLINE_S)
    _, guilty = rig.submit([1, POISON])
    _, innocent = rig.submit([1, 2])
    rig.runner.gate.set()
    assert first.wait().ids == [10]
    assert innocent.wait().ids == [3, 4, 5]
    assert isinstance(guilty.wait().error, TandemError)
    assert guilty.error.code == ErrorCode.ENGINE_FAILED
    assert "the model choked" in guilty.error.message
    assert rig.loop.failure is None


def test_a_request_whose_logits_are_no_numbers_fails_alone(rig: Rig) -> None:
    _, guilty = rig.submit([NAN])
    _, innocent = rig.submit([1, 2])
    assert innocent.wait().ids == [3, 4, 5]
    assert "NaN" in str(guilty.wait().error)


def test_after_three_hopeless_steps_the_engine_says_that_it_is_broken(rig: Rig) -> None:
    for _ in range(3):
        assert rig.loop.failure is None
        rig.submit([POISON])[1].wait()
    eventually(lambda: rig.loop.failure is not None)
    assert "the model choked" in rig.loop.failure
    assert rig.loop.heartbeat_age() == float("inf")
    with pytest.raises(TandemError, match="the model choked"):
        rig.submit([1])


def test_requests_that_ask_for_the_impossible_never_break_the_engine(rig: Rig) -> None:
    rig.runner.error = TandemError(ErrorCode.INVALID_REQUEST, "the schema can't be followed", "response_format")
    for _ in range(5):
        assert "schema" in str(rig.submit([POISON])[1].wait().error)
    assert rig.submit([1, 2])[1].wait().ids == [3, 4, 5]
    assert rig.loop.failure is None


def test_a_faulted_device_breaks_the_engine_at_once_and_fails_everybody(rig: Rig) -> None:
    rig.runner.error = torch.AcceleratorError("illegal memory access", 700)
    rig.runner.close()
    _, guilty = rig.submit([POISON])
    assert rig.runner.entered.wait(DEADLINE_S)
    _, waiting = rig.submit([1])
    rig.runner.gate.set()
    for sink in (guilty, waiting):
        assert "illegal memory access" in str(sink.wait().error)
    assert rig.loop.failure is not None


def test_a_token_that_the_tokenizer_can_not_read_fails_its_own_request_only(rig: Rig) -> None:
    _, guilty = rig.submit([1], greedy(3), unreadable=frozenset({3}))
    _, innocent = rig.submit([2])
    assert innocent.wait().ids == [3, 4, 5]
    assert guilty.wait().ids == [2]
    assert "no such token" in str(guilty.error)


def test_a_sink_that_raises_ends_its_own_request_only(rig: Rig) -> None:
    class Broken(Recorder):
        def token(self, token: object) -> None:
            raise RuntimeError("Event loop is closed")

    rig.submit([1], sink=Broken())
    _, healthy = rig.submit([2])
    assert healthy.wait().ids == [3, 4, 5]
    eventually(lambda: rig.loop.queue() == (0, 0, 0))


def test_one_handle_carries_one_request_at_a_time(rig: Rig) -> None:
    rig.runner.close()
    handle, first = rig.submit([1], greedy(2))
    with pytest.raises(ValueError, match="a request is running on KV handle"):
        rig.loop.submit(rig.sequence(handle, [2], greedy(2), Recorder()))
    rig.runner.gate.set()
    assert first.wait().ids == [2, 3]


def test_a_request_on_a_released_handle_is_dropped(rig: Rig) -> None:
    handle = rig.reservations.reserve(8)
    rig.reservations.release(handle)
    rig.loop.submit(rig.sequence(handle, [1], greedy(2), Recorder()))
    eventually(lambda: rig.loop.queue() == (0, 0, 0))
    assert rig.runner.steps == []


def test_the_queue_is_told_as_it_is(rig: Rig) -> None:
    rig.runner.close()
    for _ in range(5):
        rig.submit([1] * 6)
    assert rig.runner.entered.wait(DEADLINE_S)
    eventually(lambda: rig.loop.queue()[0] > 0)
    running, waiting, unread = rig.loop.queue()
    assert (running + waiting, unread) == (5, 30)


def test_the_heart_beats_when_idle_and_stops_while_a_step_hangs(rig: Rig, monkeypatch) -> None:
    monkeypatch.setattr(batch_loop, "_IDLE_S", 0.01)
    rig.submit([1])[1].wait()
    time.sleep(0.3)
    assert rig.loop.heartbeat_age() < 0.25
    rig.runner.close()
    rig.submit([1])
    assert rig.runner.entered.wait(DEADLINE_S)
    before = rig.loop.heartbeat_age()
    time.sleep(0.05)
    assert rig.loop.heartbeat_age() >= before + 0.05


def test_stopping_fails_what_is_left_and_refuses_more(rig: Rig) -> None:
    rig.runner.close()
    _, running = rig.submit([1])
    assert rig.runner.entered.wait(DEADLINE_S)
    _, waiting = rig.submit([2])
    threading.Timer(0.05, rig.runner.gate.set).start()
    rig.loop.stop()
    rig.loop.stop()
    for sink in (running, waiting):
        assert "stopped" in str(sink.wait().error)
    with pytest.raises(TandemError, match="stopped"):
        rig.submit([3])


def test_a_window_holds_what_was_measured_since_the_last_one(rig: Rig) -> None:
    rig.submit([1, 2, 3], greedy(4))[1].wait()
    eventually(lambda: rig.loop.queue() == (0, 0, 0))
    window = Window(second=0, source="", deployment="")
    rig.loop.drain_window(window)
    assert window.counters == {Counter.PROMPT_TOKENS: 3, Counter.OUTPUT_TOKENS: 4}
    assert window.latencies[Latency.STEP].total == 4
    empty = Window(second=0, source="", deployment="")
    rig.loop.drain_window(empty)
    assert empty.empty


def test_each_layer_is_told_once_and_before_the_token_also_when_a_step_is_repeated(rig: Rig) -> None:
    sink = Recorder(ends_with_prefill=True)
    rig.runner.close()
    _, first = rig.submit([9], greedy(1))
    assert rig.runner.entered.wait(DEADLINE_S)
    rig.submit([1, POISON])
    rig.submit([1, 2, 3], sink=sink, prefill_only=True, report_progress=True, by_layer=True)
    rig.runner.gate.set()
    assert sink.wait().ids == [4]
    assert first.wait().ids == [10]
    assert [(chunk.start, chunk.end, chunk.layers) for chunk in sink.chunks] == [
        (0, 3, range(0, 1)),
        (0, 3, range(1, 2)),
    ]


# -- KV that is shared -------------------------------------------------------------------------------------


def test_a_cached_beginning_is_copied_told_first_and_not_computed(rig: Rig) -> None:
    prompt = list(range(20))
    rig.submit(prompt)[1].wait()
    sink = Recorder(ends_with_prefill=True)
    handle, _ = rig.submit(prompt, sink=sink, prefill_only=True, report_progress=True)
    assert handle.cached_tokens == 16
    assert sink.wait().ids == [20]
    assert [(chunk.start, chunk.end, chunk.done) for chunk in sink.chunks] == [(0, 16, False), (16, 20, True)]
    assert [span.length for span in rig.cache.copies] == [16]
    eventually(lambda: rig.loop.queue() == (0, 0, 0))
    window = Window(second=0, source="", deployment="")
    rig.loop.drain_window(window)
    assert window.counters[Counter.CACHED_TOKENS] == 16
    assert window.counters[Counter.PROMPT_TOKENS] == 24


def test_copies_are_made_without_waiting_for_a_request(rig: Rig) -> None:
    rig.submit(list(range(20)))[1].wait()
    used = rig.reservations.used_blocks
    handle = rig.reservations.reserve(20, list(range(20)))
    rig.loop.wake()
    eventually(lambda: bool(rig.cache.copies))
    eventually(lambda: rig.reservations.used_blocks == used + 5)
    rig.release(handle)


def test_a_request_that_failed_leaves_no_kv_to_be_found(rig: Rig) -> None:
    prompt = [*range(8), *[NAN] * 8]
    assert rig.submit(prompt)[1].wait().error is not None
    assert rig.submit(prompt)[0].cached_tokens == 0


# -- several answers to one prompt ---------------------------------------------------------------------------


def by_answer(sink: Recorder) -> dict[int, list[int]]:
    ids: dict[int, list[int]] = {}
    for token in sink.tokens:
        ids.setdefault(token.answer, []).append(token.token_id)
    return ids


def test_a_prompt_is_read_once_for_all_its_answers(rig: Rig) -> None:
    _, sink = rig.submit([1, 2, 3], greedy(3, n=3))
    eventually(lambda: len(sink.tokens) == 9)
    assert by_answer(sink) == {n: [4, 5, 6] for n in range(3)}
    assert sink.starts == 1
    assert [len(step) for step in rig.runner.steps] == [1, 3, 3]
    assert [span.length for span in rig.cache.copies] == [4, 4]


def test_each_answer_ends_for_itself(rig: Rig) -> None:
    _, sink = rig.submit([1], greedy(1, n=2))
    eventually(lambda: len(sink.tokens) == 2)
    assert [token.finish for token in sink.tokens] == [FinishReason.LENGTH] * 2
    eventually(lambda: rig.loop.queue() == (0, 0, 0))


def test_a_prefill_makes_the_first_token_of_every_answer_and_copies_nothing(rig: Rig) -> None:
    _, sink = rig.submit([1, 2], greedy(5, n=2), prefill_only=True)
    eventually(lambda: len(sink.tokens) == 2)
    assert by_answer(sink) == {0: [3], 1: [3]}
    eventually(lambda: rig.loop.queue() == (0, 0, 0))
    assert rig.cache.copies == []


def test_releasing_ends_all_answers(rig: Rig) -> None:
    handle, sink = rig.submit([1], greedy(50, n=3))
    eventually(lambda: len(sink.tokens) > 6)
    rig.release(handle)
    eventually(lambda: rig.loop.queue() == (0, 0, 0))
    eventually(lambda: rig.reservations.used_blocks == 0)


def test_one_answer_that_can_not_be_computed_ends_the_request_once(rig: Rig) -> None:
    rig.runner.close()
    _, sink = rig.submit([1], greedy(5, n=2))
    failures: list[Exception] = []
    sink.failed = failures.append
    assert rig.runner.entered.wait(DEADLINE_S)
    rig.runner.poison = 2
    rig.runner.gate.set()
    eventually(lambda: rig.loop.queue() == (0, 0, 0))
    assert len(failures) == 1
