"""Whether a model fits on the devices that the fleet has, by type."""

from __future__ import annotations

from django.db.models import Case, Count, F, Value, When

from controlplane.catalog.models import Model
from controlplane.core.errors import Invalid
from controlplane.fleet.models import Device
from inference.contracts.bounds import DTYPES, LARGEST
from inference.contracts.models import ModelShape
from inference.contracts.states import DeviceKind, NodeDesired
from inference.contracts.views.models import DeviceFitView, ModelFitView
from inference.planning.model.fit import Load, Need, need

_MOST_DEVICES = 64

#: CPU slots are named one by one ("CPU slot 3"), but are of one type.
_TYPE = Case(When(kind=DeviceKind.CPU, then=Value("CPU slot")), default=F("name"))


def load_checked(load: Load) -> Load:
    """
    Raises:
        Invalid: nothing could be run like that.
    """
    for name, value, most in (
        ("kv_tokens", load.kv_tokens, LARGEST),
        ("tensor_parallel", load.tensor_parallel, _MOST_DEVICES),
    ):
        if not 1 <= value <= most:
            raise Invalid(f"{name} is 1 to {most}, not {value}.", code="invalid_parameter", field=name)
    if load.dtype not in DTYPES:
        raise Invalid(
            f"dtype is one of {', '.join(DTYPES)}, not {load.dtype[:50]!r}.", code="invalid_parameter", field="dtype"
        )
    return load


def model_fit(model: Model, load: Load) -> ModelFitView:
    """On every type of device that nodes of ours report, in one query.

    Raises:
        Invalid: nothing could be run like that.
    """
    load_checked(load)
    shape = model.known_shape
    types = (
        Device.objects.filter(missing=False)
        .exclude(node__desired=NodeDesired.RETIRED)
        .order_by()
        .values_list("kind", _TYPE, "memory_total")
        .annotate(count=Count("pk"))
    )
    found = [_fit(shape, load, DeviceKind(kind), name, memory, count) for kind, name, memory, count in types]
    order = list(DeviceKind)
    found.sort(key=lambda each: (order.index(each.kind), each.name, each.memory_total or 0))
    return ModelFitView(
        model=model.name,
        kv_tokens=load.kv_tokens,
        tensor_parallel=load.tensor_parallel,
        dtype=load.dtype,
        devices=tuple(found),
    )


def _fit(
    shape: ModelShape | None, load: Load, kind: DeviceKind, name: str, memory: int | None, count: int
) -> DeviceFitView:
    needed = None if shape is None else need(shape, load, kind)
    known = None if needed is None or memory is None else (needed, memory)
    return DeviceFitView(
        name=name,
        kind=kind,
        memory_total=memory,
        count=count,
        fits=None if known is None else _fits(*known, kind),
        weights_bytes=None if needed is None else needed.weights,
        kv_bytes=None if needed is None else needed.kv,
        allowance_bytes=None if needed is None else needed.allowance,
        needed_bytes=None if needed is None else needed.total,
        kv_tokens_max=None if known is None else known[0].kv_tokens_max(known[1]),
    )


def _fits(needed: Need, memory: int, kind: DeviceKind) -> bool | None:
    """The memory of a CPU slot is a share of the machine's, which a worker may exceed while others leave theirs."""
    fits = needed.total <= memory
    return fits if fits or kind == DeviceKind.GPU else None
