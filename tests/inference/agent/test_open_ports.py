"""F34: every port that a node's processes listen on, found by looking, and what strangers are told there."""

from __future__ import annotations

import http.client
import json
import pickle
import socket
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from inference.contracts.states import Role, WorkerPhase
from tests.inference.agent.node_under_test import NodeUnderTest, processes_of, worker
from tests.inference.agent.workers.test_worker_server import STUB_SERVERS

_CALLS = (
    ("GET", "/logs", None),
    ("GET", "/worker/log?path=/etc/passwd", None),
    ("PUT", "/log-level", {"level": "DEBUG"}),
    ("PUT", "/worker/log-level", {"level": "DEBUG"}),
    ("GET", "/worker/status", None),
    ("GET", "/metrics", None),
    ("GET", "/health/ready", None),
    ("POST", "/worker/reserve", {"request_id": "of somebody else"}),
    ("POST", "/worker/generate", {"ticket_id": "of somebody else"}),
    ("POST", "/worker/prefill", {"request_id": "of somebody else"}),
    ("DELETE", "/worker/tickets/of-somebody-else", None),
    ("POST", "/worker/windows", {"free_blocks": 1_000_000}),
    ("POST", "/worker/role", {"role": "prefill"}),
    ("POST", "/worker/drain", {}),
)


class Planted:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> object:
        return (Path.touch, (self._path,))


def listening(node: NodeUnderTest) -> set[tuple[str, int]]:
    """Of the workers' processes and of this one, which is the agent's."""
    processes = [psutil.Process(), *processes_of(node.state.root)]
    found = [connection for process in processes for connection in process.net_connections("tcp")]
    return {(each.laddr.ip, each.laddr.port) for each in found if each.status == psutil.CONN_LISTEN}


def told(method: str, url: str, body: object, **headers: str) -> int | None:
    """Status of the answer; None where what listens there speaks no HTTP and hangs up."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, http.client.HTTPException):
        return None


def thrown(port: int, junk: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        try:
            connection.sendall(junk)
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(65_536)
        except OSError:
            return b""


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer guessed"}], ids=["without", "with a guessed one"])
def test_strangers_are_refused_on_every_port_and_that_is_logged(tmp_path: Path, headers: dict[str, str]) -> None:
    planted = tmp_path / "planted"
    with NodeUnderTest(tmp_path / "agent", STUB_SERVERS, probe_failures=100) as node:
        before = listening(node)
        node.want(worker("w1", "stub", engine="stub", role=Role.DECODE))
        ready = node.wait("w1", WorkerPhase.READY, within_s=60)
        ports = listening(node) - before
        assert ready.http is not None
        assert ready.transfer is not None
        assert {port for _, port in ports} == {ready.http.port, ready.transfer.port}, "all it opens is what it reports"
        assert {host for host, _ in ports} == {"127.0.0.1"}, "and only where it was told to"

        for _, port in ports:
            for method, path, body in _CALLS:
                assert told(method, f"http://127.0.0.1:{port}{path}", body, **headers) in (None, 401), (method, path)
            for junk in (pickle.dumps(Planted(planted)), b"\x00" * 64, b"\xff" * 4096, b"GET KV /of/another\n\n"):
                answer = thrown(port, junk)
                assert not answer or b"400 Bad Request" in answer or b"unauthenticated" in answer

        after = node.wait("w1", WorkerPhase.READY)
        log = "\n".join(path.read_text(errors="replace") for path in node.state.root.rglob("*.log"))
    assert not planted.exists()
    assert (after.pid, after.role) == (ready.pid, Role.DECODE)
    assert log.count("call refused: no bearer") == len(_CALLS)
    assert "kv transfer: connection refused" in log
