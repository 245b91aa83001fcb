from __future__ import annotations

import asyncio
import io
import os
import sys
import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from inference.agent.weights import fetch as fetch_module
from inference.agent.weights import hub
from inference.agent.weights.failed import FetchFailed
from inference.agent.weights.fetch import fetch
from inference.agent.weights.store import WeightsStore, check
from inference.contracts.codec import decode
from inference.contracts.reports import WeightsReport
from inference.contracts.states import FetchState
from inference.testing.fake_hub import COMMIT, FileServer, file_server, write_model, write_sums
from tests.inference.agent.node_under_test import ROOT


@dataclass
class Bench:
    """A server with one model, and an empty store."""

    server: FileServer
    store: WeightsStore
    model: Path
    home: Path

    async def fetch(self, path: str, revision: str = "", **environment: str) -> list[WeightsReport]:
        """What is said, to the end. In a process for the hub, whose library reads its environment only once."""
        if "://" not in path:
            return await self._process(path, revision, environment)
        said: list[WeightsReport] = []

        def say(state: FetchState, size: int | None = None, reason: str = "") -> None:
            said.append(WeightsReport(path=path, revision=revision, state=state, size_bytes=size, reason=reason))

        try:
            model = await asyncio.to_thread(
                fetch, self.store, path, revision, lambda size: say(FetchState.FETCHING, size)
            )
            say(FetchState.PRESENT, model.size_bytes)
        except FetchFailed as error:
            say(FetchState.FAILED, reason=str(error))
        return said

    async def _process(self, path: str, revision: str, environment: dict[str, str]) -> list[WeightsReport]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "inference.agent.weights.fetch"),
            *("--root", str(self.store.root), "--path", path, "--revision", revision),
            cwd=ROOT,
            env={**os.environ, "HF_ENDPOINT": self.server.url, "HF_HOME": str(self.home), **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        output, _ = await process.communicate()
        said = [decode(line, WeightsReport) for line in output.splitlines()]
        assert (process.returncode == 0) == (said[-1].state is FetchState.PRESENT)
        return said

    async def reason(self, path: str, revision: str = "", **environment: str) -> str:
        [*_, last] = await self.fetch(path, revision, **environment)
        assert last.state is FetchState.FAILED
        return last.reason

    def url(self, path: str) -> str:
        return f"{self.server.url}/files/{path}"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    root = tmp_path / "served"
    model = write_model(root / "org" / "name")
    async with file_server(root) as server:
        yield Bench(server, WeightsStore(tmp_path / "weights"), model, tmp_path / "home")


# -- the hub -------------------------------------------------------------------------------------------


async def test_a_model_of_the_hub_is_fetched_without_its_pickled_weights(bench: Bench) -> None:
    first, last = await bench.fetch("org/name")
    assert (first.state, first.size_bytes) == (FetchState.FETCHING, last.size_bytes)
    folder = bench.store.folder("org/name", "")
    assert check(folder) == last.size_bytes
    assert not (folder / "pytorch_model.bin").exists()
    assert not (folder / ".cache").exists()
    assert [path.name for path in bench.store.root.iterdir() if path.is_dir()] == [folder.name]


async def test_a_revision_is_kept_apart(bench: Bench) -> None:
    await bench.fetch("org/name", COMMIT)
    assert bench.store.find("org/name", COMMIT) is not None
    assert bench.store.find("org/name", "") is None


async def test_what_the_hub_refuses_is_told_in_one_sentence(bench: Bench) -> None:
    write_model(bench.server.root / "org" / "gated")
    bench.server.gated.add("org/gated")
    assert await bench.reason("org/none") == (
        "the hub has no model org/none, or it is private and this node's agent has no token (HF_TOKEN)"
    )
    assert "is gated: accept its terms" in await bench.reason("org/gated")
    assert await bench.reason("org/name", "v9") == "org/name has no revision 'v9'"
    assert "is neither a directory on this node nor an id" in await bench.reason("a/b/c")
    assert "HF_HUB_OFFLINE forbids" in await bench.reason("org/name", HF_HUB_OFFLINE="1")
    assert "could not be reached" in await bench.reason("org/name", HF_ENDPOINT="http://127.0.0.1:1")
    assert bench.store.stored() == ()


async def test_weights_that_were_damaged_on_their_way_are_thrown_away(bench: Bench) -> None:
    bench.server.damaged.add("org/name/model-2-of-2.safetensors")
    assert "model-2-of-2.safetensors of org/name was damaged" in await bench.reason("org/name")
    bench.server.damaged.clear()
    served = bench.server.served.copy()
    assert (await bench.fetch("org/name"))[-1].state is FetchState.PRESENT
    assert bench.server.served["org/name/model-1-of-2.safetensors"] == served["org/name/model-1-of-2.safetensors"], (
        "what was right is not fetched again"
    )


# -- directories and archives ----------------------------------------------------------------------------


async def test_a_directory_is_fetched_by_its_list_of_sums(bench: Bench) -> None:
    write_sums(bench.model)
    first, last = await bench.fetch(bench.url("org/name/"))
    assert first.size_bytes is not None
    assert last.state is FetchState.PRESENT
    assert check(bench.store.folder(bench.url("org/name/"), "")) == last.size_bytes == first.size_bytes


async def test_a_directory_goes_on_where_it_was_interrupted(bench: Bench) -> None:
    write_sums(bench.model)
    bench.server.cut_after = 60_000
    assert "could not be fetched" in await bench.reason(bench.url("org/name"))
    bench.server.cut_after = None
    assert (await bench.fetch(bench.url("org/name")))[-1].state is FetchState.PRESENT
    total = (bench.model / "model-1-of-2.safetensors").stat().st_size
    assert bench.server.served["org/name/model-1-of-2.safetensors"] == total, "no byte was fetched twice"


async def test_a_file_that_is_not_what_its_sum_says_is_thrown_away(bench: Bench) -> None:
    write_sums(bench.model)
    bench.server.damaged.add("org/name/config.json")
    assert "is not what its checksum says" in await bench.reason(bench.url("org/name"))
    bench.server.damaged.clear()
    assert (await bench.fetch(bench.url("org/name")))[-1].state is FetchState.PRESENT


@pytest.mark.parametrize(
    ("sums", "reason"),
    [
        ("0" * 64 + "  ../../outside\n", "has a line that names no file"),
        ("0" * 64 + "  /etc/outside\n", "has a line that names no file"),
        ("hello\n", "has a line that names no file"),
        ("\n", "is empty"),
        (None, "has no SHA256SUMS"),
    ],
)
async def test_a_list_of_sums_leads_nowhere_but_below_its_directory(
    bench: Bench, sums: str | None, reason: str
) -> None:
    if sums is not None:
        (bench.model / "SHA256SUMS").write_text(sums)
    assert reason in await bench.reason(bench.url("org/name"))


def archive(path: Path, model: Path, inside: str) -> None:
    with tarfile.open(path, "w:gz" if path.suffix != ".tar" else "w") as tar:
        for file in sorted(model.iterdir()):
            tar.add(file, arcname=f"{inside}{file.name}")


@pytest.mark.parametrize(("name", "inside"), [("a.tar", ""), ("a.tar.gz", "llama/"), ("a.tgz", "./")])
async def test_an_archive_is_fetched_and_unpacked_with_or_without_a_folder_inside(
    bench: Bench, name: str, inside: str
) -> None:
    archive(bench.server.root / name, bench.model, inside)
    assert (await bench.fetch(bench.url(name)))[-1].state is FetchState.PRESENT
    folder = bench.store.folder(bench.url(name), "")
    assert check(folder)
    assert not list(folder.glob("archive"))


async def test_an_archive_is_checked_where_its_sum_is_given(bench: Bench) -> None:
    archive(bench.server.root / "a.tar", bench.model, "")
    (bench.server.root / "a.tar.sha256").write_text("0" * 64 + "  a.tar\n")
    assert "is not what its checksum says" in await bench.reason(bench.url("a.tar"))


async def test_an_archive_that_reaches_outside_is_refused(bench: Bench, tmp_path: Path) -> None:
    with tarfile.open(bench.server.root / "a.tar", "w") as tar:
        member = tarfile.TarInfo("../../../outside")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"evil"))
    assert "is no archive that can be unpacked" in await bench.reason(bench.url("a.tar"))
    assert not (tmp_path / "outside").exists()


async def test_what_is_no_model_or_not_there_is_told(bench: Bench) -> None:
    (bench.server.root / "junk.tar").write_bytes(b"junk" * 1000)
    assert "is no archive that can be unpacked" in await bench.reason(bench.url("junk.tar"))
    with tarfile.open(bench.server.root / "empty.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("readme"))
    assert "what was fetched is no model" in await bench.reason(bench.url("empty.tar"))
    assert "was answered with 404" in await bench.reason(bench.url("none.tar"))
    assert "could not be fetched" in await bench.reason("http://127.0.0.1:1/a.tar")
    reason = await bench.reason("s3://bucket/llama")
    assert reason == "s3:// can't be fetched by this agent; give the https address of the object store"


async def test_credentials_in_a_signed_address_are_not_told(bench: Bench) -> None:
    assert "secret" not in await bench.reason(bench.url("none.tar?signature=secret"))
    assert "secret" not in await bench.reason("http://127.0.0.1:1/a.tar?signature=secret")


# -- disk ------------------------------------------------------------------------------------------------


def test_a_model_that_does_not_fit_on_the_disk_is_refused_before_it_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(repository: str, revision: str, into: Path, plan: object) -> Path:
        plan(70_000_000_000, 70_000_000_000)  # type: ignore[operator]
        raise AssertionError("was fetched all the same")

    monkeypatch.setattr(hub, "fetch", plan)
    monkeypatch.setattr(
        fetch_module.shutil, "disk_usage", lambda _: SimpleNamespace(free=51_073_741_824, total=0, used=0)
    )
    sizes: list[int] = []
    with pytest.raises(FetchFailed) as refused:
        fetch(WeightsStore(tmp_path), "org/name", "", sizes.append)
    assert str(refused.value) == f"it needs 70.0 GB more on the disk of {tmp_path}, where 50.0 GB may be used"
    assert sizes == [70_000_000_000], "how big it is is told all the same"
