"""DATABASE_URL -> Django's DATABASES entry. SQLite in WAL mode unless said otherwise; PostgreSQL by psycopg 3."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

#: Connections of one process, made when they are needed and kept for the next task or request: a new one costs
#: PostgreSQL a process whose caches are empty. While the server is away, whoever asks waits `timeout` seconds at most
#: (the pool tells nobody that a connection was refused), and nothing tries on its own behind that. There are fewer
#: threads in a process than connections, so nobody waits for another's.
_POOL = {"min_size": 0, "max_size": 20, "timeout": 3.0, "max_idle": 300.0, "reconnect_timeout": 5.0}


def database_from_url(url: str, data_dir: Path) -> dict[str, Any]:
    """Settings for `url` ("postgresql://user:password@host:port/name?sslmode=require", "sqlite:///path"); an empty
    one means `data_dir`/tandem.sqlite3."""
    if not url:
        return _sqlite(str(data_dir / "tandem.sqlite3"))
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return _sqlite(unquote(parts.path) if parts.path.startswith("//") else unquote(parts.path.lstrip("/")))
    if parts.scheme in ("postgres", "postgresql"):
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path.lstrip("/")),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": parts.hostname or "",
            "PORT": str(parts.port or ""),
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {"connect_timeout": 5, "pool": dict(_POOL), **dict(parse_qsl(parts.query))},
        }
    raise ImproperlyConfigured(f"DATABASE_URL has the scheme {parts.scheme!r}; use postgresql:// or sqlite:///")


def _sqlite(name: str) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        "OPTIONS": {
            # Writers queue at BEGIN instead of failing at the first write with "database is locked".
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
