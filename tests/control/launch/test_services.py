from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from controlplane.launch.layout import Layout, layout_from_environment
from controlplane.launch.services import redis_service, tandem_services


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(
        root=tmp_path,
        data=tmp_path / "data",
        host="127.0.0.1",
        console_port=1,
        router_port=2,
        redis_port=3,
        own_redis=True,
    )


def test_no_secret_is_an_argument_of_a_process(layout: Layout) -> None:
    """Every user of the machine can list arguments."""
    services = [redis_service(layout, "the-password"), *tandem_services(layout, "the-token")]

    arguments = " ".join(argument for service in services for argument in service.argv)
    assert "the-password" not in arguments
    assert "the-token" not in arguments
    holders = {service.name for service in services if "the-token" in service.environment.values()}
    assert holders == {"agent"}


def test_an_agent_that_has_joined_gets_no_token(layout: Layout) -> None:
    assert all("TANDEM_JOIN_TOKEN" not in service.environment for service in tandem_services(layout, None))


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("TANDEM_PORT", "99999", "a port is a whole number"),
        ("TANDEM_ROUTER_PORT", "80.5", "a port is a whole number"),
        ("TANDEM_REDIS_PORT", "redis", "a port is a whole number"),
        ("TANDEM_HOST", "0.0.0.0", "nobody can call"),  # noqa: S104
    ],
)
def test_an_address_that_can_not_be_right_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, why: str
) -> None:
    monkeypatch.setenv(variable, value)

    with pytest.raises(ImproperlyConfigured, match=why) as refused:
        layout_from_environment()

    assert variable in str(refused.value)
    assert value in str(refused.value)
