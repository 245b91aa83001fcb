from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from inference.agent.weights import keeper as keeper_module
from inference.agent.weights.keeper import WeightsKeeper, needed
from inference.agent.weights.store import WeightsStore
from inference.contracts.reports import WeightsReport
from inference.contracts.specs import NodeSpec, WeightsSpec, WorkerSpec
from inference.contracts.states import FetchState, WorkerDesired
from inference.testing.fake_hub import file_server, write_model
from tests.inference.agent.node_under_test import NODE, processes_of, worker

URL = "https://models.example/llama.tar"


class Keeping:
    def __init__(self, folder: Path, hub: str = "http://127.0.0.1:1") -> None:
        folder.mkdir()
        self.folder = folder
        self.store = WeightsStore(folder / "weights")
        self.changes = 0
        self.keeper = WeightsKeeper(
            self.store,
            folder=folder,
            environment={**os.environ, "HF_ENDPOINT": hub, "HF_HOME": str(folder / "hf")},
            on_change=self._changed,
            look_s=0.02,
        )

    def _changed(self) -> None:
        self.changes += 1

    def want(self, *weights: WeightsSpec, workers: tuple[WorkerSpec, ...] = ()) -> None:
        self.keeper.want(NodeSpec(node_id=NODE, generation=1, workers=workers, weights=weights))

    def report(self, path: str) -> WeightsReport | None:
        return next((report for report in self.keeper.reports() if report.path == path), None)

    async def becomes(self, path: str, state: FetchState, within_s: float = 15.0) -> WeightsReport:
        async with asyncio.timeout(within_s):
            while not ((report := self.report(path)) and report.state is state):
                await asyncio.sleep(0.01)
        return report

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.keeper.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert processes_of(self.folder) == [], "nothing is left when an agent ends"


async def test_a_directory_is_present_when_it_holds_a_model_and_says_what_is_missing_when_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "CHECK_DIRECTORIES_S", 0.02)
    keeping, model = Keeping(tmp_path / "agent"), tmp_path / "model"
    async with keeping.running():
        keeping.want(WeightsSpec(path=str(model)))
        report = await keeping.becomes(str(model), FetchState.FAILED)
        assert report.reason == f"{model} is not a directory on this node"
        write_model(model)
        report = await keeping.becomes(str(model), FetchState.PRESENT)
        assert report.size_bytes is not None
        assert (report.size_bytes > 200_000, report.reason) == (True, "")
        (model / "config.json").unlink()
        assert "config.json" in (await keeping.becomes(str(model), FetchState.FAILED)).reason


async def test_a_model_is_fetched_with_its_progress_and_stays_when_it_is_wanted_no_more(tmp_path: Path) -> None:
    write_model(tmp_path / "served" / "org" / "name")
    async with file_server(tmp_path / "served") as server:
        keeping = Keeping(tmp_path / "agent", server.url)
        async with keeping.running():
            keeping.want(WeightsSpec(path="org/name"))
            assert keeping.report("org/name") == WeightsReport(path="org/name", revision="", state=FetchState.WANTED)
            report = await keeping.becomes("org/name", FetchState.PRESENT)
            assert report.size_bytes == keeping.store.stored()[0].size_bytes
            assert keeping.changes >= 2
            keeping.want()
            assert keeping.report("org/name") == report, "what is here is told, wanted or not"
        again = Keeping.__new__(Keeping)
        again.__dict__.update(keeping.__dict__)
        served = dict(server.served)
        again.keeper = WeightsKeeper(
            keeping.store, folder=keeping.folder, environment=os.environ, on_change=again._changed
        )
        async with again.running():
            again.want(WeightsSpec(path="org/name"))
            await again.becomes("org/name", FetchState.PRESENT)
        assert server.served == served, "the next agent finds it and fetches nothing"


async def test_a_failed_fetch_says_why_and_is_tried_again_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    async with file_server(tmp_path / "served") as server:
        keeping = Keeping(tmp_path / "agent", server.url)
        async with keeping.running():
            keeping.want(WeightsSpec(path="org/name"))
            assert "the hub has no model org/name" in (await keeping.becomes("org/name", FetchState.FAILED)).reason
            write_model(tmp_path / "served" / "org" / "name")
            keeping.want(WeightsSpec(path="org/name"))
            await asyncio.sleep(0.1)
            assert keeping.report("org/name").state is FetchState.FAILED  # type: ignore[union-attr]
            keeping.want(WeightsSpec(path="org/name", attempt=1))
            await keeping.becomes("org/name", FetchState.PRESENT)


async def test_bytes_on_disk_are_the_progress_and_a_fetch_that_is_wanted_no_more_is_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "FETCH_MODULE", "tests.inference.agent.hanging_child")
    keeping = Keeping(tmp_path / "agent")
    async with keeping.running():
        keeping.want(WeightsSpec(path="org/name"), WeightsSpec(path="org/other"))
        await keeping.becomes("org/name", FetchState.FETCHING)
        partial = keeping.store.partial("org/name", "")
        partial.mkdir(parents=True)
        (partial / "part").write_bytes(b"x" * 1234)
        async with asyncio.timeout(5):
            while keeping.report("org/name").fetched_bytes != 1234:  # type: ignore[union-attr]
                await asyncio.sleep(0.01)
        assert keeping.report("org/other").state is FetchState.WANTED, "one at a time"  # type: ignore[union-attr]
        keeping.want(WeightsSpec(path="org/other"))
        await keeping.becomes("org/other", FetchState.FETCHING)
        assert keeping.report("org/name") is None
        assert (partial / "part").exists(), "what has come is there for a later try"


async def test_a_fetch_that_dies_without_a_word_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "FETCH_MODULE", "tests.inference.agent.no_such_module")
    keeping = Keeping(tmp_path / "agent")
    async with keeping.running():
        keeping.want(WeightsSpec(path="org/name"))
        report = await keeping.becomes("org/name", FetchState.FAILED)
        assert report.reason == "the fetch ended with exit code 1"


def test_a_worker_whose_engine_can_not_fetch_its_model_makes_the_node_need_it() -> None:
    workers = (
        worker("w1", URL),
        worker("w2", URL),
        worker("w3", "org/name"),
        worker("w4", "/models/llama"),
        worker("w5", "https://models.example/gone.tar", desired=WorkerDesired.STOP),
    )
    listed = WeightsSpec(path="org/other", attempt=2)
    spec = NodeSpec(node_id=NODE, generation=1, workers=workers, weights=(listed,))
    assert needed(spec) == (listed, WeightsSpec(path=URL))
