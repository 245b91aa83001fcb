"""The worker process: reads its spec, binds its ports, says where, loads its model, and serves until told to stop.

    python -m inference.worker --spec FILE --announce FILE

FILE of `--spec` holds a `WorkerSpec`; a `ProcessAnnouncement` is written to that of `--announce` once ports are bound.

Environment: TANDEM_CLUSTER_SECRET_FILE or TANDEM_CLUSTER_SECRET; TANDEM_WORKER_HOST to listen on (127.0.0.1);
TANDEM_WORKER_ADVERTISED_HOST that others reach it by (the same); TANDEM_WORKER_LIMITS, a `WorkerLimits` as JSON;
TANDEM_WORKER_TLS_CERT_FILE, ..._KEY_FILE and ..._CA_FILE, see `inference.process.tls`.

Exit codes: 0 stopped, 1 failed and worth another try, 3 failed in a way that a restart can't mend. The last line of
output of a failed worker is the reason.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from inference.contracts.codec import decode, encode
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address
from inference.contracts.specs import WorkerSpec
from inference.contracts.worker import ProcessAnnouncement
from inference.engine.interface import Engine
from inference.process.files import write_atomically
from inference.process.logs import configure_logging
from inference.process.secret import read_cluster_secret
from inference.process.tls import NodeTls, read_node_tls
from inference.worker.devices import claim_devices
from inference.worker.limits import WorkerLimits
from inference.worker.native import native_engine
from inference.worker.server import WorkerServer
from inference.worker.worker import describe

EXIT_STOPPED, EXIT_RETRY, EXIT_FATAL = 0, 1, 3
_FAILURE_POLL_S = 0.5

EngineBuilder = Callable[[WorkerSpec], Engine]
PRODUCT_ENGINES: Mapping[str, EngineBuilder] = {"native": native_engine}

log = structlog.get_logger()


class WorkerFailed(Exception):
    """The worker can't serve. fatal: and a restart can't mend it."""

    def __init__(self, reason: str, fatal: bool) -> None:
        super().__init__(reason)
        self.fatal = fatal


@dataclass(frozen=True, slots=True)
class _Setup:
    spec: WorkerSpec
    secret: str = field(repr=False)
    host: str
    advertised: str
    limits: WorkerLimits
    tls: NodeTls | None
    announce_file: Path


def main(arguments: Sequence[str] | None = None, engines: Mapping[str, EngineBuilder] = PRODUCT_ENGINES) -> int:
    """Run one worker; returns the exit code."""
    configure_logging(os.environ)
    try:
        setup = _read_setup(arguments)
        claim_devices(setup.spec)
        asyncio.run(_run(setup, _build_engine(setup.spec, engines)))
    except WorkerFailed as error:
        return _failed(str(error), fatal=error.fatal)
    except TandemError as error:
        return _failed(error.message, fatal=error.code is ErrorCode.INVALID_REQUEST)
    except Exception as error:
        log.exception("worker broke down")
        return _failed(describe(error), fatal=False)
    return EXIT_STOPPED


def _failed(reason: str, *, fatal: bool) -> int:
    log.error(f"worker failed: {reason}")
    return EXIT_FATAL if fatal else EXIT_RETRY


def _read_setup(arguments: Sequence[str] | None) -> _Setup:
    """Raises `TandemError(INVALID_REQUEST)` for anything that can't be read."""
    parser = argparse.ArgumentParser(prog="python -m inference.worker", description="Serve one model replica.")
    parser.add_argument("--spec", type=Path, required=True, help="file with the WorkerSpec")
    parser.add_argument("--announce", type=Path, required=True, help="file to write the ProcessAnnouncement to")
    options = parser.parse_args(arguments)
    host = os.environ.get("TANDEM_WORKER_HOST") or "127.0.0.1"
    try:
        return _Setup(
            spec=decode(options.spec.read_bytes(), WorkerSpec),
            secret=read_cluster_secret(os.environ),
            host=host,
            advertised=os.environ.get("TANDEM_WORKER_ADVERTISED_HOST") or host,
            limits=decode(os.environ.get("TANDEM_WORKER_LIMITS") or "{}", WorkerLimits),
            tls=read_node_tls(os.environ),
            announce_file=options.announce,
        )
    except (OSError, ValueError) as error:
        raise TandemError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _build_engine(spec: WorkerSpec, engines: Mapping[str, EngineBuilder]) -> Engine:
    builder = engines.get(spec.engine)
    if builder is None:
        raise TandemError(
            ErrorCode.INVALID_REQUEST, f"engine {spec.engine!r} is not one of {', '.join(sorted(engines))}", "engine"
        )
    return builder(spec)


async def _run(setup: _Setup, engine: Engine) -> None:
    """Serve until told to stop.

    Raises:
        WorkerFailed: the engine did not come up, or died.
    """
    told_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told_to_stop.set)
    server = WorkerServer(setup.spec, engine, setup.secret, setup.limits, setup.tls)
    state = server.worker.state
    try:
        http = await server.listen(setup.host, setup.advertised)
        _announce(setup, http, state.transfer)
        load = asyncio.create_task(server.load())
        while state.failure is None and not told_to_stop.is_set():
            await _wait(told_to_stop, _FAILURE_POLL_S)
        load.cancel()
        if state.failure is not None:
            await _wait(told_to_stop, setup.limits.failure_linger_s)  # the agent reads the reason from the status
            raise WorkerFailed(state.failure, state.fatal)
    finally:
        await server.stop()


def _announce(setup: _Setup, http: Address, transfer: Address | None) -> None:
    announcement = ProcessAnnouncement(
        worker_id=setup.spec.worker_id,
        incarnation=setup.spec.incarnation,
        pid=os.getpid(),
        http=http,
        transfer=transfer,
    )
    write_atomically(setup.announce_file, encode(announcement))
    log.info("worker listens", worker_id=announcement.worker_id, http=http, transfer=transfer)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
