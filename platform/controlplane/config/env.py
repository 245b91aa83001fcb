"""Typed reading of environment variables. A malformed value stops the process: a silent default is the worst outage."""

from __future__ import annotations

import math
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
    """Of seconds, bytes or things: finite and never negative."""
    value = text(name)
    try:
        read = float(value) if value else default
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} is {value!r}; a number is needed") from error
    if not 0 <= read < math.inf:
        raise ImproperlyConfigured(f"{name} is {value!r}; it can't be negative or without end")
    return read


def whole(name: str, default: int) -> int:
    """The same, of what there is no half of."""
    read = number(name, default)
    if read != int(read):
        raise ImproperlyConfigured(f"{name} is {text(name)!r}; a whole number is needed")
    return int(read)


def port(name: str, default: int) -> int:
    value = text(name)
    if not value:
        return default
    if not (value.isascii() and value.isdecimal() and 1 <= int(value) <= 65535):
        raise ImproperlyConfigured(f"{name} is {value!r}; a port is a whole number from 1 to 65535")
    return int(value)


def listing(name: str, default: str = "") -> list[str]:
    """Comma-separated values."""
    return [part.strip() for part in text(name, default).split(",") if part.strip()]


def pairs(name: str) -> dict[str, str]:
    """Comma-separated `key=value`."""
    read = {}
    for part in listing(name):
        key, equals, value = part.rpartition("=")
        if not (equals and key.strip() and value.strip()):
            raise ImproperlyConfigured(f"{name} has {part!r}; it looks like group=role,group=role")
        read[key.strip()] = value.strip()
    return read


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
