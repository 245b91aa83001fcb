"""Typed reading of environment variables. A malformed value stops the process: a silent default is the worst outage."""

from __future__ import annotations

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "") or default


def flag(name: str, default: bool = False) -> bool:
    value = text(name).lower()
    if value in ("", "1", "true", "yes", "on", "0", "false", "no", "off"):
        return value in ("1", "true", "yes", "on") if value else default
    raise ImproperlyConfigured(f"{name} is {value!r}; use 1 or 0")


def number(name: str, default: float) -> float:
    value = text(name)
    try:
        return float(value) if value else default
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} is {value!r}; a number is needed") from error


def listing(name: str, default: str = "") -> list[str]:
    """Comma-separated values."""
    return [part.strip() for part in text(name, default).split(",") if part.strip()]


def secret(name: str, fallback: Path | None = None) -> str:
    """The value of `name`, or of the file that `<name>_FILE` names, or of `fallback` where that file exists."""
    if value := text(name):
        return value
    named = text(f"{name}_FILE")
    path = Path(named) if named else fallback
    if path is not None and path.is_file():
        return path.read_text().strip()
    if named:
        raise ImproperlyConfigured(f"{name}_FILE is {named!r}, which is not a readable file")
    return ""
