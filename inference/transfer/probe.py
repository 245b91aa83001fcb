"""Measures the network between two nodes with the transfer code that serves: one process on each of them.

    python -m inference.transfer.probe --measurement ID --listen HOST --advertise HOST [--size BYTES] [--deadline S]
    python -m inference.transfer.probe --measurement ID --send HOST:PORT [--size BYTES] [--deadline S]

The listening side binds a port by itself. Both prove that they know the cluster secret (TANDEM_CLUSTER_SECRET_FILE or
TANDEM_CLUSTER_SECRET), and speak TLS where workers do (see `inference.process.tls`). What is known is written to
standard output as it becomes known: a `LinkReport` a line. The sending side ends by itself, the listening side once
that has measured. Exit code 0: measured.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
import statistics
import sys
import time
from collections.abc import Sequence
from typing import TextIO

from inference.contracts.codec import encode_text
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address, LinkReport
from inference.engine.interface import KVHandle, Progress
from inference.process.logs import configure_logging
from inference.process.secret import read_cluster_secret
from inference.process.tls import NodeTls, read_node_tls
from inference.transfer import wire
from inference.transfer.base import Computed, FirstTokens, PushOrder, TransferCounters, TransferLimits
from inference.transfer.handshake import greet_receiver
from inference.transfer.link import Link, as_tandem_error
from inference.transfer.probe_kv import (
    BYTES_PER_TOKEN,
    INFO,
    LAST,
    WARM_UP,
    ProbeEngine,
    ProbeTickets,
    prompt_of,
    ticket_id,
)
from inference.transfer.receiver import KVReceiver
from inference.transfer.sender import KVSender

#: Small round trips whose median is the latency.
ROUND_TRIPS = 21
#: Sent before what is measured, so that the connection is up to speed.
WARM_UP_BYTES = 8 * 1024 * 1024

#: How long the listening side stays after the last byte, so that its answer leaves before it does.
LINGER_S = 1.0

_LIMITS = TransferLimits()


async def measure(
    target: Address, *, measurement: str, size_bytes: int, secret: str, tls: NodeTls | None = None
) -> LinkReport:
    """The sending side. bytes_per_s counts from the first byte until the receiver has verified the last.

    Raises:
        TandemError: the peer is gone, does not know the secret, or the network broke down.
    """
    trust = tls.client if tls is not None else None
    latency_s = await _latency(target, measurement, secret, trust)
    engine = ProbeEngine()
    sender = KVSender(secret=secret, engine=engine, counters=TransferCounters(), limits=_LIMITS, tls=trust)
    try:
        tokens = max(1, size_bytes // BYTES_PER_TOKEN)
        await _push(sender, target, ticket_id(measurement, WARM_UP, min(tokens, WARM_UP_BYTES // BYTES_PER_TOKEN)))
        began = time.monotonic()
        sent = await _push(sender, target, ticket_id(measurement, LAST, tokens))
        seconds = time.monotonic() - began
    finally:
        await sender.close()
    return LinkReport(measurement_id=measurement, bytes_per_s=sent / seconds, latency_s=latency_s)


async def _latency(target: Address, measurement: str, secret: str, tls: ssl.SSLContext | None) -> float:
    """Median seconds of asking for a fill and being answered."""
    peer = f"the listening node at {target.host}:{target.port}"
    try:
        async with asyncio.timeout(_LIMITS.open_s):
            link = await Link.connect(target, tls)
    except OSError as error:
        raise as_tandem_error(error, peer) from error
    try:
        async with asyncio.timeout(_LIMITS.open_s):
            await greet_receiver(link, secret)
        trips = [await _round_trip(link, ticket_id(measurement, 100 + trip, 1)) for trip in range(ROUND_TRIPS)]
    except OSError as error:
        raise as_tandem_error(error, peer) from error
    finally:
        link.close()
    return statistics.median(trips)


async def _round_trip(link: Link, ticket: str) -> float:
    prompt = prompt_of(ticket)
    opening = wire.Open(
        ticket_id=ticket,
        fingerprint=INFO.fingerprint,
        tokens=len(prompt),
        prompt_digest=wire.digest_of_prompt(prompt),
    )
    async with asyncio.timeout(_LIMITS.open_s):
        began = time.monotonic()
        await link.send(opening)
        header, _ = await link.receive(max_payload=0)
        seconds = time.monotonic() - began
        if not isinstance(header, wire.Opened):
            raise TandemError(ErrorCode.TRANSFER_FAILED, f"the listening node answered {type(header).__name__}")
        await link.send(wire.Abort(ticket_id=ticket, code=ErrorCode.CANCELLED, reason="measured"))
    return seconds


async def _push(sender: KVSender, target: Address, ticket: str) -> int:
    prompt = prompt_of(ticket)
    computed: Computed = asyncio.Queue()
    computed.put_nowait(Progress(start=0, end=len(prompt), done=True))
    computed.put_nowait(FirstTokens((0,)))
    handle = KVHandle(handle_id=0, capacity=len(prompt))
    order = PushOrder(request_id=ticket, ticket_id=ticket, target=target, token_ids=prompt, handle=handle)
    return (await sender.push(order, computed)).bytes


async def listen(
    host: str,
    advertised: str,
    *,
    measurement: str,
    size_bytes: int,
    secret: str,
    say: TextIO,
    tls: NodeTls | None = None,
) -> None:
    """The listening side; returns once a sender has measured."""
    engine = ProbeEngine()
    tickets = ProbeTickets(measurement=measurement, most_tokens=max(1, size_bytes // BYTES_PER_TOKEN))
    receiver = KVReceiver(
        secret=secret,
        engine=engine,
        tickets=tickets,
        counters=TransferCounters(),
        limits=_LIMITS,
        tls=tls.server if tls is not None else None,
    )
    try:
        port = await receiver.listen(host)
        _say(say, LinkReport(measurement_id=measurement, address=Address(host=advertised, port=port)))
        await tickets.measured.wait()
        await asyncio.sleep(LINGER_S)
    finally:
        await receiver.close()


def _say(out: TextIO, report: LinkReport) -> None:
    out.write(encode_text(report) + "\n")
    out.flush()


async def _run(options: argparse.Namespace, secret: str, tls: NodeTls | None) -> None:
    shared = {"measurement": options.measurement, "size_bytes": options.size, "secret": secret, "tls": tls}
    async with asyncio.timeout(options.deadline):
        if options.listen:
            await listen(options.listen, options.advertise or options.listen, say=sys.stdout, **shared)
        else:
            host, _, port = options.send.rpartition(":")
            _say(sys.stdout, await measure(Address(host=host, port=int(port)), **shared))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m inference.transfer.probe", description="Measure a network link.")
    parser.add_argument("--measurement", required=True)
    side = parser.add_mutually_exclusive_group(required=True)
    side.add_argument("--listen", metavar="HOST")
    side.add_argument("--send", metavar="HOST:PORT")
    parser.add_argument("--advertise", metavar="HOST", help="what the sender dials (default: what is listened on)")
    parser.add_argument("--size", type=int, default=64 * 1024 * 1024)
    parser.add_argument("--deadline", type=float, default=30.0)
    options = parser.parse_args(arguments)
    configure_logging({"TANDEM_LOG_LEVEL": "ERROR", **os.environ})  # every round trip is a fill that is given up
    try:
        asyncio.run(_run(options, read_cluster_secret(os.environ), read_node_tls(os.environ)))
    except TimeoutError:
        error = f"it was not over within {options.deadline:g} s"
    except TandemError as failure:
        error = failure.message
    except (OSError, ValueError) as failure:
        error = str(failure)
    else:
        return 0
    _say(sys.stdout, LinkReport(measurement_id=options.measurement, error=error))
    return 1


if __name__ == "__main__":
    sys.exit(main())
