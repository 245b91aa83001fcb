from __future__ import annotations

import asyncio
import stat
import time
from pathlib import Path

import pytest
from aiohttp import web

from inference.agent import main as agent_main
from inference.agent.config import Settings
from inference.agent.control.api import NotNow
from inference.agent.control.join import ControlPlaneUnreachable, JoinCall, JoinRefused, join
from inference.agent.hardware.inventory import Inventory
from inference.agent.main import Unusable
from inference.agent.state_dir import StateDir
from inference.contracts.codec import decode, encode
from inference.contracts.reports import NodeHello, NodeWelcome
from tests.inference.agent.control_plane_stub import control_plane

WELCOME = NodeWelcome(
    node_id="n-1", name="gpu-1", redis_url="redis://r", cluster_secret="s3cret", report_interval_s=2.0
)
HELLO = NodeHello(
    hostname="host", address="10.0.0.5", agent_version="1", devices=(), cpu_cores=2, memory_total=8, name="gpu-1"
)


def refusal(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"code": "x", "message": message, "field": None}}, status=status)


async def call(url: str, deadline_s: float = 5.0) -> NodeWelcome:
    return await join(JoinCall(url=url, token="t0ken", hello=HELLO), deadline_s=deadline_s, first_pause_s=0.02)


async def test_a_node_joins_with_its_token_and_tells_what_it_has() -> None:
    seen: list[tuple[str, NodeHello]] = []

    async def welcome(request: web.Request) -> web.Response:
        seen.append((request.headers["Authorization"], decode(await request.read(), NodeHello)))
        return web.Response(body=encode(WELCOME), content_type="application/json")

    async with control_plane(welcome) as url:
        assert await call(url + "/") == WELCOME
    assert seen == [("Join t0ken", HELLO)]


@pytest.mark.parametrize("status", [401, 403, 409])
async def test_a_refused_token_is_final_and_says_why_and_what_to_do(status: int) -> None:
    calls = 0

    async def refuse(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return refusal(status, "This join token was used already.")

    async with control_plane(refuse) as url:
        with pytest.raises(JoinRefused) as refused:
            await call(url)
    assert str(refused.value) == (
        "the control plane refused this node: This join token was used already. "
        "Create a new join token on the Fleet page."
    )
    assert calls == 1


async def test_an_error_on_the_other_side_is_retried_until_it_works() -> None:
    calls = 0

    async def flaky(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return web.Response(body=encode(WELCOME)) if calls == 3 else web.Response(status=503)

    async with control_plane(flaky) as url:
        assert await call(url) == WELCOME
    assert calls == 3


async def test_an_unreachable_control_plane_is_given_up_at_the_deadline() -> None:
    with pytest.raises(ControlPlaneUnreachable, match=r"127\.0\.0\.1:1 could not be reached within 0\.1 s"):
        await call("http://127.0.0.1:1", deadline_s=0.1)


async def test_something_that_is_no_control_plane_is_recognised() -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<html>hello</html>")

    async def elsewhere(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://elsewhere.example"})

    async with control_plane(page) as url:
        with pytest.raises(JoinRefused, match="is no control plane of this version"):
            await call(url)
    async with control_plane(elsewhere) as url:
        with pytest.raises(JoinRefused, match="it answered 302"):
            await call(url)
    with pytest.raises(JoinRefused, match="is not a URL"):
        await call("control.example")


def options(folder: Path, *more: str) -> object:
    return agent_main._parser().parse_args(["run", "--data", str(folder), *more])


def test_without_membership_url_and_token_are_asked_for(tmp_path: Path) -> None:
    assert agent_main.main(["run", "--data", str(tmp_path)]) == agent_main.EXIT_USAGE
    assert agent_main.main(["run", "--data", str(tmp_path), "--url", "http://x"]) == agent_main.EXIT_USAGE


def test_a_wrong_setting_and_an_unusable_folder_have_their_own_exit_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    assert agent_main.main(["run", "--data", str(tmp_path / "file")]) == agent_main.EXIT_FOLDER
    monkeypatch.setenv("TANDEM_AGENT_TICK_S", "never")
    assert agent_main.main(["run", "--data", str(tmp_path)]) == agent_main.EXIT_USAGE
    monkeypatch.delenv("TANDEM_AGENT_TICK_S")
    monkeypatch.setenv("TANDEM_WORKER_TLS_CA_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(agent_main.Unusable, match="a node needs all three"):
        agent_main._run(options(tmp_path), agent_main.PRODUCT_ENGINES)


def test_membership_is_kept_so_that_later_starts_need_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def accepted(call: JoinCall, *, deadline_s: float) -> NodeWelcome:
        assert (call.url, call.token, call.hello.name) == ("http://127.0.0.1:8000", "t", "gpu-1")
        return WELCOME

    async def away(*_: object) -> NodeWelcome:
        raise NotNow("no connection")

    monkeypatch.setattr(agent_main, "join", accepted)
    state, settings = StateDir(tmp_path / "agent"), Settings(cpu_slots=1)
    first = options(state.root, "--url", "http://127.0.0.1:8000", "--token", "t", "--name", "gpu-1")
    membership, heard = agent_main._membership(first, state, settings, Inventory(settings))  # type: ignore[arg-type]
    assert heard
    assert membership.welcome == WELCOME
    assert membership.address == "127.0.0.1"
    for file in (state.root / "agent.json", state.secret_file):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert state.secret_file.read_text() == "s3cret"

    monkeypatch.setattr(agent_main, "join", None)
    monkeypatch.setattr(agent_main, "say_hello", away)
    for later in (options(state.root), first):
        assert agent_main._membership(later, state, settings, Inventory(settings)) == (membership, False)  # type: ignore[arg-type]


def test_a_refused_join_leaves_no_membership(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(call: JoinCall, *, deadline_s: float) -> NodeWelcome:
        raise JoinRefused("no")

    monkeypatch.setattr(agent_main, "join", refused)
    state, settings = StateDir(tmp_path / "agent"), Settings(cpu_slots=1)
    with pytest.raises(Unusable) as unusable:
        agent_main._membership(
            options(state.root, "--url", "http://127.0.0.1:1", "--token", "t"),  # type: ignore[arg-type]
            state,
            settings,
            Inventory(settings),
        )
    assert unusable.value.code == agent_main.EXIT_REFUSED
    assert state.membership is None


def test_no_pause_is_longer_than_the_deadline_allows() -> None:
    begun = time.monotonic()
    with pytest.raises(ControlPlaneUnreachable):
        asyncio.run(join(JoinCall("http://127.0.0.1:1", "t", HELLO), deadline_s=0.5, first_pause_s=30.0))
    assert time.monotonic() - begun < 20
