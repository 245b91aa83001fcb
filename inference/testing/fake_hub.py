"""A model hub and a plain file server in one, on loopback, for tests: the few endpoints that downloads use.

async with file_server(folder) as server:       # folder/<org>/<name>/... are models
    environment = {"HF_ENDPOINT": server.url}
    url = f"{server.url}/files/org/name/"        # the same files as a plain directory
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(eq=False)
class FileServer:
    """gated: models that need a token. damaged: paths whose bytes are served wrong. cut_after: bytes after which each
    answer of a file ends early; None for never. served: bytes given out, by path."""

    root: Path
    url: str = ""
    gated: set[str] = field(default_factory=set)
    damaged: set[str] = field(default_factory=set)
    cut_after: int | None = None
    served: dict[str, int] = field(default_factory=dict)

    async def model(self, request: web.Request) -> web.StreamResponse:
        """GET /api/models/<org>/<name>[/revision/<revision>]"""
        name, _, revision = request.match_info["rest"].partition("/revision/")
        folder = self.root / name
        if not folder.is_dir():
            return _refusal(401, "RepoNotFound")
        if name in self.gated:
            return _refusal(403, "GatedRepo")
        if revision not in ("", "main", COMMIT):
            return _refusal(404, "RevisionNotFound")
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        siblings = [{"rfilename": str(path.relative_to(folder)), **_lfs(path)} for path in files]
        body = {"_id": "1", "id": name, "modelId": name, "sha": COMMIT, "private": False, "siblings": siblings}
        return web.json_response({**body, "tags": [], "downloads": 0, "likes": 0})

    async def tree(self, request: web.Request) -> web.StreamResponse:
        """GET /api/models/<org>/<name>/tree/<revision>"""
        folder = self.root / request.match_info["name"]
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        told = [{"type": "file", "path": str(f.relative_to(folder)), "oid": _sha1(f), **_lfs(f)} for f in files]
        return web.json_response(told)

    async def resolve(self, request: web.Request) -> web.StreamResponse:
        """GET and HEAD /<org>/<name>/resolve/<revision>/<file>"""
        path = f"{request.match_info['name']}/{request.match_info['file']}"
        if not (self.root / path).is_file():
            return _refusal(404, "EntryNotFound")
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{_sha256(self.root / path)}"'}
        return await self._give(request, path, headers)

    async def plain(self, request: web.Request) -> web.StreamResponse:
        """GET and HEAD /files/<path>"""
        path = request.match_info["path"]
        return await self._give(request, path, {}) if (self.root / path).is_file() else web.Response(status=404)

    async def _give(self, request: web.Request, path: str, headers: dict[str, str]) -> web.StreamResponse:
        content = (self.root / path).read_bytes()
        if path in self.damaged:
            content = bytes(255 - byte for byte in content)
        start = int(request.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
        rest = content[start:]
        answer = web.StreamResponse(status=206 if start else 200, headers={**headers, "Accept-Ranges": "bytes"})
        if start:
            answer.headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        answer.content_length = len(rest)
        await answer.prepare(request)
        if request.method == "HEAD":
            return answer
        sent = rest if self.cut_after is None else rest[: self.cut_after]
        self.served[path] = self.served.get(path, 0) + len(sent)
        await answer.write(sent)
        if len(sent) < len(rest) and request.transport is not None:
            request.transport.close()
        return answer


@asynccontextmanager
async def file_server(root: Path) -> AsyncIterator[FileServer]:
    server = FileServer(root)
    application = web.Application()
    application.router.add_get("/api/models/{name:[^/]+/[^/]+}/tree/{revision:.+}", server.tree)
    application.router.add_get("/api/models/{rest:.+}", server.model)
    application.router.add_get("/{name:[^/]+/[^/]+}/resolve/{revision}/{file:.+}", server.resolve)
    application.router.add_get("/files/{path:.+}", server.plain)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


def write_sums(folder: Path) -> None:
    """What `sha256sum * > SHA256SUMS` writes."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "SHA256SUMS"]
    lines = [f"{_sha256(path)}  {path.relative_to(folder)}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def write_model(folder: Path, *, size: int = 200_000) -> Path:
    """A directory that looks like a model, with weights of about `size` bytes in two files."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"model-{number}-of-2.safetensors" for number in (1, 2)]
    for number, name in enumerate(names):
        (folder / name).write_bytes(bytes(range(number, number + 200)) * (size // 400))
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    index = {"weight_map": {"a": names[0], "b": names[1]}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "pytorch_model.bin").write_bytes(b"pickled")
    return folder


def _lfs(path: Path) -> dict[str, object]:
    size = path.stat().st_size
    if path.suffix != ".safetensors":
        return {"size": size, "blobId": _sha1(path)}
    lfs = {"sha256": _sha256(path), "oid": _sha256(path), "size": size, "pointerSize": 100}
    return {"size": size, "blobId": _sha1(path), "lfs": lfs}


def _refusal(status: int, code: str) -> web.Response:
    return web.json_response({"error": code}, status=status, headers={"X-Error-Code": code, "X-Error-Message": code})


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _sha1(path: Path) -> str:
    return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
