"""Fetches over http and https: a tar archive, or a directory with a list of its files.

    https://host/models/llama.tar       also .tar.gz, .tgz, .tar.xz; checked against https://host/models/llama.tar.sha256
                                        where that is there
    https://host/models/llama/          needs https://host/models/llama/SHA256SUMS, as `sha256sum *` writes it

An object store is such a place as long as its objects can be read by address.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from urllib.parse import quote

import aiohttp

from inference.agent.weights.failed import FetchFailed

SUMS_FILE = "SHA256SUMS"
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz")
_MOST_SUMS_BYTES = 1024 * 1024
_PIECE = 1024 * 1024

#: No byte for this long ends a try; the next goes on from there.
_SILENCE_S = 60.0

_SUM_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")

Plan = Callable[[int, int], None]


def fetch(url: str, into: Path, plan: Plan) -> Path:
    """Download into `into`, going on where an earlier try ended; the folder that holds the model.

    plan: told the bytes of the model and of the disk it takes before anything is downloaded; may raise `FetchFailed`.

    Raises:
        FetchFailed: the server refuses, is not reached, or gave something that its checksum does not fit.
    """
    try:
        return asyncio.run(_fetch(url, into, plan))
    except (aiohttp.ClientError, TimeoutError) as error:
        reason = str(error).replace(url, _shown(url)) or type(error).__name__
        raise FetchFailed(f"{_shown(url)} could not be fetched: {reason}") from error


async def _fetch(url: str, into: Path, plan: Plan) -> Path:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_SILENCE_S, sock_read=_SILENCE_S)
    # Lengths must be those of the bytes on disk, so nothing may be compressed on its way.
    headers = {"Accept-Encoding": "identity"}
    async with aiohttp.ClientSession(timeout=timeout, headers=headers, trust_env=True) as http:
        if url.partition("?")[0].endswith(_ARCHIVES):
            return await _archive(http, url, into, plan)
        return await _directory(http, url.rstrip("/"), into, plan)


async def _archive(http: aiohttp.ClientSession, url: str, into: Path, plan: Plan) -> Path:
    size = await _length(http, url)
    if size is not None:
        plan(size, 2 * size)  # the archive and what is in it
    address, question, query = url.partition("?")
    sums = await _text(http, f"{address}.sha256{question}{query}")
    digest = sums.split()[0].lower() if sums and sums.split() else None
    archive = into / "archive"
    await _file(http, url, archive, size, digest)
    content = into / "content"
    shutil.rmtree(content, ignore_errors=True)
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(content, filter="data")  # refuses what would land outside, and devices
    except tarfile.TarError as error:
        archive.unlink()
        raise FetchFailed(f"{_shown(url)} is no archive that can be unpacked: {error}") from error
    archive.unlink()
    inside = list(content.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else content


async def _directory(http: aiohttp.ClientSession, url: str, into: Path, plan: Plan) -> Path:
    sums = await _text(http, f"{url}/{SUMS_FILE}")
    if sums is None:
        raise FetchFailed(f"{url} has no {SUMS_FILE}: write one there with `sha256sum * > {SUMS_FILE}`")
    files = _parse(url, sums)
    sizes = {name: await _length(http, f"{url}/{quote(name)}") for name in files}
    if None not in sizes.values():
        size = sum(each for each in sizes.values() if each is not None)
        plan(size, size)
    content = into / "content"
    for name, digest in files.items():
        target = content / name
        target.parent.mkdir(parents=True, exist_ok=True)
        await _file(http, f"{url}/{quote(name)}", target, sizes[name], digest)
    return content


def _parse(url: str, sums: str) -> dict[str, str]:
    """File name -> SHA-256. Names may lead nowhere but below the directory."""
    files = {}
    for line in sums.splitlines():
        if not line.strip():
            continue
        match = _SUM_LINE.fullmatch(line.strip())
        name = PurePosixPath(match.group(2)) if match else None
        if match is None or name is None or name.is_absolute() or ".." in name.parts:
            raise FetchFailed(f"{url}/{SUMS_FILE} has a line that names no file: {line[:120]!r}")
        files[str(name)] = match.group(1).lower()
    if not files:
        raise FetchFailed(f"{url}/{SUMS_FILE} is empty")
    return files


async def _length(http: aiohttp.ClientSession, url: str) -> int | None:
    async with http.head(url, allow_redirects=True) as answer:
        if answer.status in (403, 405, 501):
            return None  # addresses that are signed for reading alone
        _require(url, answer.status)
        return answer.content_length


async def _text(http: aiohttp.ClientSession, url: str) -> str | None:
    """The small text at `url`; None when nothing is there."""
    async with http.get(url) as answer:
        if answer.status in (403, 404):
            return None
        _require(url, answer.status)
        return (await answer.content.read(_MOST_SUMS_BYTES)).decode(errors="replace")


async def _file(http: aiohttp.ClientSession, url: str, target: Path, size: int | None, digest: str | None) -> None:
    """Bring `target` to be the file at `url`. What is there already is kept only where a checksum can tell that it
    belongs to it."""
    there = _size(target) if digest is not None else 0
    if there and there == size and await asyncio.to_thread(_sha256, target) == digest:
        return
    if size is not None and there >= size:
        there = 0
    async with http.get(url, headers={"Range": f"bytes={there}-"} if there else {}) as answer:
        _require(url, answer.status)
        with target.open("ab" if there and answer.status == 206 else "wb") as file:
            async for piece in answer.content.iter_chunked(_PIECE):
                file.write(piece)
    got = _size(target)
    if size is not None and got != size:
        raise FetchFailed(f"{_shown(url)} ended after {got} of {size} bytes; ask again to go on from there")
    if digest is not None and await asyncio.to_thread(_sha256, target) != digest:
        os.unlink(target)
        raise FetchFailed(f"{_shown(url)} is not what its checksum says; it was thrown away")


def _require(url: str, status: int) -> None:
    if status >= 300:
        raise FetchFailed(f"{_shown(url)} was answered with {status}")


def _shown(url: str) -> str:
    """Without what follows a question mark: signed addresses hold credentials there."""
    return url.partition("?")[0]


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
