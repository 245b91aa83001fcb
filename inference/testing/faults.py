"""Faults that a test plants in a stub engine: what goes wrong, where, and how often."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec


class FaultPoint(StrEnum):
    """Where a fault strikes.

    START: while weights load. BEFORE_PREFILL: before the first prompt token is computed. AFTER_PREFILL: the prompt is
    computed, its first token is not given yet. MID_TRANSFER: between two prefill chunks of a request whose KV travels
    (CRASH, HANG, SLOW), or when KV bytes are read or written (REFUSE). MID_DECODE: before a token of the answer.
    SWITCH: while the engine changes its role.
    """

    START = "start"
    BEFORE_PREFILL = "before_prefill"
    AFTER_PREFILL = "after_prefill"
    MID_TRANSFER = "mid_transfer"
    MID_DECODE = "mid_decode"
    SWITCH = "switch"


class FaultKind(StrEnum):
    """REFUSE: the request fails. CRASH: the process dies. DIE: the engine's loop ends and the process stays. HANG: the
    loop stops turning. SLOW: it pauses.
    """

    REFUSE = "refuse"
    CRASH = "crash"
    DIE = "die"
    HANG = "hang"
    SLOW = "slow"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One planted fault. after: passes of its point that go well first. times: passes that go wrong then.

    seconds: length of a SLOW pause.
    """

    point: FaultPoint
    kind: FaultKind
    after: int = 0
    times: int = 1
    seconds: float = 0.0


@dataclass
class _Planted:
    fault: Fault
    passed: int = 0


class FaultPlan:
    """The faults of one engine and how often each one's point was passed. Safe to use from any thread."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._lock = threading.Lock()
        self._planted = [_Planted(fault) for fault in faults]

    def plant(self, fault: Fault) -> None:
        with self._lock:
            self._planted.append(_Planted(fault))

    def strike(self, point: FaultPoint, *kinds: FaultKind) -> Fault | None:
        """Count one pass of `point` by the faults of `kinds` (all when none is named); the fault that strikes now."""
        struck = None
        with self._lock:
            for planted in self._planted:
                fault = planted.fault
                if fault.point != point or (kinds and fault.kind not in kinds):
                    continue
                planted.passed += 1
                if fault.after < planted.passed <= fault.after + fault.times and struck is None:
                    struck = fault
        return struck
