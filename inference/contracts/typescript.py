"""The console's TypeScript, written from the messages themselves: `python -m inference.contracts.typescript`.

Enums become constant objects of the same names, so that a search for `WorkerPhase.READY` finds both sides;
structs become read-only interfaces; a tagged struct carries its tag as `type`. Fields keep their wire names.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec
import msgspec.inspect as mi

from inference.contracts.console import ConsoleEvent, ConsoleMessage
from inference.contracts.errors import ErrorCode
from inference.contracts.routing_policy import Waits
from inference.contracts.states import FinishReason, LogRun, PriorityClass, UserRole
from inference.contracts.timings import RequestTiming
from inference.contracts.views.audit import AuditEntryView
from inference.contracts.views.fleet import JoinTokenOpenView, LinkView
from inference.contracts.views.models import ModelFitView, WeightsView

#: What the console reads; everything these mention is written too.
ROOTS: tuple[Any, ...] = (
    ErrorCode,
    FinishReason,
    LogRun,
    UserRole,
    PriorityClass,
    RequestTiming,
    Waits,
    AuditEntryView,
    JoinTokenOpenView,
    LinkView,
    ModelFitView,
    WeightsView,
    ConsoleMessage,
)

#: Unions that have a name of their own.
UNIONS: dict[str, Any] = {"ConsoleEvent": ConsoleEvent, "ConsoleMessage": ConsoleMessage}

HEADER = "// Written by `make generate` from inference/contracts. Do not edit."

_SCALARS: dict[type[mi.Type], str] = {
    mi.StrType: "string",
    mi.IntType: "number",
    mi.FloatType: "number",
    mi.BoolType: "boolean",
    mi.NoneType: "null",
    mi.AnyType: "unknown",
}


def render() -> str:
    """The whole module of TypeScript, ending in a line break."""
    named: dict[str, mi.EnumType | mi.StructType] = {}
    for info in mi.multi_type_info(ROOTS):
        _collect(info, named)
    enums = [_enum(info.cls) for info in named.values() if isinstance(info, mi.EnumType)]
    structs = [_struct(info) for info in named.values() if isinstance(info, mi.StructType)]
    defaults = [_defaults(info) for info in named.values() if isinstance(info, mi.StructType) and _has_defaults(info)]
    unions = [f"export type {name} = {_members(mi.type_info(union))};" for name, union in UNIONS.items()]
    return "\n\n".join([HEADER, *enums, *structs, *unions, *defaults]) + "\n"


def _collect(info: mi.Type, named: dict[str, mi.EnumType | mi.StructType]) -> None:
    """Note every enum and struct that `info` mentions, each once."""
    if isinstance(info, mi.EnumType):
        named.setdefault(info.cls.__name__, info)
    elif isinstance(info, mi.StructType) and info.cls.__name__ not in named:
        named[info.cls.__name__] = info
        for field in info.fields:
            _collect(field.type, named)
    else:
        for inner in _inner(info):
            _collect(inner, named)


def _inner(info: mi.Type) -> tuple[mi.Type, ...]:
    if isinstance(info, mi.UnionType):
        return info.types
    if isinstance(info, mi.VarTupleType | mi.ListType):
        return (info.item_type,)
    if isinstance(info, mi.DictType):
        return (info.key_type, info.value_type)
    return ()


def _enum(cls: type[Enum]) -> str:
    members = [f"  {member.name}: {json.dumps(member.value)}," for member in cls]
    return "\n".join(
        [
            *_comment(cls),
            f"export const {cls.__name__} = {{",
            *members,
            "} as const;",
            f"export type {cls.__name__} = (typeof {cls.__name__})[keyof typeof {cls.__name__}];",
        ]
    )


def _struct(info: mi.StructType) -> str:
    tag = [f"  readonly type: {json.dumps(info.tag)};"] if info.tag is not None else []
    fields = [f"  readonly {field.encode_name}: {_type(field.type)};" for field in info.fields]
    return "\n".join([*_comment(info.cls), f"export interface {info.cls.__name__} {{", *tag, *fields, "}"])


def _has_defaults(info: mi.StructType) -> bool:
    """Whether every field has a plain default, so that the defaults themselves make one value."""
    return all(field.default is not msgspec.NODEFAULT for field in info.fields)


def _defaults(info: mi.StructType) -> str:
    name = info.cls.__name__
    fields = [f"  {field.encode_name}: {json.dumps(field.default)}," for field in info.fields]
    return "\n".join([f"export const DEFAULT_{_screaming(name)}: {name} = {{", *fields, "};"])


def _screaming(name: str) -> str:
    return "".join(f"_{letter}" if letter.isupper() and at else letter for at, letter in enumerate(name)).upper()


def _type(info: mi.Type) -> str:
    scalar = _SCALARS.get(type(info))
    if scalar is not None:
        return scalar
    if isinstance(info, mi.EnumType | mi.StructType):
        return info.cls.__name__
    if isinstance(info, mi.UnionType):
        return _union(info)
    if isinstance(info, mi.VarTupleType | mi.ListType):
        item = _type(info.item_type)
        return f"readonly ({item})[]" if " | " in item else f"readonly {item}[]"
    if isinstance(info, mi.DictType):
        return f"Readonly<Record<{_type(info.key_type)}, {_type(info.value_type)}>>"
    raise TypeError(f"{info!r} has no TypeScript here; add a line to inference/contracts/typescript.py")


def _union(info: mi.UnionType) -> str:
    """The union's own name where it has one, else its members."""
    for name, union in UNIONS.items():
        if mi.type_info(union) == info:
            return name
    return _members(info)


def _members(info: mi.Type) -> str:
    return " | ".join(_type(member) for member in _inner(info))


def _comment(cls: type) -> Iterator[str]:
    """The docstring as a TSDoc comment."""
    text = inspect.cleandoc(cls.__doc__ or "")
    if not text:
        return
    lines = text.splitlines()
    if len(lines) == 1:
        yield f"/** {lines[0]} */"
        return
    yield "/**"
    yield from (f" * {line}".rstrip() for line in lines)
    yield " */"


if __name__ == "__main__":
    sys.stdout.write(render())
