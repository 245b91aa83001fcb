"""OpenAPI from the structs that really travel: what an endpoint documents is what it reads and writes.

`documented` turns the msgspec types of one operation into JSON Schema for drf-spectacular and names its parameters;
`ControlSchema` adds what `ControlView` gives every endpoint; `add_components` (a post-processing hook, see
SPECTACULAR_SETTINGS) adds every struct and enum they mention as a named component.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import msgspec
from drf_spectacular.authentication import SessionScheme
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from controlplane.core.rest.listing import LIMIT, LIMIT_MAX, Listing
from controlplane.core.rest.problems import PROBLEM_JSON, Problem
from inference.contracts import names

_REF = "#/components/schemas/{name}"
_GENERIC = re.compile(rb"\b(Page)_([A-Za-z0-9]+)_")
_READING = ("GET", "HEAD")
_SAFE = (*_READING, "OPTIONS")

#: Every struct and enum that an endpoint mentions, by name.
_components: dict[str, dict[str, Any]] = {}


class SessionAuthenticationScheme(SessionScheme):  # type: ignore[no-untyped-call]
    """The console's login, which is REST framework's session login with a 401 of its own."""

    target_class = "controlplane.core.rest.authentication.SessionAuthentication"
    match_subclasses = True


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter of one operation, beside those that every operation has."""

    kind: type = str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Documented:
    """What `documented` notes on a handler. queueable: `?on_conflict=queue` is understood."""

    query: Mapping[str, Parameter] = field(default_factory=dict)
    queueable: bool = False


def documented(
    summary: str,
    *,
    answers: Mapping[int, Any],
    body: Any = None,
    refusals: Sequence[int] = (),
    public: bool = False,
    query: Mapping[str, Parameter] | None = None,
    queueable: bool = False,
    media_types: Sequence[str] = ("application/json",),
) -> Callable[[Any], Any]:
    """Describe one method of a `ControlView`. The summary, without articles, also names the operation for generated
    clients.

    answers: HTTP status -> type of the body (a struct, a `Page` of one, or None for no body). body: type of the
    request's JSON. refusals: statuses answered with a `Problem` that deserve to be named, besides 400 and those that
    come with a login (401, 403); any other is described as "default". public: needs no login. query: parameters of
    its own; others are refused. queueable: the handler reads `on_conflict`. media_types: of the answers.
    """
    described: dict[Any, Any] = {(status, *media_types): _answer(status, kind) for status, kind in answers.items()}
    expected = {*refusals, 400, *([] if public else [401, 403])}
    described.update({(status, PROBLEM_JSON): _answer(status, Problem) for status in sorted(expected)})
    described["default", PROBLEM_JSON] = OpenApiResponse(response=_json_schema(Problem), description="Refused")
    describe = extend_schema(
        operation_id="_".join(word for word in summary.lower().split() if word not in ("a", "an", "the")),
        summary=summary,
        request=None if body is None else {"application/json": _json_schema(body)},
        responses=described,
        auth=[] if public else None,
    )
    noted = Documented(query or {}, queueable)

    def decorate(handler: Any) -> Any:
        handler = describe(handler)
        handler.documented = noted
        return handler

    return decorate


def parameters_of(view: Any, method: str) -> frozenset[str] | None:
    """Names of the query parameters that `method` of `view` knows; None where it is not documented here."""
    noted: Documented | None = getattr(getattr(view, method.lower(), None), "documented", None)
    if noted is None:
        return None
    names_known = set(noted.query)
    if method in _READING and view.listing is not None:
        names_known |= view.listing.parameters
    if method not in _SAFE and view.transactional:
        names_known.add("dry_run")
    if noted.queueable:
        names_known.add("on_conflict")
    return frozenset(names_known)


class ControlSchema(AutoSchema):
    """drf-spectacular's, with the headers and parameters that `ControlView` gives every endpoint."""

    def get_description(self) -> str:  # type: ignore[override]  # drf-spectacular takes no arguments here
        """Of the method alone: what is said of a class is for those who read the code."""
        return inspect.getdoc(getattr(self.view, self.method.lower(), None)) or ""

    def get_override_parameters(self) -> list[Any]:
        view: Any = self.view
        noted: Documented | None = getattr(getattr(view, self.method.lower(), None), "documented", None)
        if noted is None:
            return []
        found = [_query(name, each.kind, each.description, each.required) for name, each in noted.query.items()]
        found.append(_header(names.REQUEST_ID_HEADER, "Names the request in its answer, the log and the audit."))
        if self.method == "GET":
            found += _of_reading(view)
        elif view.transactional:
            found += _of_writing(view)
        if noted.queueable:
            found.append(_ON_CONFLICT)
        return found


_ON_CONFLICT = OpenApiParameter(
    "on_conflict",
    {"type": "string", "enum": ["refuse", "queue"], "default": "refuse"},
    description="What to do where an operation under way stands against this one: refuse it, or begin once that ended.",
)


def _of_reading(view: Any) -> list[OpenApiParameter]:
    if view.listing is None:
        return [_header("ETag", "The version of what is shown, for If-Match.", answered=[200])]
    listing: Listing = view.listing
    orders = [sign + name for name in listing.orders for sign in ("", "-")]
    return [
        *(_query(name, each.kind, each.description) for name, each in listing.filters.items()),
        _query("order", {"type": "string", "enum": orders, "default": listing.order}, "-name: the other way round."),
        _query("cursor", str, "`next` of the page before."),
        _query("limit", {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT}, "Items of a page."),
    ]


def _of_writing(view: Any) -> list[OpenApiParameter]:
    found = [
        _query("dry_run", bool, "Answer as if it were done, and do nothing. Secrets are masked."),
        _header("Dry-Run", "`true`: nothing was done.", answered=True),
    ]
    if hasattr(view, "get") and view.listing is None:
        tags = "Refuse with 412 unless GET's ETag is still this one."
        found.append(_header("If-Match", tags, r'^(\*|"[!#-~]*"(, "[!#-~]*")*)$'))
    if not view.public:
        found += [
            _header(
                "Idempotency-Key",
                "Any text of your own: sent again within 24 h, the request is not done again.",
                r"^[!-~]{1,255}$",
            ),
            _header("Idempotency-Replayed", "`true`: this was answered before.", answered=True),
        ]
    return found


def _query(name: str, kind: Any, description: str, required: bool = False) -> OpenApiParameter:
    return OpenApiParameter(name, _simple_schema(kind), required=required, description=description)


def _header(
    name: str, description: str, pattern: str | None = None, *, answered: bool | list[int] = False
) -> OpenApiParameter:
    schema = {"type": "string"} | ({} if pattern is None else {"pattern": pattern})
    where = OpenApiParameter.HEADER
    return OpenApiParameter(name, schema, where, description=description, response=answered)  # type: ignore[arg-type]


def _simple_schema(kind: Any) -> dict[str, Any]:
    if isinstance(kind, dict):
        return kind
    if issubclass(kind, StrEnum):
        return {"type": "string", "enum": list(kind)}
    return msgspec.json.schema(kind)


def _answer(status: int, kind: Any) -> OpenApiResponse:
    schema = None if kind is None else _json_schema(kind)
    return OpenApiResponse(response=schema, description=HTTPStatus(status).phrase)


def _json_schema(kind: Any) -> dict[str, Any]:
    described = msgspec.json.encode(msgspec.json.schema_components([kind], ref_template=_REF))
    # What msgspec calls "Page_NodeView_" is the NodeViewPage of generated clients.
    [schema], components = msgspec.json.decode(
        _GENERIC.sub(rb"\2\1", described), type=tuple[list[dict[str, Any]], dict[str, Any]]
    )
    for name, component in components.items():
        if _components.setdefault(name, component) != component:
            raise TypeError(f"two different API types are named {name}; rename one")
    return schema


def add_components(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """drf-spectacular hook: put the collected components in, mark bodies that have required fields as required, and say
    that what a body is made of takes no other fields where the body takes none (see `api.body`)."""
    schemas = result.setdefault("components", {}).setdefault("schemas", {})
    schemas.update((name, dict(component)) for name, component in sorted(_components.items()))
    for path in result["paths"].values():
        for operation in path.values():
            if isinstance(operation, dict) and "requestBody" in operation:
                operation["requestBody"]["required"] = any(
                    schemas.get(_name(media["schema"]), {}).get("required")
                    for media in operation["requestBody"]["content"].values()
                )
                for media in operation["requestBody"]["content"].values():
                    if schemas.get(_name(media["schema"]), {}).get("additionalProperties") is False:
                        _take_no_other_fields(media["schema"], schemas)
    return result


def _take_no_other_fields(part: Any, schemas: Mapping[str, dict[str, Any]]) -> None:
    """Say so of all components that `part` is made of."""
    found: set[str] = set()
    waiting = [part]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if (name := _name(each)) in schemas and name not in found:
                found.add(name)
                waiting.append(schemas[name])
            if "properties" in each:
                each["additionalProperties"] = False
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


def _name(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]
