"""The audit trail as a file: written while it is read, so that its size does not matter."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Callable, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from asgiref.sync import sync_to_async
from django.db.models import QuerySet

from controlplane.audit.models import AuditEntry
from controlplane.audit.presenters import entry_views
from inference.contracts import codec
from inference.contracts.views.audit import AuditEntryView

_AT_ONCE = 1000

#: A spreadsheet takes a cell that begins so for a formula, whoever chose the text.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Format(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"


MEDIA_TYPES = {Format.CSV: "text/csv; charset=utf-8", Format.JSONL: "application/jsonl"}


async def written(entries: QuerySet[AuditEntry], format: Format) -> AsyncIterator[bytes]:
    """`entries`, the oldest first, piece by piece. What is added meanwhile is left out."""
    newest = await entries.order_by("-pk").afirst()
    if format == Format.CSV:
        yield _lines([AuditEntryView.__struct_fields__])
    write: Callable[[Sequence[AuditEntryView]], bytes] = _csv if format == Format.CSV else _jsonl
    last = 0
    while newest is not None and last < newest.pk:
        some = entries.filter(pk__gt=last, pk__lte=newest.pk).order_by("pk")[:_AT_ONCE]
        views = await sync_to_async(lambda rows: entry_views(rows))(some)
        yield write(views)
        last = views[-1].id


def _jsonl(views: Sequence[AuditEntryView]) -> bytes:
    return b"".join(codec.encode(view) + b"\n" for view in views)


def _csv(views: Sequence[AuditEntryView]) -> bytes:
    return _lines([[_cell(value) for value in msgspec.structs.astuple(view)] for view in views])


def _cell(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return codec.encode_text(value)
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _lines(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
