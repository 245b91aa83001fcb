"""Whether a shape that somebody tells can be right. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from inference.contracts.models import ModelShape

_MOST = 2**50
_MOST_TOKENS = 2**31 - 1
_MOST_ENTRIES = 64
_LONGEST = 100


def shape_fault(shape: ModelShape) -> str | None:
    """The first thing that no model has, as a sentence; None when all may be right."""
    return next(_faults(shape), None)


def _faults(shape: ModelShape) -> Iterator[str]:
    for name, text in (
        ("architecture", shape.architecture),
        ("dtype", shape.dtype),
        ("quantization", shape.quantization),
        *((f"engines.{engine[:_LONGEST]}", engine) for engine in shape.engines or {}),
    ):
        if len(text) > _LONGEST or (text and not text.isprintable()):
            yield f"{name} has at most {_LONGEST} printable characters."
    if any(len(reason) > 5 * _LONGEST for reason in (shape.engines or {}).values()):
        yield f"A reason in engines has at most {5 * _LONGEST} characters."
    numbers = [
        ("context_length", shape.context_length, _MOST_TOKENS),
        ("parameters", shape.parameters, _MOST),
        ("active_parameters", shape.active_parameters, _MOST),
        ("tied_parameters", shape.tied_parameters or None, _MOST),
        *((f"weights_bytes.{kind[:_LONGEST]}", size, _MOST) for kind, size in (shape.weights_bytes or {}).items()),
    ]
    for index, each in enumerate(shape.kv or ()):
        numbers += [
            (f"kv[{index}].{name}", getattr(each, name), most)
            for name, most in (("layers", 10_000), ("heads", 10_000), ("head_elements", 1_000_000))
        ]
        numbers.append((f"kv[{index}].window", each.window, _MOST_TOKENS))
    for name, value, most in numbers:
        if value is not None and not 1 <= value <= most:
            yield f"{name} is 1 to {most}, not {value}."
    for name, entries in (("weights_bytes", shape.weights_bytes), ("engines", shape.engines), ("kv", shape.kv)):
        if entries is not None and len(entries) > _MOST_ENTRIES:
            yield f"{name} has at most {_MOST_ENTRIES} entries."
    if shape.parameters and shape.active_parameters and shape.active_parameters > shape.parameters:
        yield "A token uses no more parameters than there are: active_parameters is above parameters."
