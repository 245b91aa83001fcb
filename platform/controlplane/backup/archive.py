"""The file that a backup is: a gzipped tar of named parts, each with its SHA-256 in a manifest that is written last.

So a file that was cut off has no manifest, and one that was altered has a part that does not fit its sum.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO

import msgspec

FORMAT = 1
_MANIFEST = "manifest.json"
_READ_SIZE = 1 << 20
#: Parts up to this size are put together in memory, larger ones in a temporary file.
_IN_MEMORY = 16 << 20


class DamagedBackup(Exception):
    """The file is no backup, or not the whole of one as it was written."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """rows: lines of it; 0 for a secret."""

    sha256: str
    rows: int = 0


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """made_at: ISO 8601. database: the kind it was read from. migrations: see `core.release`. parts: by name."""

    format: int
    made_at: str
    database: str
    migrations: list[str]
    parts: dict[str, Part]


class ArchiveWriter:
    """Adds parts to an open archive; `parts` is what the manifest has to say of them."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.parts: dict[str, Part] = {}

    def add_lines(self, name: str, lines: Iterable[bytes]) -> int:
        """Returns how many there were."""
        digest, rows = hashlib.sha256(), 0
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
            for line in lines:
                rows += 1
                file.write(line + b"\n")
                digest.update(line + b"\n")
            self._add(name, file)
        self.parts[name] = Part(sha256=digest.hexdigest(), rows=rows)
        return rows

    def add_bytes(self, name: str, content: bytes) -> None:
        self._add(name, BytesIO(content))
        self.parts[name] = Part(sha256=hashlib.sha256(content).hexdigest())

    def close(self, manifest: Manifest) -> None:
        self._add(_MANIFEST, BytesIO(msgspec.json.encode(manifest)))

    def _add(self, name: str, file: IO[bytes]) -> None:
        entry = tarfile.TarInfo(name)
        entry.size = file.seek(0, os.SEEK_END)
        entry.mode = 0o600
        file.seek(0)
        self._tar.addfile(entry, file)


@contextmanager
def new_archive(path: Path) -> Iterator[ArchiveWriter]:
    """`path` appears when the block is left, whole and readable by its owner only; not at all after an error.

    Raises:
        FileExistsError: there is such a file already.
    """
    if path.exists():
        raise FileExistsError(f"{path} exists already; name another file.")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz") as tar:
                yield ArchiveWriter(tar)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


class Archive:
    """An archive that was read to its end once and is what was written. Nothing of it is ever unpacked to disk."""

    def __init__(self, tar: tarfile.TarFile, manifest: Manifest) -> None:
        self._tar = tar
        self.manifest = manifest

    def lines(self, name: str) -> Iterator[bytes]:
        part = self._tar.extractfile(name)
        if part is not None:
            yield from part

    def content(self, name: str) -> bytes:
        part = self._tar.extractfile(name)
        return b"" if part is None else part.read()


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """
    Raises:
        DamagedBackup: see there.
        OSError: the file can't be read.
    """
    with path.open("rb") as file:
        try:
            with tarfile.open(fileobj=file, mode="r:gz") as tar:
                yield Archive(tar, _checked(path, tar))
        except (tarfile.TarError, zlib.error, EOFError) as error:
            raise DamagedBackup(f"{path} is no backup, or damaged: {error}.") from error


def _checked(path: Path, tar: tarfile.TarFile) -> Manifest:
    """Reads everything once, in the order in which it lies there."""
    sums: dict[str, str] = {}
    manifest = None
    for entry in tar:
        part = tar.extractfile(entry)
        if part is None or entry.name in sums:
            raise DamagedBackup(f"{path} is no backup: it holds {entry.name!r}, which is no file or there twice.")
        if entry.name == _MANIFEST:
            manifest = part.read()
        else:
            sums[entry.name] = _sum(part)
    if manifest is None:
        raise DamagedBackup(f"{path} is no backup, or was cut off: it has no {_MANIFEST}.")
    try:
        read = msgspec.json.decode(manifest, type=Manifest)
    except msgspec.MsgspecError as error:
        raise DamagedBackup(f"{path} is damaged: its {_MANIFEST} can't be read ({error}).") from error
    if read.format != FORMAT:
        raise DamagedBackup(f"{path} has format {read.format}; this release reads format {FORMAT}.")
    written = {name: part.sha256 for name, part in read.parts.items()}
    wrong = sorted(name for name in {*sums, *written} if sums.get(name) != written.get(name))
    if wrong:
        raise DamagedBackup(f"{path} is damaged: {wrong[0]} is not what was written.")
    return read


def _sum(part: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while block := part.read(_READ_SIZE):
        digest.update(block)
    return digest.hexdigest()
