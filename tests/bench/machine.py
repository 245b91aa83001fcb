"""On what, with what and when was measured."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]

#: What decides which dtype is fast on a CPU.
_FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
_PACKAGES = ("torch", "transformers", "numba")


def facts() -> dict[str, Any]:
    processor, features = _processor()
    return {
        "measured at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "processor": processor,
        "features": features,
        "cores": len(os.sched_getaffinity(0)),
        "memory GiB": round(psutil.virtual_memory().total / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in _PACKAGES},
        "load before": load(),
    }


def load() -> float:
    """Processes that ran or wanted to, averaged over the last minute."""
    return round(os.getloadavg()[0], 2)


def commit() -> str:
    """The commit that is checked out; with a plus when files differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    name = git("rev-parse", "--short", "HEAD")
    if not name:
        return "unknown"
    return name + "+" if git("status", "--porcelain", "--untracked-files=no") else name


def _processor() -> tuple[str, list[str]]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine(), []
    said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = said.get("flags", "").split()
    return said.get("model name", platform.machine()), [feature for feature in _FEATURES if feature in flags]
