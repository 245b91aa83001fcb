"""When a GPU is not to be used any more. Pure.

A fault found by an event or a counter stays until the agent starts again: what mends it (a reset, another card, a new
driver) is done by people, and they start the agent afterwards.
"""

from __future__ import annotations

#: XID codes after which a GPU is broken until it is reset or replaced, by NVIDIA's list of XID errors. Codes that a
#: faulty program can cause (13, 31, 43, 45, 68, ...) are not among them, nor is a contained memory error (94).
FATAL_XIDS = {
    48: "double-bit memory error",
    62: "its micro-controller halted",
    64: "memory rows could not be remapped",
    74: "NVLink error",
    79: "fell off the bus",
    95: "uncontained memory error",
    110: "security fault",
    119: "its system processor does not answer",
    120: "its system processor failed",
    140: "unrecovered memory error",
}


def fault_of(*, ecc_uncorrected: int | None, fatal_xid: int | None) -> str:
    """Why the GPU is not to be used; empty when nothing speaks against it. Not known is no fault.

    ecc_uncorrected: memory errors since the driver was loaded. fatal_xid: one of `FATAL_XIDS` that was seen.
    """
    found = []
    if fatal_xid is not None:
        found.append(f"XID {fatal_xid}: {FATAL_XIDS.get(fatal_xid, 'broken')}")
    if ecc_uncorrected:
        plural = "s" if ecc_uncorrected != 1 else ""
        found.append(f"{ecc_uncorrected} uncorrected memory error{plural} since the driver was loaded")
    return "; ".join(found)
