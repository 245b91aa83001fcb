"""OpenAPI from the structs that really travel: what an endpoint documents is what it reads and writes.

`documented` turns the msgspec types of one operation into JSON Schema for drf-spectacular; `add_components` (a
post-processing hook, see SPECTACULAR_SETTINGS) adds every struct and enum they mention as a named component.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from drf_spectacular.authentication import SessionScheme
from drf_spectacular.utils import OpenApiResponse, extend_schema

from controlplane.core.api import ErrorAnswer

_REF = "#/components/schemas/{name}"

#: Every struct and enum that an endpoint mentions, by name.
_components: dict[str, dict[str, Any]] = {}


class SessionAuthenticationScheme(SessionScheme):  # type: ignore[no-untyped-call]
    """The console's login, which is REST framework's session login with a 401 of its own."""

    target_class = "controlplane.core.authentication.SessionAuthentication"


def documented(
    summary: str,
    *,
    answers: Mapping[int, Any],
    body: Any = None,
    refusals: Sequence[int] = (),
    public: bool = False,
) -> Callable[[Any], Any]:
    """Describe one method of an APIView. The summary, without articles, also names the operation for generated clients.

    answers: HTTP status -> type of the body (a struct, a list of one, or None for no body). body: type of the
    request's JSON. refusals: statuses answered with an `ErrorAnswer`, besides 400 where there is a body and 401
    where a login is needed. public: needs no login.
    """
    described: dict[int, Any] = {status: _answer(status, kind) for status, kind in answers.items()}
    expected = {*refusals, *([] if body is None else [400]), *([] if public else [401])}
    described.update({status: _answer(status, ErrorAnswer) for status in sorted(expected)})
    return extend_schema(
        operation_id="_".join(word for word in summary.lower().split() if word not in ("a", "an", "the")),
        summary=summary,
        request=None if body is None else {"application/json": _json_schema(body)},
        responses=described,
        auth=[] if public else None,
    )


def _answer(status: int, kind: Any) -> OpenApiResponse:
    schema = None if kind is None else _json_schema(kind)
    return OpenApiResponse(response=schema, description=HTTPStatus(status).phrase)


def _json_schema(kind: Any) -> dict[str, Any]:
    (schema,), components = msgspec.json.schema_components([kind], ref_template=_REF)
    for name, component in components.items():
        if _components.setdefault(name, component) != component:
            raise TypeError(f"two different API types are named {name}; rename one")
    return schema


def add_components(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """drf-spectacular hook: put the collected components in, and mark bodies that have required fields as required."""
    schemas = result.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(sorted(_components.items()))
    for path in result["paths"].values():
        for operation in path.values():
            if isinstance(operation, dict) and "requestBody" in operation:
                operation["requestBody"]["required"] = any(
                    schemas.get(_name(media["schema"]), {}).get("required")
                    for media in operation["requestBody"]["content"].values()
                )
    return result


def _name(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]
