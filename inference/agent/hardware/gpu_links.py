"""Which GPUs of a machine reach each other by NVLink."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from inference.agent.hardware.nvml import figure, text


def pci_of(nvml: Any, handle: Any) -> str | None:
    """The PCI bus id of a GPU, in one spelling."""
    info = figure(nvml, partial(nvml.nvmlDeviceGetPciInfo, handle))
    return None if info is None else _bus_id(info)


def nvlink_peers(nvml: Any, gpus: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """For each GPU, by its name, the names of its peers. gpus: handles by name.

    GPUs are peers when a link joins them, or when both have links to a switch: NVSwitches of one machine join all.
    """
    by_pci = {pci: name for name, handle in gpus.items() if (pci := pci_of(nvml, handle)) is not None}
    direct: dict[str, set[str]] = {name: set() for name in gpus}
    switched = set()
    for name, handle in gpus.items():
        for kind, pci in _remote_ends(nvml, handle):
            if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                switched.add(name)
            elif pci in by_pci:
                direct[name].add(by_pci[pci])
    return {name: tuple(sorted((direct[name] | (switched if name in switched else set())) - {name})) for name in gpus}


def _remote_ends(nvml: Any, handle: Any) -> list[tuple[int | None, str]]:
    """Kind and PCI bus id of what is at the other end of each active link."""
    ends = []
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        if figure(nvml, partial(nvml.nvmlDeviceGetNvLinkState, handle, link)) != nvml.NVML_FEATURE_ENABLED:
            continue
        kind = figure(nvml, partial(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link))
        info = figure(nvml, partial(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link))
        ends.append((kind, "" if info is None else _bus_id(info)))
    return ends


def _bus_id(info: Any) -> str:
    return text(info.busId).lower()
