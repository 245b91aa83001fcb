"""docker-compose.yml can't be run where there is no engine; so everything it names is looked up."""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("tandem:")}
#: Variables that images of others define.
FOREIGN = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD", "REDISCLI_AUTH", "REDIS_PASSWORD"}


def test_the_slice_has_all_its_services() -> None:
    assert {
        "postgres",
        "redis",
        "control",
        "control-worker",
        "beat",
        "telemetry",
        "router",
        "agent",
        "agent-gpu",
    } <= set(SERVICES)
    assert SERVICES["agent"]["profiles"] == ["cpu"]
    assert SERVICES["agent-gpu"]["profiles"] == ["gpu"]
    devices = SERVICES["agent-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert devices[0]["capabilities"] == ["gpu"]


@pytest.mark.parametrize("name", sorted(OURS))
def test_command_exists(name: str) -> None:
    command: list[str] = OURS[name]["command"]
    match command:
        case ["python", "-m", module, *_]:
            assert find_spec(f"{module}.__main__") is not None
        case ["python", "manage.py", verb, *_]:
            assert verb in get_commands()
        case ["uvicorn", application, *_]:
            module, attribute = application.split(":")
            assert hasattr(__import__(module, fromlist=[attribute]), attribute)
        case ["celery", "-A", module, ("worker" | "beat"), *_]:
            assert hasattr(__import__(module, fromlist=["app"]), "app")
        case _:
            pytest.fail(f"{command} is no command this test knows")


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_variable_is_read_by_the_code(name: str) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "inference", "platform"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    code = "\n".join((ROOT / path).read_text() for path in listed.stdout.splitlines() if path.endswith(".py"))
    unread = [variable for variable in OURS[name].get("environment", {}) if f'"{variable}"' not in code]
    assert unread == []


def test_agents_get_neither_the_database_nor_djangos_secret() -> None:
    for name in ("agent", "agent-gpu", "router"):
        assert not {"DATABASE_URL", "TANDEM_SECRET_KEY"} & set(SERVICES[name]["environment"])


def test_secrets_come_from_outside_and_are_demanded() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    secrets = set(re.findall(r"\$\{(\w*(?:PASSWORD|SECRET)\w*)(:\?)?", text))
    assert secrets
    assert all(demanded for _, demanded in secrets)


def test_published_ports_are_loopback_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_files_of_the_image_exist() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    sources = [source for line in copied for source in line.split()]
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_every_volume_and_dependency_is_declared() -> None:
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= set(SERVICES)
        named = {volume.split(":")[0] for volume in service.get("volumes", [])}
        assert named <= set(COMPOSE["volumes"])
