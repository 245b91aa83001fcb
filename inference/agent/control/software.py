"""Which engines are installed beside this agent, read from package metadata: nothing is imported, so the agent stays
free of torch."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from inference.agent.config import AGENT_VERSION

#: Engines that are packages of their own, by the name that specs use.
_PACKAGES = {"vllm": "vllm", "sglang": "sglang"}

#: What the native engine can't do without.
_NATIVE_NEEDS = ("torch", "transformers")


def engine_versions() -> dict[str, str]:
    """Engine name -> version, of those that this machine could start."""
    native = [_version(package) for package in _NATIVE_NEEDS]
    found = {name: _version(package) for name, package in _PACKAGES.items()}
    engines = {name: number for name, number in found.items() if number is not None}
    if None not in native:
        needs = ", ".join(f"{package} {number}" for package, number in zip(_NATIVE_NEEDS, native, strict=True))
        engines["native"] = f"{AGENT_VERSION} ({needs})"
    return dict(sorted(engines.items()))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
