"""The hand-off against what the machine can do: one prefill process and one decode process, each on a core.

    measure(model) -> list[Row]      about a minute; samples of what is compared alternate

Rows: a hand-off of 2,048 tokens as a share of the time that one core needs to read them (shared memory, TCP); bandwidth
against copying as many bytes with one core (16 MB and 94 MB, shared memory, TCP, NIXL where it can be installed), and
in the note what bounds it: copying with a checksum in the same pass, and a plain socket between the same two cores; and
what of a transfer over a link of 100 MB/s is left after the first token, when chunks leave while the next are read.

    python -m tests.bench.handoff MODEL
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address
from inference.contracts.states import Role
from inference.engine.native import NativeEngine
from inference.transfer.base import TransferCounters
from inference.transfer.receiver import KVReceiver
from inference.transfer.tickets import HeldTicket, TicketTable
from tests.bench.handoff_sender import LIMITS, SAMPLING, SECRET, bench_engine
from tests.bench.rows import Row, missing
from tests.bench.slow_link import SlowLink

ROOT = Path(__file__).resolve().parents[2]
NIXL = ROOT / "build" / "bench" / "peers" / "nixl"
NIXL_PINS = ("nixl==1.5.1", "nixl-cu12==1.5.1")

TOKENS = 2048
#: KV of so many tokens of SmolLM2 in fp32 is 16.8 MB.
SMALL = 364
ROUNDS = 15
SLOW_ROUNDS = 3
LINK_BYTES_PER_S = 100e6
_SWEPT_BYTES = 256 * 2**20
_PIECE_BYTES = 256 * 1024

SHARES = {"shared_memory": 0.02, "tcp": 0.05}
BANDWIDTHS = {"shared_memory": 0.80, "tcp": 0.50}
EXPOSED = 0.25


class Pair:
    """A decode engine and a receiver here, and a prefill process beside."""

    def __init__(self, engine: NativeEngine, child: asyncio.subprocess.Process) -> None:
        self._engine = engine
        self._child = child
        self.tickets = TicketTable(
            reserve=engine.reserve, release=engine.release, lease_s=120, limit=4, clock=time.monotonic
        )
        self.receiver = KVReceiver(
            secret=SECRET, engine=engine, tickets=self.tickets, counters=TransferCounters(), limits=LIMITS
        )
        self.port = 0

    async def ask(self, **order: object) -> dict[str, Any]:
        if self._child.stdin is None or self._child.stdout is None:
            raise RuntimeError("the prefill process has no pipes")
        self._child.stdin.write(json.dumps(order).encode() + b"\n")
        async with asyncio.timeout(120):
            line = await self._child.stdout.readline()
        if not line:
            raise RuntimeError("the prefill process died; its errors are above")
        return json.loads(line)

    @contextlib.contextmanager
    def ticket(self, tokens: list[int]) -> Any:
        held: HeldTicket = self.tickets.issue("bench", tokens, SAMPLING)
        try:
            yield held.ticket_id
        finally:
            self.tickets.abort(held, TandemError(ErrorCode.CANCELLED, "measured"))

    async def push(self, transport: str, tokens: list[int], port: int = 0) -> dict[str, Any]:
        with self.ticket(tokens) as ticket:
            done = await self.ask(
                do="push", ticket=ticket, port=port or self.port, transport=transport, first=len(tokens)
            )
        if done["transport"] != transport:
            raise RuntimeError(f"{transport} was to be measured, and {done['transport']} was used")
        return done

    async def stream(self, tokens: list[int], port: int) -> dict[str, Any]:
        with self.ticket(tokens) as ticket:
            return await self.ask(do="stream", ticket=ticket, port=port, tokens=tokens)


@contextlib.asynccontextmanager
async def pair(model: Path, *, nixl: bool) -> AsyncIterator[Pair]:
    cores = sorted(os.sched_getaffinity(0))
    environment = dict(os.environ)
    if nixl:
        sys.path.append(str(NIXL))
        environment |= {"PYTHONPATH": f"{ROOT}:{ROOT / 'platform'}:{NIXL}", "UCX_TLS": "tcp,cma,self"}
        os.environ["UCX_TLS"] = environment["UCX_TLS"]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.handoff_sender", str(model), str(cores[0]),
        cwd=ROOT, env=environment, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**24,
    )  # fmt: skip
    os.sched_setaffinity(0, {cores[-1]})
    engine = bench_engine(model, Role.DECODE)
    try:
        await asyncio.to_thread(engine.start)
        if child.stdout is None or not await asyncio.wait_for(child.stdout.readline(), 120):
            raise RuntimeError("the prefill process did not start; its errors are above")
        both = Pair(engine, child)
        both.port = await both.receiver.listen("127.0.0.1")
        try:
            yield both
        finally:
            await both.receiver.close()
    finally:
        os.sched_setaffinity(0, set(cores))
        engine.stop()
        if child.stdin is not None:
            child.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), 20)
        if child.returncode is None:
            child.kill()
            await child.wait()


def install_nixl() -> str:
    """Put NIXL among the bench's peers; why that can't be, or nothing."""
    if not (NIXL / "nixl").exists():
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(NIXL), *NIXL_PINS],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        if done.returncode:
            return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "pip failed"
    return ""


class Memcpy:
    """Copies with one core."""

    def __init__(self, size: int) -> None:
        self._source = np.ones(size, np.uint8)
        self._target = np.zeros(size, np.uint8)
        self._sweep = np.zeros(_SWEPT_BYTES, np.uint8)

    def sweep(self) -> None:
        """Empty the processor's caches: KV arenas are far bigger, so what is handed over seldom lies in them."""
        self._sweep += 1

    def seconds(self) -> float:
        began = time.perf_counter()
        np.copyto(self._target, self._source)
        return time.perf_counter() - began

    def checked_seconds(self) -> float:
        """The least that a receiver has to do: a checksum of what then lies in its own memory, in the same pass."""
        began = time.perf_counter()
        digest = xxhash.xxh3_64()
        for at in range(0, len(self._source), _PIECE_BYTES):
            piece = self._target[at : at + _PIECE_BYTES]
            np.copyto(piece, self._source[at : at + _PIECE_BYTES])
            digest.update(piece)
        return time.perf_counter() - began


async def plain_socket_seconds(both: Pair, size: int) -> float:
    """TCP between the same two cores with neither frames nor checksums."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        pouring = asyncio.create_task(both.ask(do="pour", port=server.getsockname()[1], size=size))
        await asyncio.to_thread(_take, server, size)
        return float((await pouring)["seconds"])


def _take(server: socket.socket, size: int) -> None:
    connection, _ = server.accept()
    buffer = bytearray(_PIECE_BYTES)
    with connection:
        connection.recv(1)
        connection.sendall(b"!")
        while size > 0:
            size -= connection.recv_into(buffer)
        connection.sendall(b"!")


async def bandwidth(both: Pair, prompt: list[int], count: int, transports: list[str]) -> list[Row]:
    """Bytes a second of hand-offs of the first `count` tokens, and of copies of as many bytes, turn by turn."""
    tokens = prompt[:count]
    size = int((await both.push("tcp", tokens))["bytes"])
    memcpy = Memcpy(size)
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    failed: dict[str, str] = {}
    for transport in list(transports):
        try:
            await both.push(transport, tokens)
        except RuntimeError as error:
            failed[transport] = str(error)
    gc.collect()
    for _ in range(ROUNDS):
        memcpy.sweep()
        seconds["memcpy"].append(memcpy.seconds())
        memcpy.sweep()
        seconds["copy and checksum"].append(memcpy.checked_seconds())
        memcpy.sweep()
        seconds["plain socket"].append(await plain_socket_seconds(both, size))
        for transport in transports:
            if transport not in failed:
                memcpy.sweep()
                seconds[transport].append((await both.push(transport, tokens))["seconds"])
    copied = size / statistics.median(seconds["memcpy"]) / 1e9
    rates = {name: size / statistics.median(seconds[name]) / 1e9 for name in ("copy and checksum", "plain socket")}
    bounds = ", ".join(f"{name}: {rate:.1f} GB/s" for name, rate in rates.items())
    rows = []
    for transport in transports:
        name = f"hand-off bandwidth, {size / 1e6:.0f} MB, {transport.replace('_', ' ')}"
        target = BANDWIDTHS.get(transport)
        if transport in failed:
            rows.append(missing(name, failed[transport], unit="GB/s", target=target))
            continue
        sent = size / statistics.median(seconds[transport]) / 1e9
        rows.append(
            Row(
                name=name, unit="GB/s", value=sent, compared_with="memcpy, one core", reference=copied,
                ratio=sent / copied, target=target, judged="share", note=bounds,
                details={"bytes": size, "samples_s": seconds[transport], **seconds},
            )
        )  # fmt: skip
    return rows


async def share_of_prefill(both: Pair, prompt: list[int], transports: list[str]) -> list[Row]:
    """Seconds of handing a prompt over, and CPU seconds of one core for reading it."""
    prefills, handoffs = [], defaultdict(list)
    for _ in range(2):
        prefills.append((await both.ask(do="prefill", tokens=prompt))["cpu_s"])
        for _ in range(5):
            for transport in transports:
                handoffs[transport].append((await both.push(transport, prompt))["seconds"])
    prefill_s = statistics.median(prefills)
    rows = []
    for transport in transports:
        handoff_s = statistics.median(handoffs[transport])
        rows.append(
            Row(
                name=f"hand-off of {len(prompt):,} tokens, {transport.replace('_', ' ')}", unit="ms",
                value=handoff_s * 1e3, compared_with="prefill, one core", reference=prefill_s * 1e3,
                ratio=handoff_s / prefill_s, target=SHARES[transport], better="at most", judged="share",
                details={"samples_s": handoffs[transport], "prefill_cpu_s": prefills},
            )
        )  # fmt: skip
    return rows


async def exposed(both: Pair, prompt: list[int]) -> list[Row]:
    """What of the transfer over a slow link is left after the first token: chunks leave while the next are read."""
    whole_s, exposed_s = [], []
    with SlowLink(Address(host="127.0.0.1", port=both.port), LINK_BYTES_PER_S) as link:
        for _ in range(SLOW_ROUNDS):
            await both.ask(do="prefill", tokens=prompt)
            whole_s.append((await both.push("tcp", prompt, link.address.port))["seconds"])
            exposed_s.append((await both.stream(prompt, link.address.port))["exposed_s"])
    left, whole = statistics.median(exposed_s), statistics.median(whole_s)
    return [
        Row(
            name=f"exposed transfer, {len(prompt):,} tokens at {LINK_BYTES_PER_S / 1e6:.0f} MB/s", unit="ms",
            value=left * 1e3, compared_with="whole transfer", reference=whole * 1e3, ratio=left / whole,
            target=EXPOSED, better="at most", judged="share", details={"samples_s": exposed_s, "whole_s": whole_s},
        )
    ]  # fmt: skip


async def _measure(model: Path) -> list[Row]:
    why_no_nixl = install_nixl()
    dice = random.Random(0)
    prompt = [dice.randrange(1000, 40_000) for _ in range(TOKENS)]
    async with pair(model, nixl=not why_no_nixl) as both:
        rows = await share_of_prefill(both, prompt, ["shared_memory", "tcp"])
        rows += await exposed(both, prompt)
        for count in (SMALL, TOKENS):
            rows += await bandwidth(both, prompt, count, ["shared_memory", "tcp"])
        if not why_no_nixl:  # last, since its thread takes time from the others
            rows += [row for count in (SMALL, TOKENS) for row in await bandwidth(both, prompt, count, ["nixl"])]
    if why_no_nixl:
        rows.append(missing("hand-off bandwidth, NIXL", why_no_nixl))
    return rows


def measure(model: Path) -> list[Row]:
    """See the module. Raises `RuntimeError` when the prefill process fails."""
    return asyncio.run(_measure(model))


if __name__ == "__main__":
    for row in measure(Path(sys.argv[1])):
        share = "" if row.ratio is None else f"{row.ratio:7.1%}"
        print(f"{row.name:60} {row.value or 0:9.2f} {row.unit:5} {row.reference or 0:9.2f} {share} {row.note}")
