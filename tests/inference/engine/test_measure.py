from __future__ import annotations

import io

import pytest

from inference.contracts.errors import TandemError
from inference.contracts.states import Role
from inference.engine import __main__ as command
from inference.engine.measure import prompt_seconds, step_seconds
from tests.inference.engine.conftest import EngineBuilder


def test_prompts_and_steps_are_timed_and_leave_nothing_behind(start_engine: EngineBuilder) -> None:
    engine = start_engine(prefix_cache=False, prefill_chunk_tokens=0)
    assert prompt_seconds(engine, 100, seed=0) > 0
    assert step_seconds(engine, answers=3, context=20, steps=4, seed=0) > 0
    assert engine.load().kv_blocks_used == 0


def test_a_measurement_that_fails_says_why(start_engine: EngineBuilder) -> None:
    engine = start_engine(kv_tokens=64)
    with pytest.raises(TandemError, match="free now"):
        step_seconds(engine, answers=3, context=40, steps=4, seed=0)
    assert engine.load().kv_blocks_used == 0


@pytest.mark.parametrize(("role", "lines"), [(Role.UNIFIED, 3), (Role.PREFILL, 2), (Role.DECODE, 1)])
def test_the_bench_measures_what_the_role_does(
    start_engine: EngineBuilder, monkeypatch: pytest.MonkeyPatch, role: Role, lines: int
) -> None:
    monkeypatch.setattr(command, "_PROMPTS", (8, 16, 10_000))
    monkeypatch.setattr(command, "_BATCHES", (2, 1000))
    monkeypatch.setattr(command, "_CONTEXT", 16)
    monkeypatch.setattr(command, "_STEPS", 3)
    out = io.StringIO()
    command.bench(start_engine(prefix_cache=False), role, out)
    assert len(out.getvalue().splitlines()) == lines


def test_a_model_that_is_none_is_said_and_not_traced(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["no/such/directory/at/all"]) == 1
    assert "no such directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--max-tokens", "0"], "--max-tokens: is 1 or more, not 0"),
        (["--temperature", "5"], "--temperature: is 0 to 2, not 5"),
        (["--dtype", "int8"], "--dtype: invalid choice: 'int8'"),
        (["--threads", "-1"], "--threads: is 0 or more, not -1"),
    ],
)
def test_options_out_of_range_are_refused_before_anything_is_loaded(
    capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    with pytest.raises(SystemExit):
        command.main(["model", *options])
    assert said in capsys.readouterr().err


def test_what_this_machine_lacks_is_said_and_not_traced(tiny_model, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(tiny_model("llama")), "--threads", "1", "--kv-tokens", str(10**10)]) == 1
    assert "no memory on cpu for a KV arena" in capsys.readouterr().err.splitlines()[-1]


def test_a_decode_engine_has_nothing_to_chat_about() -> None:
    with pytest.raises(SystemExit):
        command.main(["model", "--role", "decode"])
