from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from inference.agent.config import Settings
from inference.agent.control import hello as hello_module
from inference.agent.control import software
from inference.agent.control.api import NotNow, Refused
from inference.agent.control.hello import Greeter, say_hello
from inference.agent.control.membership import LiveMembership, updated
from inference.agent.control.self_report import SelfReport
from inference.agent.hardware.inventory import Inventory
from inference.agent.hosts import Hosts
from inference.agent.state_dir import Membership, StateDir
from inference.contracts.auth import PURPOSE_NODE_HELLO, is_bearer, is_node_authorization
from inference.contracts.codec import decode, encode
from inference.contracts.reports import NodeHello, NodeWelcome
from tests.inference.agent.control_plane_stub import control_plane

WELCOME = NodeWelcome(
    node_id="n-1",
    name="gpu-1",
    redis_url="redis://r",
    cluster_secret="s3cret",
    report_interval_s=2.0,
    node_key="k" * 64,
)
HELLO = NodeHello(
    node_id="n-1", hostname="host", address="10.0.0.5", agent_version="1", devices=(), cpu_cores=2, memory_total=8
)


def membership(url: str = "http://127.0.0.1:1", **welcome: object) -> Membership:
    return Membership(url=url, address="10.0.0.5", welcome=msgspec.structs.replace(WELCOME, **welcome))


async def test_a_hello_proves_its_exact_body_with_the_nodes_own_key() -> None:
    proven: list[bool] = []

    async def welcome(request: web.Request) -> web.Response:
        body = await request.read()
        header = request.headers["Authorization"]
        proven.append(is_node_authorization(header, WELCOME.node_key, body))
        proven.append(not is_node_authorization(header, WELCOME.node_key, body + b" "))
        assert decode(body, NodeHello) == HELLO
        return web.Response(body=encode(WELCOME))

    async with control_plane(welcome) as url:
        assert await say_hello(membership(url), HELLO) == WELCOME
    assert proven == [True, True]


async def test_a_node_of_the_previous_release_proves_that_it_knows_the_cluster_and_gets_a_key() -> None:
    async def welcome(request: web.Request) -> web.Response:
        assert is_bearer(request.headers["Authorization"], "s3cret", PURPOSE_NODE_HELLO)
        return web.Response(body=encode(WELCOME))

    async with control_plane(welcome) as url:
        assert (await say_hello(membership(url, node_key=""), HELLO)).node_key == WELCOME.node_key


@pytest.mark.parametrize(
    "refusal",
    [
        {"type": "about:blank", "status": 401, "code": "node_retired", "detail": "gpu-1 was retired."},
        {"error": {"code": "node_retired", "message": "gpu-1 was retired.", "field": None}},
    ],
)
async def test_a_refusal_is_told_as_the_control_plane_words_it(refusal: dict[str, object]) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.json_response(refusal, status=401)

    async with control_plane(refuse) as url:
        with pytest.raises(Refused, match=r"^the control plane refused this node: gpu-1 was retired\.$") as refused:
            await say_hello(membership(url), HELLO)
    assert (refused.value.status, refused.value.code) == (401, "node_retired")


async def test_an_answer_for_another_node_is_not_believed() -> None:
    async def mistaken(_: web.Request) -> web.Response:
        return web.Response(body=encode(msgspec.structs.replace(WELCOME, node_id="n-2")))

    async with control_plane(mistaken) as url:
        with pytest.raises(Refused, match="took this node for 'n-2'"):
            await say_hello(membership(url), HELLO)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_control_plane_in_trouble_is_asked_again(status: int) -> None:
    async def trouble(_: web.Request) -> web.Response:
        return web.Response(status=status)

    async with control_plane(trouble) as url:
        with pytest.raises(NotNow):
            await say_hello(membership(url), HELLO)


async def test_the_greeter_goes_on_until_it_is_answered_and_again_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hello_module, "REST_S", 0.05)
    monkeypatch.setattr(hello_module, "SPREAD_S", 0.05)
    answers = iter([503, 401, 200, 200])
    heard: list[NodeWelcome] = []
    calls = 0

    async def flaky(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        status = next(answers)
        return web.Response(status=status, body=encode(WELCOME) if status == 200 else b"")

    async with control_plane(flaky) as url:
        greeter = Greeter(
            membership=lambda: membership(url),
            build=lambda: HELLO,
            on_welcome=heard.append,
            on_retired=pytest.fail,
            answered=False,
            first_pause_s=0.01,
        )
        running = asyncio.create_task(greeter.run())
        await _until(lambda: heard == [WELCOME])
        await asyncio.sleep(0.1)
        assert calls == 3, "an answered hello is not repeated by itself"
        for _ in range(20):
            greeter.again()
        await _until(lambda: len(heard) == 2)
        running.cancel()


async def test_a_welcome_that_a_full_disk_takes_not_is_asked_for_again() -> None:
    kept: list[NodeWelcome] = []

    def keep(welcome: NodeWelcome) -> None:
        kept.append(welcome)
        if len(kept) == 1:
            raise OSError(28, "No space left on device")

    async def welcome(_: web.Request) -> web.Response:
        return web.Response(body=encode(WELCOME))

    async with control_plane(welcome) as url:
        greeter = Greeter(
            membership=lambda: membership(url),
            build=lambda: HELLO,
            on_welcome=keep,
            on_retired=pytest.fail,
            answered=False,
            first_pause_s=0.01,
        )
        running = asyncio.create_task(greeter.run())
        await _until(lambda: kept == [WELCOME, WELCOME])
        running.cancel()


async def test_a_retired_node_is_told_so_once_and_asks_no_more() -> None:
    told: list[str] = []

    async def refuse(_: web.Request) -> web.Response:
        return web.json_response({"status": 401, "code": "node_retired", "detail": "gpu-1 was retired."}, status=401)

    async with control_plane(refuse) as url:
        greeter = Greeter(
            membership=lambda: membership(url),
            build=lambda: HELLO,
            on_welcome=pytest.fail,
            on_retired=lambda: told.append("retired"),
            answered=False,
            first_pause_s=0.01,
        )
        running = asyncio.create_task(greeter.run())
        await _until(lambda: told == ["retired"])
        await asyncio.sleep(0.1)
        assert told == ["retired"]
        running.cancel()


async def test_an_answered_start_is_not_repeated() -> None:
    greeter = Greeter(
        membership=lambda: membership(),
        build=pytest.fail,
        on_welcome=pytest.fail,
        on_retired=pytest.fail,
        answered=True,
        first_pause_s=0.01,
    )
    running = asyncio.create_task(greeter.run())
    await asyncio.sleep(0.05)
    assert not running.done()
    running.cancel()


# -- what is learnt ------------------------------------------------------------------------------------


class Learning:
    def __init__(self, folder: Path, **settings: object) -> None:
        self.state = StateDir(folder)
        self.restarts = 0
        self.live = LiveMembership(
            membership(node_key=""), state=self.state, settings=Settings(**settings), on_broker_changed=self._restart
        )

    def _restart(self) -> None:
        self.restarts += 1


def test_a_welcome_is_remembered_and_counts_at_once(tmp_path: Path) -> None:
    learning = Learning(tmp_path)
    assert not learning.live.seal.has_key
    learning.live.learn(msgspec.structs.replace(WELCOME, report_interval_s=15.0))
    assert learning.live.seal.has_key
    assert learning.live.report_interval_s == 15.0, "a big fleet is told to report less often"
    assert learning.state.membership is not None
    assert learning.state.membership.welcome.node_key == WELCOME.node_key
    assert learning.state.secret_file.read_text() == "s3cret"
    assert learning.restarts == 0


def test_new_broker_credentials_take_a_new_start(tmp_path: Path) -> None:
    learning = Learning(tmp_path)
    learning.live.learn(msgspec.structs.replace(WELCOME, redis_url="redis://node:pw@r"))
    assert learning.restarts == 1
    assert learning.state.membership is not None
    assert learning.state.membership.welcome.redis_url == "redis://node:pw@r", "the next start uses them"


def test_what_is_set_on_the_machine_goes_before_what_the_control_plane_asks_for(tmp_path: Path) -> None:
    learning = Learning(tmp_path, redis_url="redis://mine", report_interval_s=0.5)
    learning.live.learn(msgspec.structs.replace(WELCOME, redis_url="redis://theirs"))
    assert (learning.live.redis_url, learning.live.report_interval_s, learning.restarts) == ("redis://mine", 0.5, 0)


def test_a_key_that_was_given_once_is_never_lost() -> None:
    known = membership()
    assert updated(known, msgspec.structs.replace(WELCOME, node_key="")).welcome.node_key == WELCOME.node_key


# -- what is said --------------------------------------------------------------------------------------


def test_a_node_says_what_it_has_and_a_report_also_its_clock_and_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = SelfReport(
        hosts=Hosts(advertised="10.0.0.5", bind="10.0.0.5"),
        inventory=Inventory(Settings(devices="cpu", cpu_slots=2)),  # type: ignore[arg-type]
        data=tmp_path,
        clock=lambda: 1_000_000.5,
    )
    hello = says.hello(node_id="n-1")
    assert (hello.node_id, hello.name, hello.address) == ("n-1", None, "10.0.0.5")
    assert len(hello.devices) == 2
    first, second = (
        says.report(
            node_id="n-1", observed_generation=3, holders={}, workers=(), weights=(), links=(), refused_spec=None
        )
        for _ in range(2)
    )
    assert first.clock == 1_000_000.5
    assert first.disk_total is not None
    assert first.disk_free is not None
    assert 0 <= first.disk_free <= first.disk_total
    assert (first.sequence, second.sequence) == (1, 2)
    assert first.boot_id == second.boot_id
    assert first.engines == hello.engines == software.engine_versions()
    says._data = tmp_path / "gone"
    unknown = says.report(
        node_id="n-1", observed_generation=3, holders={}, workers=(), weights=(), links=(), refused_spec=None
    )
    assert (unknown.disk_free, unknown.disk_total) == (None, None), "not known is not full"


def test_engines_are_those_installed_and_none_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"torch": "2.13.0", "transformers": "5.24.0", "vllm": "0.20.0"}

    def version(package: str) -> str:
        if package not in installed:
            raise software.PackageNotFoundError(package)
        return installed[package]

    monkeypatch.setattr(software, "version", version)
    assert software.engine_versions() == {
        "native": f"{software.AGENT_VERSION} (torch 2.13.0, transformers 5.24.0)",
        "vllm": "0.20.0",
    }
    assert "vllm" not in sys.modules
    del installed["torch"]
    assert software.engine_versions() == {"vllm": "0.20.0"}, "the native engine can't be started without torch"


async def _until(condition: object, within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.005)
