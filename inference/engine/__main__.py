"""The engine without a platform around it: a chat in the terminal, or its speed on this machine.

python -m inference.engine MODEL                 a chat
python -m inference.engine MODEL --bench         figures
python -m inference.engine MODEL --role prefill  only reads prompts, and tells what it would hand over

A small model to begin with: python -m inference.engine.default_model --out data/models/SmolLM2-135M-Instruct
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

from inference.contracts.bounds import DTYPES
from inference.contracts.errors import TandemError
from inference.contracts.sampling import Sampling
from inference.contracts.specs import EngineSettings
from inference.contracts.states import Role
from inference.engine.interface import Engine
from inference.engine.measure import prompt_seconds, step_seconds
from inference.engine.native import NativeEngine
from inference.engine.terminal import Chat
from inference.process.logs import configure_logging

_PROMPTS = (128, 512, 1900)
_BATCHES = (1, 4, 8, 16)
_CONTEXT, _STEPS, _ROUNDS = 512, 24, 3


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    role = Role(options.role)
    if role is Role.DECODE and not options.bench:
        parser.error("a decode engine writes answers to prompts that another engine read: use --bench, or another role")
    configure_logging(os.environ)
    settings = EngineSettings(
        dtype=options.dtype,
        threads=options.threads,
        kv_tokens=options.kv_tokens,
        prefill_chunk_tokens=options.chunk,
        prefix_cache=not options.bench,
    )
    engine = NativeEngine(options.model, options.model, role, settings, device=options.device)
    try:
        engine.start()
        if options.bench:
            bench(engine, role, sys.stdout)
        else:
            sampling = Sampling(max_tokens=options.max_tokens, temperature=options.temperature, seed=options.seed)
            Chat(engine, role, sampling, sys.stdout, as_text=options.text).run(_typed_lines())
    except TandemError as error:
        return _failed(error.message)
    except (RuntimeError, MemoryError, OSError) as error:  # no such device, no room, no hub: what they say is enough
        return _failed(str(error))
    except KeyboardInterrupt:
        return 130
    finally:
        engine.stop()
    return 0


def _failed(reason: str) -> int:
    sys.stderr.write(f"{reason}\n")
    return 1


def bench(engine: Engine, role: Role, out: TextIO) -> None:
    """Write how fast `engine` does what `role` does: the best of a few rounds, as others only ever slow it down."""
    room = engine.info.kv_blocks_total * engine.info.block_size
    if role is not Role.DECODE:
        for tokens in (n for n in _PROMPTS if n < engine.info.context_length):
            seconds = min(prompt_seconds(engine, tokens, seed) for seed in range(_ROUNDS))
            out.write(f"prompt of {tokens:5} tokens  {seconds * 1000:8.1f} ms  {tokens / seconds:8.0f} tokens/s\n")
    if role is not Role.PREFILL:
        for answers in (n for n in _BATCHES if n * (_CONTEXT + _STEPS + n + 1) < room):
            seconds = min(step_seconds(engine, answers, _CONTEXT, _STEPS, seed) for seed in range(_ROUNDS))
            rate = answers / seconds
            out.write(f"step of {answers:3} answers        {seconds * 1000:8.1f} ms  {rate:8.0f} tokens/s\n")


def _typed_lines() -> Iterator[str]:
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - arrow keys and a history for `input`
    while True:
        try:
            yield input("> ")
        except (EOFError, KeyboardInterrupt):
            return


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m inference.engine", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="a model directory, or a hub id")
    parser.add_argument("--role", choices=list(Role), default=Role.UNIFIED, help="what it does (unified: everything)")
    parser.add_argument("--bench", action="store_true", help="measure instead of chatting")
    parser.add_argument("--device", default="cpu", help='"cpu" or "cuda:<index>"')
    parser.add_argument("--dtype", default="auto", choices=DTYPES, help="of weights and KV")
    parser.add_argument("--threads", type=_at_least(0), default=0, help="CPU threads; 0 takes as many as help")
    parser.add_argument("--kv-tokens", type=_at_least(16), default=16384, help="tokens whose KV is kept")
    parser.add_argument("--chunk", type=_at_least(0), default=0, help="most prompt tokens of a step; 0: no limit")
    parser.add_argument("--max-tokens", type=_at_least(1), default=512, help="of one answer")
    parser.add_argument("--temperature", type=_temperature, default=0.0, help="0 (takes the likeliest token) to 2")
    parser.add_argument("--seed", type=int, default=0, help="of answers with a temperature")
    parser.add_argument("--text", action="store_true", help="continue what is typed, without the chat template")
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def whole(typed: str) -> int:
        number = int(typed)
        if number < least:
            raise argparse.ArgumentTypeError(f"is {least} or more, not {number}")
        return number

    return whole


def _temperature(typed: str) -> float:
    number = float(typed)
    if not 0 <= number <= 2:
        raise argparse.ArgumentTypeError(f"is 0 to 2, not {typed}")
    return number


if __name__ == "__main__":
    sys.exit(main())
