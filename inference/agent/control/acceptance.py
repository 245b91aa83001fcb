"""Whether a node takes a spec that arrived.

Whoever holds the broker can put any text into a node's queue, and that must not mean to run commands on it. So a spec
is nothing but names and bounded numbers: an engine that this agent was built with, and values that can be neither an
option nor a path of something else. Fields that this release does not know are dropped when a spec is read and reach
nothing. One value out of bounds refuses the whole spec, and what was wanted before stays wanted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator

from inference.contracts.bounds import LARGEST, settings_fault
from inference.contracts.specs import DeviceAssignment, LinkSpec, NodeSpec, WorkerSpec
from inference.contracts.states import DeviceKind

#: Ids name files and processes, so they may not contain anything that a path or a command gives a meaning.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

#: Ids of devices: also what UUIDs of GPUs and their parts are made of. A comma would name a second device.
_DEVICE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")

_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
_HOST = re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:%_-]{0,252}")

_LONGEST_NAME = 256
_LONGEST_PATH = 1024
_MOST_WORKERS = 1024
_MOST_DEVICES = 64
_MOST_CORES = 4096
_LONGEST_DRAIN_S = 7 * 86_400.0
_MOST_BYTES = 2**40
_LONGEST_LINK_S = 600.0


class SpecRefused(ValueError):
    """The spec is not for this node or contradicts itself; the text says where."""


def is_worker_id(text: str) -> bool:
    """Whether `text` may name a worker, and with it files."""
    return _ID.fullmatch(text) is not None


def accepts(spec: NodeSpec, node_id: str, current_generation: int, engines: Collection[str]) -> bool:
    """Whether `spec` is newer than what the node has. An older or equal generation is ignored without complaint:
    messages may arrive twice and out of order. engines: those that this agent can run.

    Raises:
        SpecRefused: another node's spec, or one with anything that this node does not take.
    """
    if spec.node_id != node_id:
        raise SpecRefused(f"the spec is for node {spec.node_id!r}, this is {node_id!r}")
    fault = next(_faults(spec, engines), None)
    if fault is not None:
        raise SpecRefused(fault)
    return spec.generation > current_generation


def _faults(spec: NodeSpec, engines: Collection[str]) -> Iterator[str]:
    if not 0 <= spec.generation <= 2**63 - 1:
        yield f"generation {spec.generation} is out of bounds"
    if len(spec.workers) > _MOST_WORKERS:
        yield f"{len(spec.workers)} workers are listed; {_MOST_WORKERS} are the most"
    seen: set[str] = set()
    for worker in spec.workers:
        if not is_worker_id(worker.worker_id):
            yield f"worker id {worker.worker_id[:130]!r} is not made of letters, digits, '.', '_' and '-'"
        if worker.worker_id in seen:
            yield f"worker {worker.worker_id!r} is listed twice in generation {spec.generation}"
        seen.add(worker.worker_id)
        for fault in _worker_faults(worker, engines):
            yield f"worker {worker.worker_id}: {fault}"
    for weights in spec.weights:
        for fault in _source_faults("weights path", weights.path, weights.revision):
            yield f"weights: {fault}"
        if not 0 <= weights.attempt <= LARGEST:
            yield f"weights: attempt {weights.attempt} is out of bounds"
    for link in spec.links:
        for fault in _link_faults(link):
            yield f"link measurement: {fault}"


def _worker_faults(worker: WorkerSpec, engines: Collection[str]) -> Iterator[str]:
    if worker.engine not in engines:
        known = ", ".join(sorted(engines)) or "none"
        yield f"engine {worker.engine[:_LONGEST_NAME]!r} is not known to this agent (known: {known})"
    for name, value in (("incarnation", worker.incarnation), ("pool id", worker.pool_id)):
        if not _ID.fullmatch(value):
            yield f"{name} {value[:130]!r} is not made of letters, digits, '.', '_' and '-'"
    for name, value in (("deployment", worker.deployment), ("model name", worker.model_name)):
        if not _is_text(value, _LONGEST_NAME):
            yield f"{name} {value[:_LONGEST_NAME]!r} is empty, too long or has control characters"
    yield from _source_faults("model path", worker.model_path, worker.model_revision)
    fault = settings_fault(worker.settings)
    if fault is not None:
        yield f"settings: {fault.message}"
    for name, number, most in (
        ("restart", worker.restart, LARGEST),
        ("revision", worker.revision, LARGEST),
        ("memory_bytes", worker.memory_bytes or 0, _MOST_BYTES),
    ):
        if not 0 <= number <= most:
            yield f"{name} {number} is out of bounds"
    if not _is_duration(worker.drain_deadline_s, _LONGEST_DRAIN_S):
        yield f"a drain deadline of {worker.drain_deadline_s} s is out of bounds"
    if len(worker.devices) > _MOST_DEVICES:
        yield f"{len(worker.devices)} devices are given; {_MOST_DEVICES} are the most"
    for device in worker.devices:
        yield from _device_faults(device)


def _source_faults(name: str, path: str, revision: str) -> Iterator[str]:
    """Where a model comes from: a directory or an id on a hub. It never looks like an option of a command."""
    if not _is_text(path, _LONGEST_PATH) or path.startswith("-"):
        yield f"{name} {path[:130]!r} is empty, too long, has control characters or begins with '-'"
    if revision and (not _REVISION.fullmatch(revision) or ".." in revision):
        yield f"revision {revision[:130]!r} is no name of a revision"


def _device_faults(device: DeviceAssignment) -> Iterator[str]:
    if not _DEVICE_ID.fullmatch(device.device_id):
        yield f"device id {device.device_id[:130]!r} is not one"
    if device.kind not in tuple(DeviceKind):
        yield f"device kind {device.kind[:130]!r} is not one of {', '.join(DeviceKind)}"
    if not 0 <= device.index < _MOST_CORES:
        yield f"device index {device.index} is out of bounds"
    if len(device.cores) > _MOST_CORES or not all(0 <= core < _MOST_CORES for core in device.cores):
        yield f"cores of device {device.device_id} are out of bounds"


def _link_faults(link: LinkSpec) -> Iterator[str]:
    if not _ID.fullmatch(link.measurement_id):
        yield f"id {link.measurement_id[:130]!r} is not made of letters, digits, '.', '_' and '-'"
    if link.peer_host and not _HOST.fullmatch(link.peer_host):
        yield f"peer {link.peer_host[:130]!r} is no host"
    if link.peer_port is not None and not 1 <= link.peer_port <= 65_535:
        yield f"peer port {link.peer_port} is out of bounds"
    if not 1 <= link.size_bytes <= LARGEST:
        yield f"{link.size_bytes} bytes are out of bounds"
    if not _is_duration(link.deadline_s, _LONGEST_LINK_S):
        yield f"a deadline of {link.deadline_s} s is out of bounds"


def _is_text(value: str, longest: int) -> bool:
    return 0 < len(value) <= longest and value.isprintable()


def _is_duration(seconds: float, longest: float) -> bool:
    return math.isfinite(seconds) and 0 <= seconds <= longest
