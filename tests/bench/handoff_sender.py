"""The prefill side of the hand-off's bench: a process of its own, on a core of its own, that does what it is told.

    python -m tests.bench.handoff_sender MODEL CORE

Orders come on standard input and answers leave on standard output, one JSON a line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from inference.contracts.reports import Address
from inference.contracts.sampling import Sampling
from inference.contracts.specs import EngineSettings
from inference.contracts.states import KVTransport, Role
from inference.engine.interface import KVHandle, Progress
from inference.engine.native import NativeEngine
from inference.process.logs import configure_logging
from inference.transfer.base import FirstTokens, PushOrder, TransferCounters, TransferLimits, TransferSettings
from inference.transfer.sender import KVSender
from inference.worker.sink import RequestSink

SECRET = "of-the-bench"
KV_TOKENS = 8192
CHUNK_TOKENS = 256
SAMPLING = Sampling(max_tokens=2, temperature=0.0, ignore_eos=True)
#: Beyond what a slow link needs for everything.
LIMITS = TransferLimits(frame_s=30, verdict_s=60)


def bench_engine(model: Path, role: Role) -> NativeEngine:
    """With one thread, and without a prefix cache: every prompt is read and sent anew."""
    settings = EngineSettings(
        kv_tokens=KV_TOKENS, prefill_chunk_tokens=CHUNK_TOKENS, threads=1, dtype="float32", prefix_cache=False
    )
    return NativeEngine(str(model), "bench", role, settings, device="cpu", threads=1)


class Prefiller:
    """held: KV of the last prompt that was read, to be sent as often as wanted."""

    def __init__(self, model: Path) -> None:
        self._engine = bench_engine(model, Role.PREFILL)
        self._engine.start()
        self._senders: dict[str, KVSender] = {}
        self._held: tuple[KVHandle, list[int]] | None = None

    async def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        acts = {"prefill": self.prefill, "push": self.push, "stream": self.stream, "pour": self.pour}
        act: Callable[..., Any] = acts[order.pop("do")]
        return await act(**order)

    async def prefill(self, tokens: list[int]) -> dict[str, Any]:
        """Read a prompt; CPU seconds, which others on the machine do not change much."""
        if self._held is not None:
            self._engine.release(self._held[0])
        handle = self._engine.reserve(len(tokens))
        self._held = (handle, tokens)
        sink = RequestSink()
        began, wall = _cpu_s(), time.monotonic()
        self._engine.prefill(handle, tokens, SAMPLING, sink, report_progress=False)
        await sink.next_token()
        return {"cpu_s": _cpu_s() - began, "wall_s": time.monotonic() - wall}

    async def push(self, ticket: str, port: int, transport: str, first: int) -> dict[str, Any]:
        """Hand over what is held, its first `first` tokens; seconds from the first frame until it was accepted."""
        if self._held is None:
            raise RuntimeError("nothing was read that could be sent")
        handle, tokens = self._held
        computed: asyncio.Queue[Any] = asyncio.Queue()
        computed.put_nowait(Progress(start=0, end=first, done=True))
        computed.put_nowait(FirstTokens((0,)))
        order = PushOrder("bench", ticket, Address(host="127.0.0.1", port=port), tokens[:first], handle)
        sender = self._sender(transport)
        began, cpu = time.monotonic(), _cpu_s()
        pushed = await sender.push(order, computed)
        seconds = time.monotonic() - began
        return {"seconds": seconds, "cpu_s": _cpu_s() - cpu, "bytes": pushed.bytes, "transport": pushed.transport.value}

    async def stream(self, ticket: str, port: int, tokens: list[int]) -> dict[str, Any]:
        """Read a prompt and hand it over meanwhile by TCP; seconds from its first token until it was accepted."""
        handle = self._engine.reserve(len(tokens))
        sink = RequestSink()
        order = PushOrder("bench", ticket, Address(host="127.0.0.1", port=port), tokens, handle)
        push = asyncio.create_task(self._sender("tcp").push(order, sink.computed))
        try:
            self._engine.prefill(handle, tokens, SAMPLING, sink, report_progress=True)
            token = await sink.next_token()
            read = time.monotonic()
            sink.computed.put_nowait(FirstTokens((token.token_id,)))
            pushed = await push
            return {"exposed_s": time.monotonic() - read, "bytes": pushed.bytes, "busy_s": pushed.busy_s}
        finally:
            push.cancel()
            self._engine.release(handle)

    async def pour(self, port: int, size: int) -> dict[str, Any]:
        """Bytes into a plain socket, until one comes back: what TCP can do here, with nothing in them to check."""
        bytes_ = memoryview(bytearray(size))
        with socket.create_connection(("127.0.0.1", port)) as plain:
            plain.sendall(bytes_[:1])
            plain.recv(1)
            began = time.monotonic()
            for at in range(0, size, 1024 * 1024):
                plain.sendall(bytes_[at : at + 1024 * 1024])
            plain.recv(1)
            return {"seconds": time.monotonic() - began}

    def _sender(self, transport: str) -> KVSender:
        if transport not in self._senders:
            wanted = (KVTransport(transport), KVTransport.TCP)
            self._senders[transport] = KVSender(
                secret=SECRET,
                engine=self._engine,
                counters=TransferCounters(),
                limits=LIMITS,
                settings=TransferSettings(transports=wanted),
            )
        return self._senders[transport]

    async def close(self) -> None:
        for sender in self._senders.values():
            await sender.close()
        self._engine.stop()


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def _serve(model: Path, out: Any) -> None:
    prefiller = Prefiller(model)
    out.write(json.dumps(msgspec.to_builtins(prefiller._engine.info)).encode() + b"\n")
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        out.write(json.dumps(await prefiller.obey(json.loads(line))).encode() + b"\n")
    await prefiller.close()


def main() -> None:
    os.sched_setaffinity(0, {int(sys.argv[2])})
    configure_logging({"TANDEM_LOG_LEVEL": "ERROR", **os.environ})
    with contextlib.suppress(BrokenPipeError), os.fdopen(os.dup(1), "wb", buffering=0) as out:
        os.dup2(2, 1)  # whatever a library prints is no answer
        asyncio.run(_serve(Path(sys.argv[1]), out))


if __name__ == "__main__":
    main()
