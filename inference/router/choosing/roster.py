"""One deployment of the routing table, laid out for choosing among its workers. Made once for each table."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import xxhash

from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.contracts.states import ANSWERING_ROLES, Role
from inference.router.choosing.standing import WorkerKey, key_of

_RING = 2**64
_POINTS = 8  # of each worker on the ring, and so many places of a session there:
_PROBES = tuple(xxhash.xxh3_64_intdigest(b"", seed=number) | 1 for number in range(16))
# Together they bring the fullest of a few workers within a tenth of the mean.


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker with what its choice depends on and the table alone decides.

    unfit: bits that speak against it, the gravest highest; 0 for a worker as it should be.
    """

    route: WorkerRoute
    key: WorkerKey
    unfit: int


#: What makes a worker a later resort, least grave first. Two more are free between them for what only a moment knows.
UNPAIRED, UNPAIRABLE, SUSPECT, OUT_OF_SIGHT = 1 << 2, 1 << 3, 1 << 4, 1 << 5


class Choices:
    """Workers among which one is chosen. `pinned` gives each session one of them, which stays the same while workers
    come and go, in every process alike, and gives all of them equally many: multi-probe consistent hashing (Appleton
    and O'Reilly, 2015). Workers and sessions have several places on a ring; the worker that is next after one of the
    session's counts."""

    __slots__ = ("_places", "_ring", "by_key", "workers")

    def __init__(self, workers: Iterable[Candidate] = ()) -> None:
        self.workers: Sequence[Candidate] = tuple(workers)
        self.by_key = {candidate.key: candidate for candidate in self.workers}
        self._ring = sorted(
            (xxhash.xxh3_64_intdigest("/".join(candidate.key).encode(), seed=point), number)
            for number, candidate in enumerate(self.workers)
            for point in range(_POINTS)
        )
        self._places = [place for place, _ in self._ring]

    def pinned(self, session: int) -> Candidate | None:
        """session: a hash of 64 bits. None: there are no workers."""
        places = self._places
        if not places:
            return None
        nearest, distance = 0, _RING
        for probe in _PROBES:
            place = session * probe % _RING
            at = bisect(places, place) % len(places)
            away = (places[at] - place) % _RING
            if away < distance:
                nearest, distance = at, away
        return self.workers[self._ring[nearest][1]]


@dataclass(frozen=True, slots=True)
class Roster:
    """answering: decode and unified workers. prefill: by fingerprint, since only equal ones pair (F06)."""

    deployment: DeploymentRoute
    answering: Choices
    prefill: dict[str, Choices] = field(default_factory=dict)

    def partners(self, answering: WorkerRoute) -> Choices:
        """Prefill workers that may hand KV to `answering`."""
        if answering.role is not Role.DECODE or answering.transfer is None:
            return _NOBODY
        return self.prefill.get(answering.fingerprint, _NOBODY)


_NOBODY = Choices()


def roster_of(deployment: DeploymentRoute) -> Roster:
    """Lay `deployment` out."""
    by_fingerprint: dict[str, list[Candidate]] = defaultdict(list)
    for worker in deployment.workers:
        if worker.role is Role.PREFILL:
            unfit = 0 if worker.in_sight else OUT_OF_SIGHT
            by_fingerprint[worker.fingerprint].append(Candidate(worker, key_of(worker), unfit))
    prefill = {fingerprint: Choices(workers) for fingerprint, workers in by_fingerprint.items()}
    paired = {mark for mark, workers in by_fingerprint.items() if any(not each.unfit for each in workers)}
    answering = Choices(
        Candidate(worker, key_of(worker), _unfit(worker, by_fingerprint.keys(), paired))
        for worker in deployment.workers
        if worker.role in ANSWERING_ROLES
    )
    return Roster(deployment, answering, prefill)


def _unfit(worker: WorkerRoute, pairable: Iterable[str], paired: Iterable[str]) -> int:
    unfit = 0 if worker.in_sight else OUT_OF_SIGHT
    if worker.role is Role.UNIFIED:
        return unfit
    if worker.transfer is None or worker.fingerprint not in paired:
        unfit |= UNPAIRED
    if worker.transfer is None or worker.fingerprint not in pairable:
        unfit |= UNPAIRABLE
    return unfit


def servable(deployment: DeploymentRoute) -> bool:
    """Whether one unified worker or one full pair is ready."""
    reads = {worker.fingerprint for worker in deployment.workers if worker.role is Role.PREFILL}
    return any(
        worker.role is Role.UNIFIED
        or (worker.role is Role.DECODE and worker.transfer is not None and worker.fingerprint in reads)
        for worker in deployment.workers
    )


def what_is_missing(deployment: DeploymentRoute) -> str:
    """Why a deployment that is not servable is not."""
    roles = {worker.role for worker in deployment.workers}
    name = repr(deployment.name)
    if not roles - {Role.PREFILL}:
        return f"No decode worker of {name} is ready."
    if Role.PREFILL not in roles:
        return f"No prefill worker of {name} is ready."
    return f"No pair of {name} is ready: its prefill and decode workers do not match."
