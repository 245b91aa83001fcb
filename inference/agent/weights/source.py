"""What kind of place the path of a model names. Pure, but for the question whether a local directory is there."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path


class Source(StrEnum):
    """DIRECTORY: on this machine. HUB: an id of the model hub. WEB: an http(s) address. UNKNOWN: another scheme."""

    DIRECTORY = "directory"
    HUB = "hub"
    WEB = "web"
    UNKNOWN = "unknown"


def source_of(path: str) -> Source:
    """Of a `WorkerSpec.model_path` or `WeightsSpec.path`; a directory that is there wins, as in the engine."""
    scheme, separator, _ = path.partition("://")
    if separator:
        return Source.WEB if scheme in ("http", "https") else Source.UNKNOWN
    if path.startswith(("/", ".", "~")) or Path(path).is_dir():
        return Source.DIRECTORY
    return Source.HUB
