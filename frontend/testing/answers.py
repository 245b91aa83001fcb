"""How the make-believe control plane answers."""

from __future__ import annotations

import msgspec
from aiohttp import web


def answer(value: object, status: int = 200) -> web.Response:
    return web.json_response(msgspec.to_builtins(value), status=status)


def refuse(status: int, code: str, message: str, field: str | None = None, current: object = None) -> web.Response:
    return answer({"status": status, "code": code, "detail": message, "field": field, "current": current}, status)


def page(items: object) -> web.Response:
    return answer({"items": items, "next": None})
