"""The stub must fail where a model would: tests of everything else lean on it."""

import queue
import time

import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.prompts import TextPrompt
from inference.contracts.sampling import Sampling
from inference.contracts.states import FinishReason
from inference.engine.interface import Engine, Progress, Token
from inference.testing.faults import Fault, FaultKind, FaultPlan, FaultPoint
from inference.testing.stub_engine import StubEngine
from inference.testing.stub_kv import LAYERS
from inference.testing.stub_settings import StubSettings
from inference.testing.stub_text import AnswerText

GREEDY = Sampling(max_tokens=6, temperature=0.0)
IDS = list(b"a prompt of more than one chunk and block")


class Told:
    """A sink that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: queue.Queue[object] = queue.Queue()
        self.ranges: list[Progress] = []

    def started(self) -> None: ...

    def token(self, token: Token) -> None:
        self.heard.put(token)

    def progress(self, progress: Progress) -> None:
        self.ranges.append(progress)

    def failed(self, error: Exception) -> None:
        self.heard.put(error)

    def next(self):
        return self.heard.get(timeout=5)

    def answer(self) -> list[int]:
        ids = []
        while True:
            token = self.next()
            ids.append(token.token_id)
            if token.finish is not None:
                return ids


@pytest.fixture
def engine():
    stub = StubEngine()
    stub.start()
    yield stub
    stub.stop()


def generate(engine: Engine, ids=IDS, sampling=GREEDY) -> list[int]:
    handle, told = engine.reserve(len(ids) + sampling.max_tokens), Told()
    engine.generate(handle, ids, sampling, told)
    answer = told.answer()
    engine.release(handle)
    return answer


def resume(engine: StubEngine, kv: bytes, first: int) -> list[int]:
    handle, told = engine.reserve(len(IDS) + 6), Told()
    engine.import_kv(handle, range(LAYERS), 0, len(IDS), memoryview(kv))
    engine.resume(handle, IDS, (first,), GREEDY, told)
    answer = [first, *told.answer()]
    engine.release(handle)
    return answer


def prefill(engine: StubEngine) -> tuple[bytes, int, Told]:
    handle, told = engine.reserve(len(IDS)), Told()
    engine.prefill(handle, IDS, GREEDY, told, report_progress=True)
    first = told.next().token_id
    kv = b"".join(engine.export_kv(handle, range(LAYERS), 0, len(IDS)))
    engine.release(handle)
    return kv, first, told


def test_an_answer_depends_on_the_prompt_alone(engine):
    other = StubEngine()
    other.start()
    assert generate(engine) == generate(engine) == generate(other)
    assert generate(engine, IDS[:-1]) != generate(engine)
    other.stop()


def test_kv_that_came_over_answers_as_kv_made_here(engine):
    kv, first, _ = prefill(engine)
    assert resume(engine, kv, first) == generate(engine)


@pytest.mark.parametrize("at", [0, 700, -1])
def test_one_wrong_byte_of_kv_is_another_answer(engine, at):
    kv, first, _ = prefill(engine)
    damaged = bytearray(kv)
    damaged[at] ^= 1
    assert resume(engine, bytes(damaged), first) != generate(engine)


def test_kv_that_never_came_is_another_answer(engine):
    kv, first, _ = prefill(engine)
    assert resume(engine, bytes(len(kv)), first) != generate(engine)


def test_progress_covers_the_prompt_in_order(engine):
    _, _, told = prefill(engine)
    assert [(p.start, p.end) for p in told.ranges] == [(0, 16), (16, 32), (32, len(IDS))]
    assert [p.done for p in told.ranges] == [False, False, True]


def test_progress_may_be_told_of_each_layer(engine):
    handle, told = engine.reserve(len(IDS)), Told()
    engine.prefill(handle, IDS, GREEDY, told, report_progress=True, by_layer=True)
    told.next()
    chunks = [(0, 16), (16, 32), (32, len(IDS))]
    assert [(p.start, p.end, p.layers) for p in told.ranges] == [
        (start, end, range(layer, layer + 1)) for start, end in chunks for layer in range(LAYERS)
    ]


def test_kv_may_travel_layer_by_layer(engine):
    handle, told = engine.reserve(len(IDS)), Told()
    engine.prefill(handle, IDS, GREEDY, told, report_progress=True)
    told.next()
    target = engine.reserve(len(IDS))
    for layer in range(LAYERS):
        for start, end in ((0, 10), (10, len(IDS))):
            one = range(layer, layer + 1)
            kv = b"".join(engine.export_kv(handle, one, start, end))
            engine.import_kv(target, one, start, end, memoryview(kv))
    whole = (range(LAYERS), 0, len(IDS))
    assert b"".join(engine.export_kv(target, *whole)) == b"".join(engine.export_kv(handle, *whole))


def test_kv_of_the_wrong_size_is_refused(engine):
    handle = engine.reserve(16)
    with pytest.raises(ValueError, match="do not fit"):
        engine.import_kv(handle, range(LAYERS), 0, 16, memoryview(bytes(16 * 64 - 1)))
    with pytest.raises(ValueError, match="do not fit"):
        engine.import_kv(handle, range(LAYERS), 8, 24, memoryview(bytes(16 * 64)))


def test_a_released_handle_is_gone(engine):
    handle = engine.reserve(16)
    engine.release(handle)
    engine.release(handle)
    with pytest.raises(ValueError, match="not reserved"):
        engine.export_kv(handle, range(LAYERS), 0, 1)
    assert engine.load().kv_blocks_used == 0


def test_release_ends_the_request_that_runs_on_it():
    engine = StubEngine(StubSettings(decode_s_per_token=0.005))
    engine.start()
    handle, told = engine.reserve(1000), Told()
    engine.generate(handle, IDS, Sampling(max_tokens=500), told)
    told.next()
    engine.release(handle)
    deadline = time.monotonic() + 2
    while engine.load().running and time.monotonic() < deadline:
        time.sleep(0.005)
    assert (engine.load().running, engine.load().kv_blocks_used) == (0, 0)
    engine.stop()


def test_stopping_fails_what_runs_and_is_idempotent():
    told = Told()
    slow = StubEngine(StubSettings(prefill_s_per_token=10))
    slow.start()
    slow.generate(slow.reserve(100), IDS, GREEDY, told)
    slow.stop()
    slow.stop()
    assert isinstance(told.next(), TandemError)


def test_prompts_become_bytes(engine):
    assert engine.tokenize(TextPrompt(text="é")) == [0xC3, 0xA9]


def test_faults_strike_as_often_as_planted():
    plan = FaultPlan([Fault(point=FaultPoint.MID_DECODE, kind=FaultKind.REFUSE, after=1, times=2)])
    struck = [plan.strike(FaultPoint.MID_DECODE) is not None for _ in range(5)]
    assert struck == [False, True, True, False, False]
    assert plan.strike(FaultPoint.BEFORE_PREFILL) is None


def test_a_refused_request_leaves_the_others_alone(engine):
    engine.faults.plant(Fault(point=FaultPoint.BEFORE_PREFILL, kind=FaultKind.REFUSE))
    told = Told()
    engine.generate(engine.reserve(100), IDS, GREEDY, told)
    error = told.next()
    assert isinstance(error, TandemError)
    assert error.code is ErrorCode.ENGINE_FAILED
    assert len(generate(engine)) == 6


def test_scripted_pieces_are_the_answer():
    engine = StubEngine(StubSettings(pieces=(b"one", b" two")))
    engine.start()
    handle, told = engine.reserve(100), Told()
    engine.generate(handle, IDS, GREEDY, told)
    tokens = [told.next() for _ in range(3)]
    assert [token.text for token in tokens] == ["one", " two", ""]
    assert tokens[-1].finish is FinishReason.STOP
    engine.stop()


def test_text_is_held_back_until_it_is_certain():
    text = AnswerText(("END", "ENOUGH"))
    assert text.feed(b"so E") == ("so ", False)
    assert text.feed(b"N") == ("", False)
    assert text.feed(b"X\xed") == ("ENX", False)
    assert text.feed(b"\x95\x9c") == ("한", False)
    assert text.feed(b" EN") == (" ", False)
    assert text.feed(b"OUGH!") == ("", True)
