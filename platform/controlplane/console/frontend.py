"""Serves the built console, and the static files of Django apps (the API's documentation page).

Files are small and few, so each is read whole, off the event loop. Vite names what lies under assets/ by its content:
browsers may keep that for ever; everything else is asked for again each time and mostly answered with 304.
"""

from __future__ import annotations

import asyncio
from mimetypes import MimeTypes
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.exceptions import SuspiciousFileOperation
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.utils._os import safe_join
from django.utils.cache import get_conditional_response
from django.utils.http import http_date
from django.views.decorators.http import require_safe

HASHED_FOLDER = "assets/"
FOR_EVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"

#: Scripts come from our own files only; components of the console set style attributes.
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)

NOT_BUILT = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Tandem</title>
<body style="font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:15vh auto;padding:0 1rem">
<h1>The console is not built yet</h1>
<p>Tandem itself runs: the API is described at <a href="/api/v1/docs">/api/v1/docs</a>.</p>
<p>Build the console with <code>make up</code>, or <code>npm ci &amp;&amp; npm run build</code> in
<code>frontend/</code>, then load this page again.</p>
</body></html>
"""

# Not the machine's own list: a console must not fail to start because of somebody's /etc/mime.types.
_types = MimeTypes(filenames=())
for suffix, kind in {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".json": "application/json",
    ".map": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".wasm": "application/wasm",
}.items():
    _types.add_type(kind, suffix)


@require_safe
async def console_page(request: HttpRequest, path: str = "") -> HttpResponse:
    """A file of the built console; index.html for every address that the console's own router knows."""
    found = await asyncio.to_thread(_console_file, path)
    if found is None:
        return HttpResponse(NOT_BUILT, status=503, headers={"Cache-Control": "no-store"})
    if path.startswith(HASHED_FOLDER) and found.name == "index.html":
        # An old page asks for a file of an earlier build; a page in place of a script would only confuse it.
        return HttpResponseNotFound("No such file in this build of the console; load the page again.\n")
    return await _file(request, found, FOR_EVER if path.startswith(HASHED_FOLDER) else ASK_AGAIN)


@require_safe
async def app_file(request: HttpRequest, path: str) -> HttpResponse:
    """A static file of an installed Django app."""
    found = await asyncio.to_thread(_app_file, path)
    if found is None:
        return HttpResponseNotFound("No such file.\n")
    return await _file(request, found, ASK_AGAIN)


def _console_file(path: str) -> Path | None:
    """The file at `path`, else the console's page; None when the console is not built."""
    index: Path = settings.FRONTEND_DIST / "index.html"
    try:
        named = Path(safe_join(settings.FRONTEND_DIST, path))
        if named.is_file():
            return named
    except (SuspiciousFileOperation, ValueError, OSError):  # outside of the folder; not a path at all; too long for one
        pass
    return index if index.is_file() else None


def _app_file(path: str) -> Path | None:
    try:
        found = finders.find(path)
        return Path(found) if found is not None and Path(found).is_file() else None
    except (SuspiciousFileOperation, ValueError, OSError):
        return None


async def _file(request: HttpRequest, path: Path, cache: str) -> HttpResponse:
    content, modified, etag = await asyncio.to_thread(_read, path)
    kind, _ = _types.guess_type(path.name)
    kind = kind or "application/octet-stream"
    response = HttpResponse(content, content_type=f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)
    response["Cache-Control"] = cache
    response["ETag"] = etag
    response["Last-Modified"] = http_date(modified)
    if kind == "text/html":
        response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    return get_conditional_response(request, etag=etag, last_modified=int(modified), response=response) or response


def _read(path: Path) -> tuple[bytes, float, str]:
    """Content, time of change, and a tag that changes with them."""
    content = path.read_bytes()
    status = path.stat()
    return content, status.st_mtime, f'"{status.st_mtime_ns:x}-{len(content):x}"'
