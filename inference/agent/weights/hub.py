"""Fetches from the model hub (or what HF_ENDPOINT names) with its own library."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from inference.agent.weights.failed import FetchFailed

#: What an engine reads of a model; pickled weights and code are never fetched.
WANTED_FILES = ("*.safetensors", "*.json", "*.jinja", "tokenizer.model")

#: Where the library keeps its notes inside the folder that it downloads to.
_NOTES = ".cache"


def fetch(repository: str, revision: str, into: Path, plan: Callable[[int, int], None]) -> Path:
    """Download into `into`, going on where an earlier try ended; the folder that holds the model.

    plan: told the bytes of the model and of the disk it takes before anything is downloaded; may raise `FetchFailed`.

    Raises:
        FetchFailed: the hub refuses, is not reached, or gave something damaged.
    """
    try:
        found = HfApi().model_info(repository, revision=revision or None, files_metadata=True)
        files = {f.rfilename: f for f in found.siblings or () if any(fnmatch(f.rfilename, p) for p in WANTED_FILES)}
        size = sum(file.size or 0 for file in files.values())
        plan(size, size)
        snapshot_download(
            repository, revision=found.sha or revision or None, local_dir=into, allow_patterns=list(WANTED_FILES)
        )
    except FetchFailed:
        raise
    except Exception as error:  # the library lets those of its HTTP client through, whichever that is
        raise FetchFailed(_sentence(repository, revision, error)) from error
    for name, file in files.items():
        digest = file.lfs.sha256 if file.lfs is not None else None
        if digest is not None and _sha256(into / name) != digest:
            (into / name).unlink()
            raise FetchFailed(f"{name} of {repository} was damaged on its way; ask again")
    shutil.rmtree(into / _NOTES, ignore_errors=True)
    return into


def _sentence(repository: str, revision: str, error: Exception) -> str:
    match error:
        case OfflineModeIsEnabled():
            return f"{repository} is not on this node, and HF_HUB_OFFLINE forbids to fetch it"
        case GatedRepoError():
            return f"{repository} is gated: accept its terms on the hub and give this node's agent a token (HF_TOKEN)"
        case RevisionNotFoundError():
            return f"{repository} has no revision {revision!r}"
        case RepositoryNotFoundError():
            return f"the hub has no model {repository}, or it is private and this node's agent has no token (HF_TOKEN)"
        case HFValidationError():
            return f"{repository!r} is neither a directory on this node nor an id of the hub"
        case HfHubHTTPError():
            return f"the hub refused {repository}: {str(error).splitlines()[0]}"
    return f"the hub could not be reached for {repository}: {(str(error) or type(error).__name__).splitlines()[0]}"


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
