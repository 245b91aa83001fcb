from __future__ import annotations

import tomllib

import pytest

from inference.agent.config import AGENT_VERSION, ConfigError, DeviceSource, OnStop, Settings
from inference.agent.hosts import Hosts, NoAddress, choose_hosts
from tests.inference.agent.node_under_test import ROOT


def test_defaults_hold_without_an_environment() -> None:
    assert Settings.from_environment({"PATH": "/bin", "TANDEM_AGENT_TICK_S": ""}) == Settings()


def test_every_kind_of_setting_can_be_given() -> None:
    settings = Settings.from_environment(
        {
            "TANDEM_AGENT_TICK_S": "0.05",
            "TANDEM_AGENT_MAX_ATTEMPTS": "7",
            "TANDEM_AGENT_ON_STOP": "leave",
            "TANDEM_AGENT_DEVICES": "cpu",
            "TANDEM_CPU_SLOTS": "3",
            "TANDEM_WORKER_HOST": "10.0.0.5",
            "REDIS_URL": "redis://r",
        }
    )
    assert settings.tick_s == 0.05
    assert settings.max_attempts == 7
    assert settings.on_stop is OnStop.LEAVE
    assert settings.devices is DeviceSource.CPU
    assert settings.cpu_slots == 3
    assert settings.worker_host == "10.0.0.5"
    assert settings.redis_url == "redis://r"


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("TANDEM_AGENT_TICK_S", "soon"),
        ("TANDEM_AGENT_TICK_S", "0"),
        ("TANDEM_AGENT_MAX_ATTEMPTS", "1.5"),
        ("TANDEM_AGENT_ON_STOP", "explode"),
        ("TANDEM_CPU_SLOTS", "-1"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(variable: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"{variable}='{text}' can't be used"):
        Settings.from_environment({variable: text})


def test_the_agent_tells_the_version_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == AGENT_VERSION


ANYWHERE = "0.0.0.0"  # noqa: S104 - a wildcard is what these tests are about


def choose(url: str, **given: str | None) -> Hosts:
    return choose_hosts(url=url, **{"address": None, "worker_host": None, "remembered": None, **given})


def test_a_control_plane_on_this_machine_means_loopback() -> None:
    assert choose("http://127.0.0.1:8000") == Hosts(advertised="127.0.0.1", bind="127.0.0.1")
    assert choose("http://localhost:8000").local in ("127.0.0.1", "::1")


def test_given_addresses_win() -> None:
    assert choose("http://127.0.0.1", address="10.0.0.5") == Hosts("10.0.0.5", "10.0.0.5")
    assert choose("http://127.0.0.1", worker_host="10.0.0.6") == Hosts("10.0.0.6", "10.0.0.6")
    both = choose("http://127.0.0.1", address="gpu-1.example", worker_host=ANYWHERE)
    assert both == Hosts("gpu-1.example", ANYWHERE)
    assert both.local == "127.0.0.1"


def test_a_wildcard_is_never_advertised() -> None:
    assert choose("http://127.0.0.1", worker_host=ANYWHERE).advertised == "127.0.0.1"


def test_without_a_route_the_remembered_address_is_used() -> None:
    assert choose("http://no.such.host.invalid", remembered="10.0.0.7").advertised == "10.0.0.7"
    with pytest.raises(NoAddress, match="TANDEM_NODE_ADDRESS"):
        choose("http://no.such.host.invalid")
