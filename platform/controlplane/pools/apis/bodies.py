"""Reading bodies: what was left out, and settings that do not exist."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from rest_framework.request import Request

from controlplane.core.errors import Invalid
from controlplane.core.rest.api import body
from inference.contracts.specs import EngineSettings

T = TypeVar("T")


def given(value: T | msgspec.UnsetType) -> T | None:
    """None for what was left out."""
    return None if isinstance(value, msgspec.UnsetType) else value


def refuse_unknown_settings(request: Request) -> None:
    """A misspelt setting must not be dropped; between processes, unknown fields are ignored on purpose.

    Raises:
        Invalid: there is no such setting.
    """
    given = body(request, dict[str, Any]).get("settings") or {}
    unknown = [name for name in given if name not in EngineSettings.__struct_fields__]
    if unknown:
        raise Invalid(
            f"There is no setting {unknown[0]!r}; known are {', '.join(EngineSettings.__struct_fields__)}.",
            code="invalid_setting",
            field=f"settings.{unknown[0]}",
        )
