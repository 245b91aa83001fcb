"""The folder of fetched weights.

<id>/                 one model, whole and checked; <id> is drawn from source and revision
<id>/.source.json     what it was fetched from
.<id>.partial/        what has come so far; a later try goes on from there
.<id>.lock            held by the process that fetches it
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec
import structlog

from inference.agent.weights.source import Source, source_of
from inference.contracts.codec import CodecError, decode, encode
from inference.contracts.models import ModelShape
from inference.contracts.specs import WorkerSpec
from inference.planning.model.folder import read_shape
from inference.process.files import write_atomically

SOURCE_FILE = ".source.json"

log = structlog.get_logger()


class NotUsable(Exception):
    """A directory holds no model that could be served; the text says what is missing."""


class NotHere(Exception):
    """The weights are not on this machine yet; the text says which."""


class StoredModel(msgspec.Struct, frozen=True, kw_only=True):
    """path, revision: see `WeightsSpec`. size_bytes: of all its files. shape: what they say; None: can't be read."""

    path: str
    revision: str
    size_bytes: int
    shape: ModelShape | None = None


class WeightsStore:
    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, path: str, revision: str) -> Path:
        name = re.sub(r"[^A-Za-z0-9]+", "-", path.rstrip("/").rpartition("/")[2])[:40].strip("-")
        digest = hashlib.sha256(f"{path}\n{revision}".encode()).hexdigest()[:16]
        return self.root / f"{name or 'model'}-{digest}"

    def partial(self, path: str, revision: str) -> Path:
        folder = self.folder(path, revision)
        return folder.with_name(f".{folder.name}.partial")

    def lock_file(self, path: str, revision: str) -> Path:
        folder = self.folder(path, revision)
        return folder.with_name(f".{folder.name}.lock")

    def stored(self) -> tuple[StoredModel, ...]:
        """All that was fetched."""
        found = (_read(file) for file in sorted(self.root.glob(f"[!.]*/{SOURCE_FILE}")))
        return tuple(model for model in found if model is not None)

    def find(self, path: str, revision: str) -> StoredModel | None:
        """What was fetched from there, or None. A folder that lost its files since does not count."""
        folder = self.folder(path, revision)
        model = _read(folder / SOURCE_FILE)
        if model is None:
            return None
        try:
            check(folder)
        except NotUsable as error:
            log.warning("fetched weights are damaged", folder=str(folder), reason=str(error))
            return None
        return model

    def publish(self, content: Path, path: str, revision: str) -> StoredModel:
        """Make `content`, which is whole, the model of this source, in one step.

        Raises:
            NotUsable: it is no model.
        """
        size = check(content)
        model = StoredModel(path=path, revision=revision, size_bytes=size, shape=read_shape(content))
        write_atomically(content / SOURCE_FILE, encode(model))
        folder = self.folder(path, revision)
        if folder.exists():  # damaged: `find` did not take it
            folder.rename(folder.with_name(f".{folder.name}.damaged"))
        content.rename(folder)
        return model

    def local_path(self, spec: WorkerSpec) -> str:
        """What the process of `spec` is to load: the copy on this machine where there is one. A hub id without a copy
        stays what it is, since the engine can fetch that itself.

        Raises:
            NotHere: only a fetched copy could be loaded, and there is none.
        """
        source = source_of(spec.model_path)
        if source is Source.DIRECTORY:
            return spec.model_path
        if self.find(spec.model_path, spec.model_revision) is not None:
            return str(self.folder(spec.model_path, spec.model_revision))
        if source is Source.HUB:
            return spec.model_path
        raise NotHere(f"the weights of {spec.model_path} are not on this node yet")


def check(folder: Path) -> int:
    """Bytes of all files of the model in `folder`.

    Raises:
        NotUsable: configuration or weights are missing, or the index of its weights names files that are not there.
    """
    if not folder.is_dir():
        raise NotUsable(f"{folder} is not a directory on this node")
    if not (folder / "config.json").is_file():
        raise NotUsable(f"{folder} has no config.json")
    if not any(folder.glob("*.safetensors")):
        raise NotUsable(f"{folder} has no .safetensors file (pickled weights are not read)")
    missing = [name for name in _indexed(folder) if not (folder / name).is_file()]
    if missing:
        raise NotUsable(f"{folder} lacks {missing[0]} and {len(missing) - 1} more of the files that its index names")
    return size_of(folder)


def size_of(folder: Path) -> int:
    """Bytes of all files below `folder`; those that vanish meanwhile count for nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() and path.name != SOURCE_FILE else 0
        except OSError:
            continue
    return total


def _indexed(folder: Path) -> Iterable[str]:
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return ()
    try:
        return sorted({str(name) for name in json.loads(index.read_text())["weight_map"].values()})
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise NotUsable(f"{index} can't be read: {error}") from error


def _read(file: Path) -> StoredModel | None:
    try:
        return decode(file.read_bytes(), StoredModel)
    except (OSError, CodecError):
        return None
