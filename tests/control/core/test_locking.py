"""Claims about how rows are locked."""

from __future__ import annotations

from pathlib import Path

import controlplane.core.locking


def test_rows_are_locked_in_one_way_only() -> None:
    """Any other would wait for the checks of foreign keys, which come in an order that nobody chose."""
    own = Path(controlplane.core.locking.__file__)
    sources = own.parents[1].rglob("*.py")
    assert [str(path) for path in sources if path != own and "select_for_update" in path.read_text()] == []
