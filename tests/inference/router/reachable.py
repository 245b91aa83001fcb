"""What an object holds on to: everything that can be reached from it."""

from __future__ import annotations

import asyncio
import gc
import logging
import types
from collections.abc import Iterator

#: What is not held by the object but by the process, or what only runs now.
_BEYOND = (types.ModuleType, type, asyncio.AbstractEventLoop, logging.Logger, types.FrameType, types.CodeType)


def reachable(root: object) -> Iterator[tuple[object, str]]:
    """Every object that `root` holds on to, with the way there in names of types."""
    seen = {id(root)}
    ahead: list[tuple[object, str]] = [(root, type(root).__name__)]
    while ahead:
        holder, way = ahead.pop()
        yield holder, way
        for each in _held(holder):
            if id(each) not in seen and not isinstance(each, _BEYOND):
                seen.add(id(each))
                ahead.append((each, f"{way} > {type(each).__name__}"))


def _held(holder: object) -> list[object]:
    if isinstance(holder, types.FunctionType):  # its globals are the module's
        return [*(cell for cell in holder.__closure__ or ()), *(holder.__defaults__ or ())]
    if isinstance(holder, dict):  # of one whose keys are all strings the garbage collector looks at the values alone
        return [*dict.keys(holder), *dict.values(holder)]
    return gc.get_referents(holder)
