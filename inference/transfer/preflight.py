"""Whether two workers can hand KV over, and how fast, found out before the first request depends on it.

Everything is what serves later: the same connection, the same proof of the secret, the same choice of a transport, and
payloads read from the KV arena, checked by the receiver and thrown away.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address
from inference.contracts.worker import PairReport
from inference.engine.interface import EngineInfo, KVHandle
from inference.transfer import wire
from inference.transfer.base import KVSource, TransferLimits
from inference.transfer.lines import Line, Lines
from inference.transfer.link import as_tandem_error
from inference.transfer.places import Slice, needed

ROUND_TRIPS = 9
#: No more than one in so many of a worker's blocks is held for a preflight.
_SHARE_OF_BLOCKS = 8


async def preflight(
    lines: Lines, engine: KVSource, target: Address, size_bytes: int, limits: TransferLimits
) -> PairReport:
    """Reach the receiver at `target`, compare what both are, and time `size_bytes` of KV (or what fits into the free
    blocks). Whatever is wrong is a sentence in the report."""
    peer = f"the decode worker at {target.host}:{target.port}"
    try:
        async with asyncio.timeout(limits.open_s):
            line = await lines.connect(target)
    except (OSError, TandemError) as error:
        return PairReport(problems=(as_tandem_error(error, peer).message,))
    try:
        report = PairReport(
            problems=tuple(mismatches(engine.info, line.welcome)),
            transport=line.carrier.transport,
            missed=tuple(line.missed),
        )
        if report.problems:
            return report
        async with asyncio.timeout(limits.frame_s):
            return await _timed(report, line, engine, size_bytes)
    except (OSError, TandemError) as error:
        return PairReport(problems=(as_tandem_error(error, peer).message,), transport=line.carrier.transport)
    finally:
        line.close()


def mismatches(mine: EngineInfo, theirs: wire.Welcome) -> list[str]:
    """Why KV of `mine` can't be used by a worker that is `theirs`; the nearest causes, not their consequences."""
    if not theirs.fingerprint:
        return ["The decode worker is still loading its model."]
    said = [
        f"{what} differ: {ours} on the prefill worker, {others} on the decode worker."
        for what, ours, others in (
            ("Block sizes", mine.block_size, theirs.block_size),
            ("KV dtypes", mine.kv_dtype or "unknown", theirs.kv_dtype or "unknown"),
        )
        if ours != others
    ]
    if not said and mine.fingerprint != theirs.fingerprint:
        said.append(
            f"The models' KV differs (another model, revision or setting): {mine.fingerprint} on the prefill worker, "
            f"{theirs.fingerprint} on the decode worker."
        )
    return said


async def _timed(report: PairReport, line: Line, engine: KVSource, size_bytes: int) -> PairReport:
    info = engine.info
    most = info.kv_blocks_total * info.block_size // _SHARE_OF_BLOCKS
    held = _reserve(engine, max(1, min(size_bytes // info.kv_bytes_per_token, most)))
    if held is None:
        return report  # no block is free to send from: speed and latency stay unknown
    handle, tokens = held
    try:
        least = [Slice(range(1), 0, 1)]
        trips = [await _try(line, handle, least) for _ in range(ROUND_TRIPS)]
        everything = list(line.carrier.cut(handle, needed(info.layers, (), tokens, 0), range(info.layers), 0, tokens))
        await _try(line, handle, everything)  # the first one finds memory that nobody touched
        seconds = await _try(line, handle, everything)
    finally:
        engine.release(handle)
    return PairReport(
        transport=report.transport,
        missed=report.missed,
        latency_s=statistics.median(trips),
        bytes=tokens * info.kv_bytes_per_token,
        bytes_per_s=tokens * info.kv_bytes_per_token / seconds,
    )


def _reserve(engine: KVSource, tokens: int) -> tuple[KVHandle, int] | None:
    """Blocks of `tokens` tokens, or of fewer where there are not so many."""
    while tokens:
        try:
            return engine.reserve(tokens), tokens
        except TandemError as error:
            if error.code not in (ErrorCode.KV_FULL, ErrorCode.CONTEXT_LENGTH_EXCEEDED):
                raise
        tokens //= 2
    return None


async def _try(line: Line, handle: KVHandle, pieces: Sequence[Slice]) -> float:
    """Seconds until the receiver has checked the last of `pieces`."""
    began = time.monotonic()
    sending = asyncio.ensure_future(_send(line, handle, pieces))
    try:
        for _ in pieces:
            header, _ = await line.main.receive(max_payload=0)
            if isinstance(header, wire.Refused):
                raise wire.error_of(header.code, header.message)
            if not isinstance(header, wire.Tried):
                raise TandemError(ErrorCode.TRANSFER_FAILED, f"the receiver sent {type(header).__name__} out of turn")
        await sending
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    return time.monotonic() - began


async def _send(line: Line, handle: KVHandle, pieces: Sequence[Slice]) -> None:
    for piece in pieces:
        load = line.carrier.load(handle, piece, line.main.seed)
        trial = wire.Trial(
            first_layer=piece.layers.start,
            end_layer=piece.layers.stop,
            tokens=piece.end - piece.start,
            checksum=load.checksum,
            slot=load.slot,
        )
        await line.main.send(trial, load.payload)
