"""The agent's folder: what it must remember over its own restart. One writer (the folder is locked), atomic files.

agent.json       membership: control plane, addresses, and what the join answered (0600)
agent.lock       held while an agent runs on this folder
cluster-secret   for the workers (0600)
spec.json        the newest spec that was accepted
weights/         models that were fetched, see `weights.store`
workers/<id>/    record.json    its process, attempts, failure
                 spec.json, announce.json    to and from the process
                 worker*.log    its output, see `workers.logs`; kept for a while after the worker is gone
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from inference.agent.workers.switching import Refusal
from inference.contracts.codec import CodecError, decode, encode
from inference.contracts.reports import NodeWelcome
from inference.contracts.specs import NodeSpec, WorkerSpec
from inference.contracts.worker import ProcessAnnouncement
from inference.process.files import write_atomically

T = TypeVar("T")

#: Folders of workers that are gone are kept for their logs, the newest so many.
KEPT_FOLDERS = 20

log = structlog.get_logger()


class FolderInUse(RuntimeError):
    """Another agent runs on this folder."""


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """That this machine is a node of the control plane at `url`. address: how it was reached when it joined."""

    url: str
    address: str
    welcome: NodeWelcome


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One worker as the next agent has to know it.

    pid and birth name its process beyond doubt (see `process.birth_of`); None when it has none. attempts: starts since
    it last served steadily. failed: why it is not started again. restart: the last operator retry honoured.
    refusal: a change of role that it refused.
    """

    spec: WorkerSpec
    attempts: int
    restart: int
    failed: str | None = None
    pid: int | None = None
    birth: str | None = None
    argv: tuple[str, ...] = ()
    announce_file: str = ""
    log_file: str = ""
    refusal: Refusal | None = None


class StateDir:
    """Paths and files under one folder. Unreadable files are reported and treated as missing."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._workers = self.root / "workers"
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._workers.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder; the kernel lets go when the process ends, however it ends.

        Raises:
            FolderInUse: another agent holds it.
        """
        with (self.root / "agent.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise FolderInUse(f"another agent already runs on {self.root}") from error
            yield

    @property
    def membership(self) -> Membership | None:
        return _read(self.root / "agent.json", Membership)

    def save_membership(self, membership: Membership) -> None:
        write_atomically(self.root / "agent.json", encode(membership))

    @property
    def secret_file(self) -> Path:
        return self.root / "cluster-secret"

    def save_secret(self, secret: str) -> None:
        write_atomically(self.secret_file, secret.encode())

    @property
    def weights(self) -> Path:
        return self.root / "weights"

    @property
    def spec(self) -> NodeSpec | None:
        return _read(self.root / "spec.json", NodeSpec)

    def save_spec(self, spec: NodeSpec) -> None:
        write_atomically(self.root / "spec.json", encode(spec))

    def spec_file(self, worker_id: str) -> Path:
        return self._workers / worker_id / "spec.json"

    def announce_file(self, worker_id: str) -> Path:
        return self._workers / worker_id / "announce.json"

    def log_file(self, worker_id: str) -> Path:
        return self._workers / worker_id / "worker.log"

    def announcement(self, spec: WorkerSpec, pid: int) -> ProcessAnnouncement | None:
        """What the worker's process wrote of itself; None until it has, and for what another process left."""
        try:
            said = _read_message(self.announce_file(spec.worker_id), ProcessAnnouncement)
        except CodecError:
            return None  # half written: the next look sees the whole
        if said is None or (said.worker_id, said.incarnation, said.pid) != (spec.worker_id, spec.incarnation, pid):
            return None
        return said

    def records(self) -> list[WorkerRecord]:
        files = sorted(self._workers.glob("*/record.json"))
        return [record for path in files if (record := _read(path, WorkerRecord)) is not None]

    def record(self, worker_id: str) -> WorkerRecord | None:
        return _read(self._workers / worker_id / "record.json", WorkerRecord)

    def save_record(self, record: WorkerRecord) -> None:
        write_atomically(self._folder(record.spec.worker_id) / "record.json", encode(record))

    def save_worker_spec(self, spec: WorkerSpec) -> None:
        write_atomically(self._folder(spec.worker_id) / "spec.json", encode(spec))

    def forget(self, worker_id: str) -> None:
        """Drop everything about a worker but its logs; the oldest logs of forgotten workers go when there are many."""
        for name in ("record.json", "spec.json", "announce.json"):
            (self._workers / worker_id / name).unlink(missing_ok=True)
        forgotten = [folder for folder in self._workers.iterdir() if not (folder / "record.json").exists()]
        for folder in sorted(forgotten, key=lambda each: each.stat().st_mtime)[:-KEPT_FOLDERS]:
            shutil.rmtree(folder, ignore_errors=True)

    def _folder(self, worker_id: str) -> Path:
        folder = self._workers / worker_id
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder


def _read_message(path: Path, kind: type[T]) -> T | None:
    """The message in `path`; None when there is no such file. Raises `CodecError` when it is not a `kind`."""
    try:
        return decode(path.read_bytes(), kind)
    except FileNotFoundError:
        return None


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return _read_message(path, kind)
    except CodecError as error:
        log.error("file is unreadable and left aside", path=str(path), error=str(error))
        return None
