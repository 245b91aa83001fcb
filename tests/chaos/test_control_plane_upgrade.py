"""The control plane is upgraded under running streams: stopped, its database migrated, started as the next release.

The next release is this one with one migration more. Routers, agents and workers are left alone, as they are when a
control plane is upgraded first. Comes before the module that needs a stack of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.answers import Answer
from tests.chaos.watch import converge, differences, size_of
from tests.chaos.world import DEPLOYMENT, MODELS, ROOT, World, running_world

pytestmark = pytest.mark.chaos

CONTROL = ("console", "control-worker", "beat", "telemetry")
UP_WITHIN_S = 60.0

#: Of the next release: a table more, filled from rows that are there.
_MIGRATION = """
from django.db import migrations, models

def fill(apps, _):
    for deployment in apps.get_model("pools", "Deployment").objects.all():
        apps.get_model("pools", "NextRelease").objects.create(name=deployment.name)

class Migration(migrations.Migration):
    dependencies = [("pools", {last!r})]
    operations = [
        migrations.CreateModel("NextRelease", [
            ("id", models.BigAutoField(primary_key=True)),
            ("name", models.CharField(max_length=100)),
        ]),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
"""


@dataclass(frozen=True)
class Release:
    """A source tree of the control plane."""

    root: Path

    def environment(self, base: dict[str, str]) -> dict[str, str]:
        return base | {"PYTHONPATH": os.pathsep.join([str(self.root / "platform"), str(ROOT)])}

    def migrate(self, base: dict[str, str]) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(self.root / "manage.py"), "migrate", "--no-color"]
        return subprocess.run(
            command, cwd=self.root, env=self.environment(base), capture_output=True, text=True, check=False
        )

    def start(self, world: World, name: str) -> None:
        """The service `name`, stopped before, from this tree."""
        old = world.keeper.kept[name]
        argv = [word.replace(str(ROOT / "manage.py"), str(self.root / "manage.py")) for word in old.argv]
        world.keeper.start(name, argv, self.environment(old.environment), old.log)


def next_release(folder: Path) -> Release:
    shutil.copytree(ROOT / "platform", folder / "platform", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "manage.py", folder)
    migrations = folder / "platform" / "controlplane" / "pools" / "migrations"
    last = max(migrations.glob("[0-9]*.py")).stem
    (migrations / "9999_next_release.py").write_text(_MIGRATION.format(last=last))
    return Release(folder)


def deploy(world: World) -> None:
    world.api.write("POST", "/deployments", {"name": DEPLOYMENT, "model": MODELS[0], "prefill": 1, "decode": 1})
    assert converge(world, UP_WITHIN_S, differences) == []


def processes(world: World) -> dict[str, int | None]:
    """Of all that an upgrade of the control plane leaves alone."""
    kept = {name: each.pid for name, each in world.keeper.kept.items() if name not in CONTROL}
    return kept | {each.spec.worker_id: each.pid for each in world.engine_processes()}


def test_streams_go_on_while_the_control_plane_becomes_the_next_release(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "next").mkdir()
    with running_world(tmp_path / "data", database="postgres") as world:
        deploy(world)
        before, environment = processes(world), world.keeper.kept["console"].environment
        early = Answer(world, tokens=2000, model=DEPLOYMENT).start()

        for name in CONTROL:
            world.keeper.stop(name)
        meanwhile = Answer(world, tokens=50, model=DEPLOYMENT).start()
        new = next_release(tmp_path / "next")
        migrated = new.migrate(environment)
        assert migrated.returncode == 0, migrated.stderr
        for name in CONTROL:
            new.start(world, name)
        assert converge(world, UP_WITHIN_S, differences) == []
        assert early.goes_on, "the stream has seen all of it"

        answer = world.api.write("PATCH", f"/pools/{pool_id(world, 'decode')}", {"generation": 1, "replicas": 2})
        assert answer.status == 202, answer
        assert converge(world, UP_WITHIN_S, differences) == []
        assert size_of(world) == {"prefill": (1, 1), "decode": (2, 2)}

        assert meanwhile.is_whole()
        assert early.is_whole()
        assert processes(world).items() >= before.items()
        assert "newer release" in Release(ROOT).migrate(environment).stderr, "there is no way back by accident"


def pool_id(world: World, role: str) -> str:
    pools = world.api.get(f"/deployments/{DEPLOYMENT}")["pools"]
    return str(next(pool["id"] for pool in pools if pool["role"] == role))
