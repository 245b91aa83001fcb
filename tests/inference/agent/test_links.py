from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from inference.agent import links as links_module
from inference.agent.links import Links
from inference.agent.workers.launcher import MARKER
from inference.contracts.reports import LinkReport
from inference.contracts.specs import LinkSpec
from inference.testing.tls import make_certificates
from tests.inference.agent.node_under_test import HOSTS, SECRET

SMALL = 4 * 1024 * 1024


class Side:
    """The measuring part of one node's agent."""

    def __init__(self, folder: Path, secret: str = SECRET) -> None:
        folder.mkdir()
        self.folder = folder
        secret_file = folder / "secret"
        secret_file.write_text(secret)
        self.changes = 0
        self.links = Links(
            hosts=HOSTS,
            secret_file=secret_file,
            folder=folder,
            environment=os.environ,
            on_change=self._changed,
        )

    def _changed(self) -> None:
        self.changes += 1

    def want(self, *specs: LinkSpec) -> None:
        self.links.want(specs)

    def report(self, measurement_id: str = "m") -> LinkReport | None:
        return next((r for r in self.links.reports() if r.measurement_id == measurement_id), None)

    async def told(self, *fields: str, of: str = "m", within_s: float = 15.0) -> LinkReport:
        """The report once any of `fields` is given in it."""
        async with asyncio.timeout(within_s):
            while not ((report := self.report(of)) and any(getattr(report, field) for field in fields)):
                await asyncio.sleep(0.02)
        return report

    def processes(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARKER) == str(self.folder) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    async def left_alone(self, within_s: float = 5.0) -> None:
        async with asyncio.timeout(within_s):
            while self.processes():
                await asyncio.sleep(0.02)


@asynccontextmanager
async def running(*sides: Side) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(side.links.run()) for side in sides]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for side in sides:
            assert side.processes() == [], "nothing is left when an agent ends"


def listening(name: str = "m", **changes: Any) -> LinkSpec:
    return LinkSpec(measurement_id=name, listen=True, size_bytes=SMALL, **changes)


def sending(name: str = "m", port: int | None = None, **changes: Any) -> LinkSpec:
    return LinkSpec(
        measurement_id=name, listen=False, peer_host="127.0.0.1", peer_port=port, size_bytes=SMALL, **changes
    )


async def test_two_nodes_measure_the_link_between_them_and_forget_it_when_it_is_listed_no_more(tmp_path: Path) -> None:
    here, there = Side(tmp_path / "here"), Side(tmp_path / "there")
    async with running(here, there):
        here.want(listening())
        there.want(sending())
        address = (await here.told("address")).address
        assert address is not None
        assert address.host == "127.0.0.1"
        there.want(sending(port=address.port))
        result = await there.told("bytes_per_s", "error")
        assert result.error == ""
        assert result.bytes_per_s is not None
        assert result.bytes_per_s > 1_000_000
        assert result.latency_s is not None
        assert 0 < result.latency_s < 1
        await here.left_alone()
        assert here.report() == LinkReport(measurement_id="m", address=address), "its address stays told"
        assert there.changes >= 1
        here.want()
        there.want()
        assert (here.report(), there.report()) == (None, None)


async def test_the_link_is_measured_over_tls_where_workers_speak_it(tmp_path: Path) -> None:
    in_clear, here, there = Side(tmp_path / "in_clear"), Side(tmp_path / "here"), Side(tmp_path / "there")
    files = make_certificates(tmp_path).of_node
    for side in (here, there):
        side.links._environment = {**os.environ, **files}
    async with running(in_clear, here, there):
        here.want(listening())
        address = (await here.told("address")).address
        assert address is not None
        in_clear.want(sending(port=address.port))
        assert "takes calls over TLS only" in (await in_clear.told("bytes_per_s", "error")).error
        there.want(sending(port=address.port))
        assert (await there.told("bytes_per_s", "error")).bytes_per_s is not None


async def test_a_peer_of_another_cluster_is_refused_by_both(tmp_path: Path) -> None:
    here, stranger = Side(tmp_path / "here"), Side(tmp_path / "stranger", secret="of-another")
    async with running(here, stranger):
        here.want(listening())
        address = (await here.told("address")).address
        assert address is not None
        stranger.want(sending(port=address.port))
        assert "does not know this cluster's secret" in (await stranger.told("bytes_per_s", "error")).error
        assert here.processes(), "the listening side waits on for the right one"
        assert here.report() == LinkReport(measurement_id="m", address=address)


async def test_a_peer_that_is_gone_is_told_at_once(tmp_path: Path) -> None:
    side = Side(tmp_path / "side")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with running(side):
        side.want(sending(port=port))
        error = (await side.told("error")).error
        assert error.startswith(f"the listening node at 127.0.0.1:{port}")


async def test_a_peer_that_accepts_and_says_nothing_costs_no_more_than_the_deadline(tmp_path: Path) -> None:
    side = Side(tmp_path / "side")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with running(side):
            began = time.monotonic()
            side.want(sending(port=silent.getsockname()[1], deadline_s=1.0))
            assert (await side.told("error")).error == "it was not over within 1 s"
            assert time.monotonic() - began < 10
            await side.left_alone()


async def test_a_listener_that_nobody_calls_gives_up_at_its_deadline(tmp_path: Path) -> None:
    side = Side(tmp_path / "side")
    async with running(side):
        side.want(listening(deadline_s=1.0))
        report = await side.told("error")
        assert report.error == "it was not over within 1 s"
        assert report.address is not None


async def test_a_sender_that_is_never_told_its_peer_gives_up_at_its_deadline(tmp_path: Path) -> None:
    side = Side(tmp_path / "side")
    async with running(side):
        side.want(sending(deadline_s=0.2))
        assert (await side.told("error")).error == "it was not over within 0.2 s: no peer was named"


async def test_a_process_that_hangs_beyond_its_deadline_is_killed_with_its_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links_module, "PROBE_MODULE", "tests.inference.agent.hanging_child")
    monkeypatch.setattr(links_module, "GRACE_S", 0.5)
    side = Side(tmp_path / "side")
    async with running(side):
        side.want(sending(port=1, deadline_s=1.0))
        async with asyncio.timeout(10):
            while len(side.processes()) < 2:
                await asyncio.sleep(0.02)
        assert (await side.told("error")).error == "it was not over within 1 s"
        await side.left_alone()


async def test_a_running_measurement_that_is_listed_no_more_is_ended(tmp_path: Path) -> None:
    side = Side(tmp_path / "side")
    async with running(side):
        side.want(listening())
        await side.told("address")
        side.want()
        await side.left_alone()


async def test_a_node_measures_one_link_at_a_time_in_the_order_of_their_ids(tmp_path: Path) -> None:
    side = Side(tmp_path / "side")
    async with running(side):
        side.want(listening("m-2", deadline_s=1.0), listening("m-1", deadline_s=1.0))
        await side.told("address", of="m-1")
        assert side.report("m-2") == LinkReport(measurement_id="m-2"), "it waits its turn"
        assert len(side.processes()) == 1
        await side.told("error", of="m-1")
        await side.told("address", of="m-2")


async def test_nodes_that_wait_for_each_other_in_a_circle_all_get_their_turn(tmp_path: Path) -> None:
    """a listens for b, b for c, c for a: with one at a time, and any other order, each would wait for the next."""
    sides = {name: Side(tmp_path / name) for name in "abc"}
    pairs = {"m-1": ("a", "b"), "m-2": ("b", "c"), "m-3": ("c", "a")}

    def specs_of(side: str, ports: dict[str, int], over: set[str]) -> list[LinkSpec]:
        return [
            listening(name) if side == listener else sending(name, ports.get(name))
            for name, (listener, sender) in pairs.items()
            if side in (listener, sender) and name not in over
        ]

    ports: dict[str, int] = {}
    results: set[str] = set()
    async with running(*sides.values()):
        async with asyncio.timeout(30):
            while len(results) < 3:
                for side, node in sides.items():
                    node.want(*specs_of(side, ports, results))
                await asyncio.sleep(0.05)
                for name, (listener, sender) in pairs.items():
                    heard, sent = sides[listener].report(name), sides[sender].report(name)
                    if heard is not None and heard.address is not None:
                        ports[name] = heard.address.port
                    if sent is not None and sent.bytes_per_s is not None:
                        results.add(name)


async def test_a_probe_that_can_not_be_started_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "PROBE_MODULE", "tests.inference.agent.no_such_module")
    side = Side(tmp_path / "side")
    async with running(side):
        side.want(listening())
        assert (await side.told("error")).error == "the measurement ended with exit code 1"
