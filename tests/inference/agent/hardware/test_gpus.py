from __future__ import annotations

import sys

import pynvml
import pytest

from inference.agent.hardware.gpu_faults import FATAL_XIDS, fault_of
from inference.agent.hardware.gpus import TOPOLOGY_S, Gpus
from inference.agent.hardware.nvml import load_nvml
from inference.contracts.reports import DeviceReport
from inference.contracts.specs import DeviceAssignment
from inference.contracts.states import DeviceKind
from inference.testing.fake_nvml import FakeGpu, FakeMig, FakeNvml
from inference.worker.devices import gpu_uuids
from tests.inference.agent.node_under_test import worker


class Machine:
    """GPUs, the fake they are read through, and a clock that tests set."""

    def __init__(self, *cards: FakeGpu, visible: str | None = None) -> None:
        self.now = 1000.0
        self.nvml = FakeNvml(list(cards))
        self.nvml.nvmlInit()
        environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        self.gpus = Gpus(self.nvml, environment, clock=lambda: self.now)

    def read(self, after_s: float = 2.0) -> tuple[DeviceReport, ...]:
        self.now += after_s
        return self.gpus.read()


def test_a_gpu_is_named_by_its_uuid_and_told_in_plain_units() -> None:
    card = FakeGpu(
        "GPU-aaaa", memory_used=8_000_000_000, utilization=50, memory_utilization=25, power_mw=300_000, temperature_c=61
    )
    machine = Machine(card)
    [gpu] = machine.read()
    assert (gpu.device_id, gpu.kind, gpu.index) == ("gpu-aaaa", DeviceKind.GPU, 0)
    assert gpu.name == "NVIDIA H100 80GB HBM3"
    assert (gpu.memory_total, gpu.memory_used) == (80_000_000_000, 8_000_000_000)
    assert (gpu.utilization, gpu.memory_bandwidth_use) == (0.5, 0.25)
    assert (gpu.power_w, gpu.power_limit_w, gpu.temperature_c) == (300.0, 700.0, 61.0)
    assert (gpu.pci, gpu.pcie_gen, gpu.pcie_width) == ("00000000:19:00.0", 5, 16)
    assert (gpu.ecc_uncorrected, gpu.xid, gpu.fault) == (0, None, "")
    assert gpu.parent is None
    assert machine.gpus.driver == "580.95.05"


def test_a_figure_that_a_card_does_not_give_is_unknown_and_never_zero() -> None:
    poor = FakeGpu(
        "GPU-a",
        memory_total=None,
        utilization=None,
        power_mw=None,
        power_limit_mw=None,
        temperature_c=None,
        pcie_gen=None,
        pcie_width=None,
        ecc_uncorrected=None,
        tells_xids=False,
    )
    told, rich = Machine(poor, FakeGpu("GPU-b")).read()
    unknown = (
        told.memory_total,
        told.memory_used,
        told.utilization,
        told.memory_bandwidth_use,
        told.sm_use,
        told.power_w,
        told.power_limit_w,
        told.temperature_c,
        told.pcie_gen,
        told.pcie_width,
        told.ecc_uncorrected,
        told.xid,
    )
    assert unknown == (None,) * 12
    assert told.fault == "", "not known is no fault"
    assert rich.power_w == 100.0


def test_a_driver_that_stops_answering_leaves_known_gpus_without_figures_and_without_fault() -> None:
    machine = Machine(FakeGpu("GPU-a"))
    machine.read()
    machine.nvml.is_silent = True
    [gpu] = machine.read()
    assert gpu.device_id == "gpu-a"
    assert (gpu.memory_used, gpu.utilization, gpu.fault) == (None, None, "")
    machine.nvml.is_silent = False
    assert machine.read()[0].utilization == 0.0


@pytest.mark.parametrize(
    ("visible", "seen"),
    [(None, ["gpu-aa", "gpu-bb"]), ("1", ["gpu-bb"]), ("GPU-aa", ["gpu-aa"]), ("GPU-b", ["gpu-bb"]), ("", [])],
)
def test_gpus_hidden_from_cuda_are_not_offered(visible: str | None, seen: list[str]) -> None:
    machine = Machine(FakeGpu("GPU-aa"), FakeGpu("GPU-bb"), visible=visible)
    assert [gpu.device_id for gpu in machine.read()] == seen


def test_a_machine_without_library_or_driver_has_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml([], installed=False))
    assert load_nvml() is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert load_nvml() is None
    fake = FakeNvml([])
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    assert load_nvml() is fake


# -- faults ------------------------------------------------------------------------------------------


def test_uncorrected_memory_errors_are_a_fault() -> None:
    card = FakeGpu("GPU-a")
    machine = Machine(card)
    assert machine.read()[0].fault == ""
    card.ecc_uncorrected = 2
    [gpu] = machine.read()
    assert gpu.ecc_uncorrected == 2
    assert gpu.fault == "2 uncorrected memory errors since the driver was loaded"


def test_an_xid_that_a_program_can_cause_is_told_and_is_no_fault() -> None:
    card = FakeGpu("GPU-a")
    machine = Machine(card, FakeGpu("GPU-b"))
    machine.read()
    machine.nvml.strike(card, xid=31)
    first, second = machine.read()
    assert (first.xid, first.fault) == (31, "")
    assert second.xid is None, "the other card had none"


def test_a_fatal_xid_is_a_fault_that_later_harmless_ones_do_not_mend() -> None:
    card = FakeGpu("GPU-a")
    machine = Machine(card)
    machine.read()
    machine.nvml.strike(card, xid=95)
    machine.nvml.strike(card, xid=13)
    [gpu] = machine.read()
    assert (gpu.xid, gpu.fault) == (13, "XID 95: uncontained memory error")
    assert machine.read()[0].fault == "XID 95: uncontained memory error"


def test_a_gpu_that_fell_off_the_bus_is_faulty_and_the_others_serve_on() -> None:
    card = FakeGpu("GPU-a")
    machine = Machine(card, FakeGpu("GPU-b"))
    machine.read()
    card.is_lost = True
    lost, well = machine.read()
    assert (lost.device_id, lost.fault) == ("gpu-a", "fell off the bus")
    assert (lost.memory_used, lost.utilization, lost.power_w, lost.temperature_c) == (None,) * 4
    assert lost.memory_total == 80_000_000_000, "what it is does not change"
    assert (well.fault, well.power_w) == ("", 100.0)
    card.is_lost, card.needs_reset = False, True
    assert machine.read()[0].fault == "must be reset"
    card.needs_reset = False
    assert machine.read()[0].fault == "", "it was mended"


def test_a_gpu_that_was_lost_before_anyone_knew_its_name_is_not_offered() -> None:
    machine = Machine(FakeGpu("GPU-a", is_lost=True), FakeGpu("GPU-b"))
    assert [gpu.device_id for gpu in machine.read()] == ["gpu-b"]


def test_faults_are_told_together_and_unknown_figures_are_none() -> None:
    assert fault_of(ecc_uncorrected=None, fatal_xid=None) == ""
    assert fault_of(ecc_uncorrected=1, fatal_xid=79) == (
        "XID 79: fell off the bus; 1 uncorrected memory error since the driver was loaded"
    )
    assert not {13, 31, 43, 45, 68, 94} & FATAL_XIDS.keys(), "faulty programs and contained errors break no card"


# -- MIG ---------------------------------------------------------------------------------------------


def divided() -> FakeGpu:
    small = FakeMig("MIG-s", number=7, memory_used=1_000_000_000)
    large = FakeMig("MIG-l", number=1, profile="4g.40gb", memory_total=40_000_000_000)
    return FakeGpu("GPU-a", migs=[small, None, large], gpm=True)


def test_mig_instances_are_devices_and_their_gpu_is_not() -> None:
    machine = Machine(divided(), FakeGpu("GPU-b"))
    small, large, whole = machine.read()
    assert (small.device_id, small.parent, small.index) == ("mig-s", "gpu-a", 0)
    assert small.name == "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    assert (small.memory_total, small.memory_used) == (10_000_000_000, 1_000_000_000)
    assert (large.device_id, large.memory_total) == ("mig-l", 40_000_000_000)
    assert (small.utilization, small.power_w) == (None, None), "of the card, not of its part"
    assert (whole.device_id, whole.parent) == ("gpu-b", None)


def test_a_divided_gpu_without_instances_offers_nothing() -> None:
    assert Machine(FakeGpu("GPU-a", migs=[None, None])).read() == ()


def test_a_fault_of_the_card_is_one_of_each_instance() -> None:
    card = divided()
    machine = Machine(card)
    machine.read()
    machine.nvml.strike(card, xid=48)
    assert [device.fault for device in machine.read()] == ["XID 48: double-bit memory error"] * 2
    card.is_lost = True
    assert [device.fault for device in machine.read()] == ["fell off the bus"] * 2


@pytest.mark.parametrize(
    ("visible", "seen"), [("MIG-l", ["mig-l"]), ("GPU-a", ["mig-s", "mig-l"]), ("0", ["mig-s", "mig-l"]), ("1", [])]
)
def test_an_instance_is_visible_when_it_or_its_gpu_is_named(visible: str, seen: list[str]) -> None:
    assert [device.device_id for device in Machine(divided(), visible=visible).read()] == seen


def test_cuda_is_shown_an_instance_by_its_mig_uuid() -> None:
    devices = tuple(
        DeviceAssignment(device_id=device_id, kind=DeviceKind.GPU, index=0) for device_id in ("mig-l", "gpu-b")
    )
    assert gpu_uuids(worker("w", devices=devices)) == ["MIG-l", "GPU-b"]


# -- counters and links --------------------------------------------------------------------------------


def test_use_of_multiprocessors_and_memory_comes_from_two_samples_where_the_card_counts_them() -> None:
    card = FakeGpu("GPU-a", gpm=True, sm_use=40.0, dram_use=80.0, memory_utilization=10)
    machine = Machine(card)
    [first] = machine.read()
    assert (first.sm_use, first.memory_bandwidth_use) == (None, 0.1), "one sample says nothing yet"
    [second] = machine.read()
    assert (second.sm_use, second.memory_bandwidth_use) == (0.4, 0.8)
    card.sm_use = 90.0
    assert machine.read(after_s=0.1)[0].sm_use == 0.4, "too short after the last look to say anything new"
    assert machine.read()[0].sm_use == 0.9


def test_each_instance_has_counters_of_its_own_which_go_with_it() -> None:
    card = divided()
    assert card.migs is not None
    machine = Machine(card)
    machine.read()
    card.migs[0].sm_use = 25.0  # type: ignore[union-attr]
    assert [device.sm_use for device in machine.read()] == [0.25, 0.0]
    held = machine.nvml.samples_alive
    card.migs[0] = None
    assert [device.device_id for device in machine.read()] == ["mig-l"]
    assert machine.nvml.samples_alive == held - 2


def test_gpus_joined_by_a_link_or_by_switches_are_peers() -> None:
    gpu, switch = pynvml.NVML_NVLINK_DEVICE_TYPE_GPU, pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
    a = FakeGpu("GPU-a", pci="00000000:1A:00.0", nvlinks=[(gpu, "00000000:1B:00.0"), None])
    b = FakeGpu("GPU-b", pci="00000000:1B:00.0", nvlinks=[(gpu, "00000000:1A:00.0")])
    c = FakeGpu("GPU-c", pci="00000000:1C:00.0", nvlinks=[(switch, "00000000:F0:00.0")])
    d = FakeGpu("GPU-d", pci="00000000:1D:00.0", nvlinks=[None, (switch, "00000000:F1:00.0")])
    e = FakeGpu("GPU-e", pci="00000000:1E:00.0")
    peers = {gpu.device_id: gpu.nvlink_peers for gpu in Machine(a, b, c, d, e).read()}
    assert peers == {
        "gpu-a": ("gpu-b",),
        "gpu-b": ("gpu-a",),
        "gpu-c": ("gpu-d",),
        "gpu-d": ("gpu-c",),
        "gpu-e": (),
    }


def test_links_are_looked_at_now_and_then_and_hidden_peers_are_not_told() -> None:
    gpu = pynvml.NVML_NVLINK_DEVICE_TYPE_GPU
    a = FakeGpu("GPU-a", pci="00000000:1A:00.0", nvlinks=[(gpu, "00000000:1B:00.0")])
    b = FakeGpu("GPU-b", pci="00000000:1B:00.0", nvlinks=[(gpu, "00000000:1A:00.0")])
    machine = Machine(a, b)
    machine.read()
    a.nvlinks, b.nvlinks = [None], [None]
    assert machine.read()[0].nvlink_peers == ("gpu-b",)
    assert machine.read(after_s=TOPOLOGY_S)[0].nvlink_peers == ()
    a.nvlinks = [(gpu, "00000000:1B:00.0")]
    assert Machine(a, b, visible="0").read()[0].nvlink_peers == ()
