"""No engine is ready before it has made a token."""

from __future__ import annotations

import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.states import FinishReason
from inference.contracts.timings import Window
from inference.engine.first_token import generate_one_token
from inference.engine.model_runner import ModelRunner
from inference.testing.faults import Fault, FaultKind, FaultPoint
from inference.testing.stub_engine import StubEngine
from inference.testing.stub_settings import StubSettings
from tests.inference.engine.conftest import EngineBuilder


def test_the_first_token_leaves_no_blocks_and_no_figures_behind(start_engine: EngineBuilder) -> None:
    engine = start_engine()
    window = Window(second=0, source="", deployment="")
    engine.drain_window(window)
    assert window.empty
    load = engine.load()
    assert (load.running, load.waiting, load.kv_blocks_used) == (0, 0, 0)
    assert generate_one_token(engine, 60).finish is FinishReason.LENGTH


def test_an_engine_whose_model_computes_nothing_does_not_start(
    start_engine: EngineBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the comparison at load time can't see: here the arena of the real size is what does not work."""
    run = ModelRunner.run

    def fail(self, cache, pieces, on_layer=None):
        if cache._arena.shape[3] > 1024:
            raise RuntimeError("no kernel image is available")
        return run(self, cache, pieces, on_layer)

    monkeypatch.setattr(ModelRunner, "run", fail)
    with pytest.raises(TandemError, match="no kernel image") as failed:
        start_engine()
    assert failed.value.code is ErrorCode.ENGINE_FAILED


def test_an_engine_that_hangs_at_its_first_token_does_not_start() -> None:
    engine = StubEngine(StubSettings(faults=(Fault(point=FaultPoint.BEFORE_PREFILL, kind=FaultKind.HANG),)))
    engine.start()
    try:
        with pytest.raises(TimeoutError, match=r"within 0.05 s"):
            generate_one_token(engine, 0.05)
        assert engine.load().kv_blocks_used == 0
    finally:
        engine.stop()
