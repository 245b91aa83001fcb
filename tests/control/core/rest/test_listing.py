"""Claims about lists: filters, order, and pages that neither repeat nor hide what is added or removed meanwhile."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from enum import StrEnum

import msgspec
import pytest
from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.test import APIClient

from controlplane.catalog.models import Model
from controlplane.core.errors import Invalid
from controlplane.core.rest.listing import Filter, Listing, page_of_views
from tests.control.conftest import Clock
from tests.control.core.rest.shelf import BOOKS

NAMES = ["ann", "bea", "cat", "dan", "eva", "fay", "gus"]


@pytest.fixture
def books(db: None, now: Clock, shelf: object) -> None:
    """Two of each description, so that an order by it has ties."""
    for number, name in enumerate(NAMES):
        Model.objects.create(name=name, path="/", description=f"d{number // 2}", created_at=now.advance(1))


def pages(api: APIClient, query: str) -> list[list[str]]:
    found, cursor = [], ""
    while True:
        page = api.get(f"{BOOKS}?{query}{cursor}").json()
        found.append([item["name"] for item in page["items"]])
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


@pytest.mark.postgres
@pytest.mark.usefixtures("books")
class TestRows:
    def test_a_list_is_in_its_own_order_and_tells_where_it_ends(self, api: APIClient) -> None:
        assert api.get(BOOKS).json()["next"] is None
        assert pages(api, "") == [NAMES]

    @pytest.mark.parametrize("order", ["name", "-name", "created_at", "-created_at", "description", "-description"])
    @pytest.mark.parametrize("limit", [1, 2, 3, 7])
    def test_pages_put_together_are_the_list(self, api: APIClient, order: str, limit: int) -> None:
        got = pages(api, f"order={order}&limit={limit}")
        whole = [name for page in got for name in page]

        assert sorted(whole) == NAMES
        assert all(len(page) == limit for page in got[:-1])
        if order != "description" and order != "-description":
            assert whole == (NAMES[::-1] if order.startswith("-") else NAMES)

    def test_what_is_added_or_removed_meanwhile_shifts_nothing(self, api: APIClient, now: Clock) -> None:
        first = api.get(f"{BOOKS}?limit=3").json()
        Model.objects.create(name="aaa", path="/", created_at=now())
        Model.objects.filter(name__in=["bea", "cat"]).delete()
        second = api.get(f"{BOOKS}?limit=3&cursor={first['next']}").json()

        assert [item["name"] for item in second["items"]] == ["dan", "eva", "fay"]

    def test_filters_go_with_pages(self, api: APIClient) -> None:
        assert pages(api, "description=d1&limit=1") == [["cat"], ["dan"]]
        assert pages(api, "name=b") == [["bea"]]
        assert pages(api, "description=") == [[]]

    @pytest.mark.parametrize(
        ("query", "field"),
        [
            ("order=colour", "order"),
            ("order=--name", "order"),
            ("limit=0", "limit"),
            ("limit=1001", "limit"),
            ("limit=ten", "limit"),
            ("limit=99999999999999999999999", "limit"),
            ("cursor=x", "cursor"),
            ("cursor=%00", "cursor"),
            ("cursor=", "cursor"),
            ("descripton=d1", "descripton"),
            ("description=%00", "description"),
        ],
    )
    def test_what_can_not_be_asked_is_refused_by_name(self, api: APIClient, query: str, field: str) -> None:
        refused = api.get(f"{BOOKS}?{query}")

        assert (refused.status_code, refused.json()["field"]) == (400, field)

    def test_a_cursor_is_good_for_its_own_filters_and_order_only(self, api: APIClient) -> None:
        cursor = api.get(f"{BOOKS}?limit=2").json()["next"]

        for query in ("order=-name", "description=d1"):
            assert api.get(f"{BOOKS}?limit=2&{query}&cursor={cursor}").status_code == 400

    @pytest.mark.parametrize("forged", [[], {}, None, True, "x\0", 10**30, [1], "2026-99-99"])
    @pytest.mark.parametrize("place", [1, 2])
    @pytest.mark.parametrize("order", ["name", "created_at"])
    def test_a_forged_cursor_is_refused_and_never_a_fault(
        self, api: APIClient, forged: object, place: int, order: str
    ) -> None:
        cursor = api.get(f"{BOOKS}?limit=2&order={order}").json()["next"]
        parts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        parts[place] = forged
        made = base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")

        assert api.get(f"{BOOKS}?limit=2&order={order}&cursor={made}").status_code in (200, 400)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Thing(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    size: int
    colour: Colour
    seen: datetime
    tags: tuple[str, ...]


LISTING = Listing(
    orders={"size": "size", "id": "id"},
    order="size",
    filters={
        "colour": Filter("colour", Colour),
        "size": Filter("size", int),
        "seen": Filter("seen", datetime),
        "tag": Filter("tags"),
        "number": Filter(("id", "size"), int),
    },
)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
THINGS = [
    Thing(id=1, size=5, colour=Colour.RED, seen=NOON, tags=("a", "b")),
    Thing(id=2, size=5, colour=Colour.BLUE, seen=NOON, tags=()),
    Thing(id=3, size=1, colour=Colour.RED, seen=NOON, tags=("b",)),
]


def ids(query: str, things: list[Thing] = THINGS) -> list[int]:
    return [thing.id for thing in page_of_views(QueryDict(query), LISTING, things, key="id").items]


def test_views_are_filtered_by_what_they_show() -> None:
    assert ids("colour=red") == [3, 1]
    assert ids("size=5&colour=blue") == [2]
    assert ids("tag=b&order=-id") == [3, 1]
    assert ids("number=1") == [3, 1]
    assert ids("seen=2026-03-01T13:00:00%2B01:00&order=id") == [1, 2, 3]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("colour=green", "colour is one of red, blue, not 'green'."),
        ("size=big", "size is a whole number, not 'big'."),
        ("seen=2026-03-01T12:00:00", "seen is a time like 2026-03-01T12:00:00Z, not '2026-03-01T12:00:00'."),
        ("seen=noon", "seen is a time like 2026-03-01T12:00:00Z, not 'noon'."),
        ("seen=0001-01-01T00:00:00%2B14:00", "seen is a time like"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_what_is_right(query: str, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        ids(query)

    assert caught.value.message.startswith(sentence)


@given(
    sizes=st.lists(st.integers(0, 4), max_size=20),
    limit=st.integers(1, 6),
    order=st.sampled_from(["size", "-size", "id", "-id"]),
)
def test_pages_of_views_put_together_are_all_of_them_in_order(sizes: list[int], limit: int, order: str) -> None:
    things = [Thing(id=number, size=size, colour=Colour.RED, seen=NOON, tags=()) for number, size in enumerate(sizes)]
    whole: list[Thing] = []
    cursor = ""
    while True:
        page = page_of_views(QueryDict(f"limit={limit}&order={order}{cursor}"), LISTING, things, key="id")
        whole += page.items
        if page.next is None:
            break
        cursor = f"&cursor={page.next}"

    name = order.removeprefix("-")
    expected = sorted(things, key=lambda thing: (getattr(thing, name), thing.id), reverse=order.startswith("-"))
    assert whole == expected
