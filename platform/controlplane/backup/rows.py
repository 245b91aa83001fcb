"""Rows as lines of JSON, one object a row, in values that every database gives and takes alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management.color import no_style
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

_BATCH = 500


def tables() -> list[type[models.Model]]:
    """Everything that Tandem keeps. Sessions are not: whoever was logged in logs in again. Django's own groups and
    permissions are not used here."""
    ours = (config for config in apps.get_app_configs() if config.name.startswith("controlplane."))
    return [User, *(model for config in ours for model in config.get_models())]


def dump(model: type[models.Model]) -> Iterator[bytes]:
    columns = [field.attname for field in model._meta.concrete_fields]
    rows = model._base_manager.order_by(model._meta.pk.attname).values_list(*columns)
    for row in rows.iterator(_BATCH):
        yield msgspec.json.encode(dict(zip(columns, row, strict=True)))


def load(model: type[models.Model], lines: Iterable[bytes]) -> None:
    """Insert the rows as they are, keys included. Foreign keys are checked when the transaction ends."""
    fields = {field.attname: field for field in model._meta.concrete_fields}
    lines = iter(lines)
    while batch := list(islice(lines, _BATCH)):
        model._base_manager.bulk_create(_row(model, fields, msgspec.json.decode(line)) for line in batch)


def _row(model: type[models.Model], fields: dict[str, Any], values: dict[str, Any]) -> models.Model:
    return model(**{name: fields[name].to_python(value) for name, value in values.items()})


def forget(connection: BaseDatabaseWrapper, model: type[models.Model]) -> None:
    """Remove every row, whoever refers to it: the caller fills the tables again in the same transaction."""
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {connection.ops.quote_name(model._meta.db_table)}")  # noqa: S608


def number_on(connection: BaseDatabaseWrapper) -> None:
    """New rows get numbers after those that were inserted with numbers of their own."""
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), tables()):
            cursor.execute(statement)
