"""Labels of nodes and devices: what they look like, and finding rows by one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import JSONField, Lookup

from controlplane.core.errors import Invalid

LABEL_MAX = 100
LABELS_MAX = 32

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?(=[A-Za-z0-9._/-]+)?")


def labels_checked(labels: Sequence[str]) -> list[str]:
    """Each once, sorted.

    Raises:
        Invalid: something is no label, or there are too many.
    """
    if len(labels) > LABELS_MAX:
        raise Invalid(f"There can be {LABELS_MAX} labels at most, not {len(labels)}.", field="labels")
    for label in labels:
        if len(label) > LABEL_MAX or not _LABEL.fullmatch(label):
            raise Invalid(
                f"{label[:LABEL_MAX]!r} is no label. One looks like 'rack=r7' or 'fast': letters, digits and . _ / -.",
                field="labels",
            )
    return sorted(set(labels))


@JSONField.register_lookup
class HasLabel(Lookup):
    """`labels__has_label="rack=r7"`: the list of texts holds exactly this one. Labels have no quotes to be escaped."""

    lookup_name = "has_label"
    prepare_rhs = False

    def as_sqlite(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, list[Any]]:
        return self._within("INSTR({}, %s) > 0", compiler, connection)

    def as_postgresql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, list[Any]]:
        return self._within("STRPOS(({})::text, %s) > 0", compiler, connection)

    def _within(self, sql: str, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, list[Any]]:
        column, parameters = self.process_lhs(compiler, connection)
        return sql.format(column), [*parameters, f'"{self.rhs}"']
