"""What fleet needs of the apps above it, which it may not import: they register themselves in `AppConfig.ready()`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from uuid import UUID


@dataclass(slots=True)
class Hooks:
    """specs_renew: give nodes a new generation of what they shall do, sent once the transaction is committed."""

    specs_renew: Callable[[Collection[UUID]], None] | None = None


hooks = Hooks()


def specs_renew(node_ids: Collection[UUID]) -> None:
    """
    Raises:
        LookupError: no app registered itself for it.
    """
    if hooks.specs_renew is None:
        raise LookupError("no app above fleet sends specs to nodes")
    if node_ids:
        hooks.specs_renew(node_ids)
