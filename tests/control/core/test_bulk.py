"""Claims about saving many rows by one plain statement."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pytest_django import DjangoAssertNumQueries

from controlplane.core.bulk import rows_write
from controlplane.fleet.models import Node

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def nodes() -> list[Node]:
    return [
        Node.objects.create(name=name, hostname=name, address="10.0.0.1", joined_at=NOON) for name in ("a", "b", "c")
    ]


def test_every_kind_of_value_arrives_as_it_was_set(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    rows = nodes()
    for number, row in enumerate(rows):
        row.engines, row.interfaces, row.last_report_at = {"native": "1"}, ["eth0 é"], NOON
        row.clock_offset_s, row.memory_total, row.secured = number / 2, None, True
        row.hostname = f"host {number}"
    columns = ("engines", "interfaces", "last_report_at", "clock_offset_s", "memory_total", "secured", "hostname")
    with django_assert_num_queries(1):
        rows_write(rows, columns)

    for row in rows:
        read = Node.objects.get(pk=row.pk)
        assert [getattr(read, column) for column in columns] == [getattr(row, column) for column in columns]


def test_columns_and_rows_that_are_not_named_stay() -> None:
    first, second, _ = nodes()
    first.hostname = first.address = second.hostname = "changed"
    rows_write([first], ["hostname"])

    assert set(Node.objects.values_list("name", "hostname", "address")) == {
        ("a", "changed", "10.0.0.1"),
        ("b", "b", "10.0.0.1"),
        ("c", "c", "10.0.0.1"),
    }


def test_nothing_is_asked_for_no_rows(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(0):
        rows_write([], ["hostname"])
