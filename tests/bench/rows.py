"""One line of the bench's table: a figure of ours, what it is compared with, and whether it is good enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Row:
    """A figure and its judgement. `None` is unknown, and an unknown figure never counts as reached.

    name: what was measured, with its conditions ("decode, batch 4, fp32, 2 threads").
    value, reference: ours and the other's in `unit`; a row may have only one of them, or none.
    compared_with: whose figure `reference` is ("transformers generate"); empty where nothing is compared.
    ratio: the figure that is judged. Its meaning belongs to `judged`.
    target, stretch: what `ratio` shall be `at least` or `at most`; a row without a target is for information.
    judged: how `ratio` is shown: as a factor ("1.05x"), a share ("70 %") or a count.
    details: everything else that was seen, for the JSON.
    """

    name: str
    unit: str = ""
    value: float | None = None
    compared_with: str = ""
    reference: float | None = None
    ratio: float | None = None
    target: float | None = None
    stretch: float | None = None
    better: Literal["at least", "at most"] = "at least"
    judged: Literal["factor", "share", "count"] = "factor"
    note: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reached(self) -> bool | None:
        """Whether the target is met; None without a target."""
        return self._meets(self.target)

    @property
    def stretched(self) -> bool | None:
        return self._meets(self.stretch)

    def _meets(self, limit: float | None) -> bool | None:
        if limit is None:
            return None
        if self.ratio is None:
            return False
        return self.ratio >= limit if self.better == "at least" else self.ratio <= limit

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "details": dict(self.details), "reached": self.reached, "stretched": self.stretched}


def missing(name: str, why: str, **known: Any) -> Row:
    """A row that could not be measured, which is said and counts as not reached."""
    return Row(name=name, note=f"not measured: {why}", **known)
