from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from controlplane.config import env
from controlplane.config import settings as settings_module
from controlplane.config.checks import check_settings, require_sound_settings
from controlplane.config.ranges import RANGES, Range


@pytest.fixture(autouse=True)
def sound(settings: Settings) -> Settings:
    settings.SECRET_KEY = "s"
    settings.CLUSTER_SECRET = "c"
    settings.PUBLIC_URL = "http://127.0.0.1:8000"
    settings.ROUTER_URL = settings.PUBLIC_ROUTER_URL = "http://127.0.0.1:8001"
    settings.REDIS_URL = settings.NODE_REDIS_URL = "redis://127.0.0.1:6379/0"
    settings.NODE_LOST_AFTER_S, settings.SWEEP_INTERVAL_S, settings.NODE_REPORT_INTERVAL_S = 20.0, 5.0, 2.0
    settings.DEBUG = False
    return settings


def found() -> list[str]:
    return [str(message.id) for message in check_settings(None)]


def test_sound_settings_pass() -> None:
    assert found() == []
    require_sound_settings()


@pytest.mark.parametrize(
    ("changes", "ids"),
    [
        ({"SECRET_KEY": django_settings.NO_SECRET_KEY}, ["tandem.E001"]),
        ({"CLUSTER_SECRET": ""}, ["tandem.E002"]),
        ({"ROUTER_URL": "router:8001"}, ["tandem.E003"]),
        ({"PUBLIC_ROUTER_URL": "http://"}, ["tandem.E004"]),
        ({"PUBLIC_URL": "https//tandem.example"}, ["tandem.E005"]),
        ({"REDIS_URL": "http://127.0.0.1:6379"}, ["tandem.E006"]),
        ({"NODE_REDIS_URL": "redis://host:port/0"}, ["tandem.E007"]),
        ({"SWEEP_INTERVAL_S": 6.0}, ["tandem.E009"]),
        ({"NODE_REPORT_INTERVAL_S": 10.0}, ["tandem.E010"]),
        ({"SWEEP_INTERVAL_S": 0.0}, ["tandem.E011"]),
        ({"NODE_REPORT_INTERVAL_S": 0.0}, ["tandem.E012"]),
        ({"PUBLIC_URL": "http://tandem.example"}, ["tandem.W001", "tandem.W002"]),
        ({"PUBLIC_URL": "https://tandem.example"}, ["tandem.W002"]),
        ({"PUBLIC_URL": "https://tandem.example", "NODE_REDIS_URL": "rediss://redis.example:6379/0"}, []),
    ],
)
def test_each_mistake_has_its_id(sound: Settings, changes: dict[str, object], ids: list[str]) -> None:
    for name, value in changes.items():
        setattr(sound, name, value)

    assert found() == ids
    assert all(message.hint for message in check_settings(None))


def test_every_number_that_is_read_has_a_range_that_its_default_is_in() -> None:
    read = re.findall(r"env\.(?:number|whole)\(\s*\"(\w+)\"", Path(settings_module.__file__).read_text())

    assert sorted(each.variable for each in RANGES) == sorted(read)
    assert len({each.number for each in RANGES}) == len(RANGES)
    assert all(each.error(getattr(django_settings, each.setting)) is None for each in RANGES)


@pytest.mark.parametrize("limits", RANGES, ids=lambda each: each.variable)
def test_a_number_out_of_its_range_is_refused_with_what_would_become_of_it(sound: Settings, limits: Range) -> None:
    for value in (limits.least, limits.most):
        setattr(sound, limits.setting, value)
        assert f"tandem.E{limits.number:03}" not in found()
    setattr(sound, limits.setting, limits.most + 1)
    [error] = [each for each in check_settings(None) if each.id == f"tandem.E{limits.number:03}"]

    assert error.msg == f"{limits.variable} is {limits.most + 1:g}: {limits.high}."


def test_no_measurement_at_a_time_is_none_at_all(sound: Settings) -> None:
    sound.LINKS_AT_ONCE = 0

    [error] = check_settings(None)
    assert (error.id, error.msg) == ("tandem.E018", "TANDEM_LINKS_AT_ONCE is 0: no link would ever be measured.")
    assert error.hint == "It is from 1 to 64."


@pytest.mark.parametrize("value", ["1.5", "-1", "inf", "many"])
def test_half_a_thing_is_no_number_of_things(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_LINKS_AT_ONCE", value)
    with pytest.raises(ImproperlyConfigured, match=f"TANDEM_LINKS_AT_ONCE is '{value}'"):
        env.whole("TANDEM_LINKS_AT_ONCE", 4)


OIDC = {"OIDC_ISSUER": "https://login.example/realm", "OIDC_CLIENT_ID": "tandem"}


@pytest.mark.parametrize(
    ("changes", "ids"),
    [
        ({}, []),
        ({"OIDC_ISSUER": "http://127.0.0.1:9000"}, []),
        ({"OIDC_ISSUER": "http://login.example"}, ["tandem.E013"]),
        ({"OIDC_ISSUER": "login.example"}, ["tandem.E013"]),
        ({"OIDC_CLIENT_ID": ""}, ["tandem.E014"]),
        ({"OIDC_ROLES": {"ops": "operator"}, "OIDC_DEFAULT_ROLE": "none"}, []),
        ({"OIDC_ROLES": {"ops": "king"}}, ["tandem.E015"]),
        ({"OIDC_ROLES": {"ops": "none"}}, ["tandem.E015"]),
        ({"OIDC_DEFAULT_ROLE": "nobody"}, ["tandem.E015"]),
    ],
)
def test_an_identity_provider_is_reached_safely_and_gives_roles_that_there_are(
    sound: Settings, changes: dict[str, object], ids: list[str]
) -> None:
    for name, value in (OIDC | changes).items():
        setattr(sound, name, value)

    assert found() == ids


def test_debug_is_refused_at_a_public_address_only(sound: Settings) -> None:
    sound.DEBUG = True
    assert found() == []

    sound.PUBLIC_URL, sound.NODE_REDIS_URL = "https://tandem.example", "redis://10.0.0.5:6379/0"
    assert found() == ["tandem.E008"]


def test_what_is_said_of_an_address_does_not_carry_its_password(sound: Settings) -> None:
    sound.REDIS_URL = "redis://:hunter2@host:port/0"

    [message] = check_settings(None)
    assert "hunter2" not in f"{message.msg} {message.hint}"


def test_a_serving_process_does_not_start_with_errors(sound: Settings) -> None:
    sound.SECRET_KEY = sound.NO_SECRET_KEY

    with pytest.raises(ImproperlyConfigured, match=r"tandem\.E001"):
        require_sound_settings()
