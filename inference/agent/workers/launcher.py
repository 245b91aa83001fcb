"""Starts worker processes and finds again those that an earlier agent left.

A worker gets its own session, so that no signal meant for the agent reaches it and its whole family can be ended
together. Its environment is an allow-list: nothing secret of the agent's own (broker address, join token) leaks.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

import msgspec
import psutil
import structlog

from inference.agent.engines.command import EngineRegistry, LaunchRequest, UnknownEngine
from inference.agent.hosts import Hosts
from inference.agent.state_dir import StateDir, WorkerRecord
from inference.agent.weights.store import NotHere, WeightsStore
from inference.agent.workers import logs
from inference.agent.workers.process import WorkerProcess
from inference.agent.workers.switching import Refusal
from inference.contracts.specs import WorkerSpec

#: Marks every process that descends from a worker of this agent; the value is the agent's folder.
MARKER = "TANDEM_SUPERVISED_FROM"

_PASSED = frozenset(
    {
        *("PATH", "HOME", "USER", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_CACHE_HOME"),
        *("PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        *("TRANSFORMERS_OFFLINE", "TRITON_CACHE_DIR"),
    }
)
_PASSED_PREFIXES = ("LC_", "HF_", "CUDA_", "NVIDIA_", "NCCL_", "UCX_", "TORCH_", "OMP_", "MKL_", "TANDEM_WORKER_")

log = structlog.get_logger()


class LaunchFailed(RuntimeError):
    """No process was started. fatal: trying again can't help."""

    def __init__(self, reason: str, *, fatal: bool) -> None:
        super().__init__(reason)
        self.fatal = fatal


class Launcher:
    """Starts the workers of one agent."""

    def __init__(
        self,
        state: StateDir,
        engines: EngineRegistry,
        *,
        hosts: Hosts,
        environment: Mapping[str, str],
    ) -> None:
        self._state = state
        self._engines = engines
        self._hosts = hosts
        self._environment = passed_on(environment)
        self._weights = WeightsStore(state.weights)

    def localised(self, spec: WorkerSpec) -> WorkerSpec:
        """`spec` as its process gets it: with the copy of its model on this machine, where there is one.

        Raises:
            NotHere: the model has to be fetched first.
        """
        return msgspec.structs.replace(spec, model_path=self._weights.local_path(spec))

    def launch(self, spec: WorkerSpec, attempts: int) -> WorkerProcess:
        """Start the worker and write its record; no process is left when this raises.

        Raises:
            LaunchFailed: the engine is unknown, its model is not here, or the machine can't start the process or write
                its files.
        """
        worker_id = spec.worker_id
        request = LaunchRequest(
            spec=spec,
            spec_file=self._state.spec_file(worker_id),
            announce_file=self._state.announce_file(worker_id),
            secret_file=self._state.secret_file,
            hosts=self._hosts,
        )
        try:
            command = self._engines.command(request)
            self._state.save_worker_spec(self.localised(spec))
            request.announce_file.unlink(missing_ok=True)
            process = self._start(command.argv, {**self._environment, **command.env}, worker_id)
        except UnknownEngine as error:
            raise LaunchFailed(str(error), fatal=True) from error
        except NotHere as error:
            raise LaunchFailed(str(error), fatal=False) from error
        except OSError as error:
            raise LaunchFailed(f"the process could not be started: {error}", fatal=False) from error
        record = WorkerRecord(
            spec=spec,
            attempts=attempts,
            restart=spec.restart,
            pid=process.pid,
            birth=process.birth,
            argv=command.argv,
            announce_file=str(request.announce_file),
            log_file=str(self._state.log_file(worker_id)),
        )
        try:
            self._state.save_record(record)
        except OSError as error:
            process.end_now()
            raise LaunchFailed(f"its record could not be written: {error}", fatal=False) from error
        return process

    @property
    def engines(self) -> frozenset[str]:
        """Names of the engines that can be launched."""
        return self._engines.names

    def switches_role(self, spec: WorkerSpec) -> bool:
        """Whether a running process of this worker can change its role."""
        return spec.engine in self._engines.names and self._engines.engine(spec.engine).capabilities.switches_role

    def record_role(self, spec: WorkerSpec, refusal: Refusal | None) -> None:
        """Remember what a running worker has become, or refused to become."""
        record = self._state.record(spec.worker_id)
        if record is not None:
            self._save(msgspec.structs.replace(record, spec=spec, refusal=refusal))

    def recover(self) -> list[tuple[WorkerRecord, WorkerProcess | None]]:
        """Every recorded worker, with its process where that still runs. Processes that descend from this agent's
        workers but belong to none of these are killed."""
        found = [(record, WorkerProcess.adopted(record.pid, record.birth)) for record in self._state.records()]
        self._kill_strays({process.pid for _, process in found if process is not None})
        return found

    def record_end(self, spec: WorkerSpec, attempts: int, restart: int, failed: str | None) -> None:
        """Remember that the worker has no process now, and how often it was tried."""
        self._save(WorkerRecord(spec=spec, attempts=attempts, restart=restart, failed=failed))

    def forget(self, worker_id: str) -> None:
        self._state.forget(worker_id)

    def _start(self, argv: tuple[str, ...], environment: Mapping[str, str], worker_id: str) -> WorkerProcess:
        with logs.open_fresh(self._state.log_file(worker_id)) as output:
            popen = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**environment, MARKER: str(self._state.root), "PYTHONUNBUFFERED": "1"},
            )
        return WorkerProcess.child(popen)

    def _save(self, record: WorkerRecord) -> None:
        """Where a record can't be written, only an agent that restarts is the poorer for it."""
        try:
            self._state.save_record(record)
        except OSError as error:
            log.error("the record could not be written", worker_id=record.spec.worker_id, error=str(error))

    def _kill_strays(self, known: set[int]) -> None:
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARKER) != str(self._state.root):
                    continue
                family = {os.getsid(process.pid), *(ancestor.pid for ancestor in process.parents())}
                if process.pid == os.getpid() or not family.isdisjoint(known):
                    continue
                log.warning("killing a leftover of an earlier agent", pid=process.pid, command=process.cmdline()[:4])
                process.kill()
            except (psutil.Error, OSError):
                continue


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of the agent's environment that workers may see."""
    return {name: value for name, value in environment.items() if name in _PASSED or name.startswith(_PASSED_PREFIXES)}
