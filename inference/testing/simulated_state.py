"""An agent's folder in memory, for simulated nodes: what `StateDir` does, without files."""

from __future__ import annotations

from pathlib import Path

from inference.agent.state_dir import WorkerRecord
from inference.contracts.specs import NodeSpec, WorkerSpec
from inference.contracts.worker import ProcessAnnouncement


class SimulatedState:
    """root: any folder that is there; nothing is written to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.spec: NodeSpec | None = None
        self.worker_specs: dict[str, WorkerSpec] = {}
        self.announcements: dict[str, ProcessAnnouncement] = {}
        self._records: dict[str, WorkerRecord] = {}
        self._nowhere = root / "simulated-no-such-folder"

    @property
    def secret_file(self) -> Path:
        return self._nowhere

    @property
    def weights(self) -> Path:
        return self._nowhere

    def save_spec(self, spec: NodeSpec) -> None:
        self.spec = spec

    def spec_file(self, worker_id: str) -> Path:
        return self._nowhere

    def announce_file(self, worker_id: str) -> Path:
        return self._nowhere

    def log_file(self, worker_id: str) -> Path:
        return self._nowhere

    def announcement(self, spec: WorkerSpec, pid: int) -> ProcessAnnouncement | None:
        said = self.announcements.get(spec.worker_id)
        known = said is not None and (said.incarnation, said.pid) == (spec.incarnation, pid)
        return said if known else None

    def records(self) -> list[WorkerRecord]:
        return [record for _, record in sorted(self._records.items())]

    def record(self, worker_id: str) -> WorkerRecord | None:
        return self._records.get(worker_id)

    def save_record(self, record: WorkerRecord) -> None:
        self._records[record.spec.worker_id] = record

    def save_worker_spec(self, spec: WorkerSpec) -> None:
        self.worker_specs[spec.worker_id] = spec

    def forget(self, worker_id: str) -> None:
        for kept in (self._records, self.worker_specs, self.announcements):
            kept.pop(worker_id, None)
