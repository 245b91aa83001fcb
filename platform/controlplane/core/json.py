"""JSON columns that a search can read."""

from __future__ import annotations

from typing import Any

from django.core.serializers.json import DjangoJSONEncoder


class ReadableJSON(DjangoJSONEncoder):
    """Letters are kept as they are: SQLite stores JSON as it is written, and nobody searches for "\\u00e9"."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "ensure_ascii": False})
