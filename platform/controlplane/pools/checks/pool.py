"""Whether what is wanted of a pool's placement can be right."""

from __future__ import annotations

import re
from collections.abc import Sequence

from controlplane.core.errors import Invalid
from inference.contracts.states import PlacementStrategy

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}(=[A-Za-z0-9][A-Za-z0-9._:/-]{0,62})?")
_LABELS_MAX = 20

#: More than any fleet that one control plane serves.
_REPLICAS_MAX = 10_000


def labels_check(labels: Sequence[str]) -> None:
    """
    Raises:
        Invalid: too many, or one is neither "key" nor "key=value".
    """
    if len(labels) > _LABELS_MAX:
        raise Invalid(f"A pool asks for at most {_LABELS_MAX} labels, not {len(labels)}.", field="labels")
    for label in labels:
        if not _LABEL.fullmatch(label):
            raise Invalid(f'A label is "key" or "key=value"; {label[:130]!r} is neither.', field="labels")


def strategy_check(strategy: str) -> None:
    """
    Raises:
        Invalid: nobody knows it.
    """
    if strategy not in set(PlacementStrategy):
        known = " or ".join(PlacementStrategy)
        raise Invalid(f"strategy is {known}, not {strategy[:60]!r}.", field="strategy")


def limits_of_a_pool_check(*, least: int, most: int, replicas: int) -> None:
    """
    Raises:
        Invalid: min_replicas and max_replicas do not go together, or leave the present size out.
    """
    if not 0 <= least <= most <= _REPLICAS_MAX:
        raise Invalid(
            f"min_replicas and max_replicas are 0 to {_REPLICAS_MAX} in this order, not {least} and {most}.",
            field="min_replicas" if least < 0 or least > most else "max_replicas",
        )
    if not least <= replicas <= most:
        workers = "worker" if replicas == 1 else "workers"
        raise Invalid(
            f"The pool has {replicas} {workers} now, which is not {least} to {most}: resize it first.",
            field="min_replicas" if replicas < least else "max_replicas",
        )
