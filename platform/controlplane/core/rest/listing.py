"""What every list endpoint lets its callers ask: filters, one order, and one page after the other.

Pages go by cursor, not by number: what is added or removed meanwhile neither repeats nor hides a row.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import reduce
from operator import or_
from typing import Annotated, Any, TypeVar
from uuid import UUID

import msgspec
from django.core.exceptions import ValidationError
from django.db.models import F, Model, Q, QuerySet
from django.http import QueryDict

from controlplane.core.errors import Invalid
from inference.contracts.answers import Page

T = TypeVar("T")
R = TypeVar("R", bound=Model)

LIMIT = 100
LIMIT_MAX = 1000

CURSOR_PARAMETERS = ("cursor", "limit", "order")

_IN_WORDS = {
    bool: "true or false",
    int: "a whole number",
    UUID: "an id",
    datetime: "a time like 2026-03-01T12:00:00Z",
}


@dataclass(frozen=True, slots=True)
class Filter:
    """lookup: the column that must have the value (with Django's lookups for querysets: "title__icontains"), or the
    attribute, for lists of views; a view's tuple has to hold the value. Several: one of them must. kind: what the value
    is read as."""

    lookup: str | tuple[str, ...]
    kind: type[str] | type[int] | type[bool] | type[datetime] | type[UUID] | type[StrEnum] = str
    description: str = ""

    @property
    def lookups(self) -> tuple[str, ...]:
        return (self.lookup,) if isinstance(self.lookup, str) else self.lookup


@dataclass(frozen=True, slots=True)
class Listing:
    """orders: what may be ordered by -> column or attribute; it must never be null. order: the one that is taken where
    none is asked for ("-started_at": the latest first)."""

    orders: Mapping[str, str]
    order: str
    filters: Mapping[str, Filter] = field(default_factory=dict)

    @property
    def parameters(self) -> frozenset[str]:
        """Names of all query parameters."""
        return frozenset((*CURSOR_PARAMETERS, *self.filters))


@dataclass(frozen=True, slots=True)
class _Asked:
    """One query, read. after: order value and key of the last item that the caller has seen."""

    column: str
    descending: bool
    limit: int
    digest: str
    after: tuple[Any, Any] | None

    def cursor(self, value: Any, key: Any) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode((self.digest, value, key))).decode().rstrip("=")


def matching(query: QueryDict, filters: Mapping[str, Filter], rows: QuerySet[R]) -> QuerySet[R]:
    """`rows` without those that the filters in `query` leave out.

    Raises:
        Invalid: a value can't be right; `field` names its parameter.
    """
    for each, value in _values(query, filters):
        rows = rows.filter(reduce(or_, (Q(**{lookup: value}) for lookup in each.lookups)))
    return rows


def page_of_rows(
    query: QueryDict, listing: Listing, rows: QuerySet[R], present: Callable[[Sequence[R]], Sequence[T]]
) -> Page[T]:
    """One page of `rows` as views. present: all rows of the page at once -> their views, in the same order.

    Raises:
        Invalid: a parameter can't be right; `field` names it.
    """
    asked = _read(query, listing)
    sign, beyond = ("-", "lt") if asked.descending else ("", "gt")
    found = (
        matching(query, listing.filters, rows).annotate(_order=F(asked.column)).order_by(f"{sign}_order", f"{sign}pk")
    )
    try:
        if asked.after is not None:
            value, key = asked.after
            found = found.filter(Q(**{f"_order__{beyond}": value}) | Q(**{"_order": value, f"pk__{beyond}": key}))
        taken = list(found[: asked.limit + 1])
    except (ValidationError, ValueError, TypeError, OverflowError) as error:
        if asked.after is None:
            raise
        raise _foreign_cursor() from error
    kept = taken[: asked.limit]
    more = len(taken) > asked.limit
    last = asked.cursor(kept[-1]._order, kept[-1].pk) if more else None  # type: ignore[attr-defined]
    return Page(items=tuple(present(kept)), next=last)


def page_of_views(query: QueryDict, listing: Listing, views: Sequence[T], *, key: str) -> Page[T]:
    """One page of views that were worked out in memory. key: the attribute that tells two of them apart.

    Raises:
        Invalid: a parameter can't be right; `field` names it.
    """
    asked = _read(query, listing)

    def place(view: T) -> tuple[Any, Any]:
        return getattr(view, asked.column), getattr(view, key)

    wanted = _values(query, listing.filters)
    found = sorted(
        (view for view in views if all(_has(view, each, value) for each, value in wanted)),
        key=place,
        reverse=asked.descending,
    )
    if asked.after is not None:
        try:
            after = tuple(asked.after)
            found = [view for view in found if (place(view) < after if asked.descending else place(view) > after)]
        except TypeError as error:
            raise _foreign_cursor() from error
    kept = found[: asked.limit]
    return Page(items=tuple(kept), next=asked.cursor(*place(kept[-1])) if len(found) > asked.limit else None)


def _has(view: Any, wanted: Filter, value: Any) -> bool:
    held = [getattr(view, name) for name in wanted.lookups]
    return any(value in each if isinstance(each, (tuple, list, frozenset)) else each == value for each in held)


def _read(query: QueryDict, listing: Listing) -> _Asked:
    order = query.get("order", listing.order)
    name = order.removeprefix("-")
    if name not in listing.orders:
        raise Invalid(
            f"This list can't be ordered by {name[:100]!r}; it can by {', '.join(listing.orders)}, or by -name for "
            "the other way round.",
            code="invalid_parameter",
            field="order",
        )
    filters = [(parameter, query[parameter]) for parameter in sorted(listing.filters) if parameter in query]
    digest = hashlib.sha256(repr((order, filters)).encode()).hexdigest()[:16]
    return _Asked(
        column=listing.orders[name],
        descending=order.startswith("-"),
        limit=_limit(query.get("limit")),
        digest=digest,
        after=_after(query.get("cursor"), digest),
    )


def _values(query: QueryDict, filters: Mapping[str, Filter]) -> list[tuple[Filter, Any]]:
    """The filters that `query` asks for, each with its value."""
    return [
        (each, _value(parameter, each.kind, str(query[parameter])))
        for parameter, each in filters.items()
        if parameter in query
    ]


def _value(parameter: str, kind: type, text: str) -> Any:
    """`text` of the query as a `kind`."""
    if "\0" in text:
        raise Invalid("Text can't contain the character U+0000.", code="invalid_parameter", field=parameter)
    try:
        if kind is datetime:
            return msgspec.convert(text, Annotated[datetime, msgspec.Meta(tz=True)]).astimezone(UTC)
        return msgspec.convert(text, kind, strict=False)
    except (msgspec.ValidationError, OverflowError) as error:
        wanted = f"one of {', '.join(kind)}" if issubclass(kind, StrEnum) else _IN_WORDS[kind]
        raise Invalid(
            f"{parameter} is {wanted}, not {text[:100]!r}.", code="invalid_parameter", field=parameter
        ) from error


def _limit(text: str | None) -> int:
    if text is None:
        return LIMIT
    limit = _value("limit", int, text)
    if not 1 <= limit <= LIMIT_MAX:
        raise Invalid(f"A page has 1 to {LIMIT_MAX} items, not {text[:100]}.", code="invalid_parameter", field="limit")
    return int(limit)


def _after(cursor: str | None, digest: str) -> tuple[Any, Any] | None:
    if cursor is None:
        return None
    try:
        made_for, value, key = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError, binascii.Error) as error:
        raise _foreign_cursor() from error
    if made_for != digest or "\0" in f"{value}{key}":
        raise _foreign_cursor()
    return value, key


def _foreign_cursor() -> Invalid:
    return Invalid(
        "This cursor is not one that this list gave out for these filters and this order; begin without one.",
        code="invalid_parameter",
        field="cursor",
    )
