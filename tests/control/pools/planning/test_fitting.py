"""Claims about what is told of memory before anything starts."""

from __future__ import annotations

from dataclasses import replace

from controlplane.pools.planning.fitting import memory_warnings
from controlplane.pools.planning.snapshot import Snapshot
from inference.contracts.states import DeviceKind
from tests.control.pools.planning.fleets import fleet, worker

GB = 10**9


def with_memory(state: Snapshot, memory: int | None, kind: DeviceKind = DeviceKind.CPU) -> Snapshot:
    return replace(state, devices=tuple(replace(each, kind=kind, memory_total=memory) for each in state.devices))


def warnings(*workers: str, memory: int | None, kind: DeviceKind = DeviceKind.CPU, **pool: int) -> list[str]:
    """When these start on an empty node of four devices with so much memory each."""
    before = with_memory(fleet(prefill=1, decode=1, pool=pool), memory, kind)
    after = with_memory(fleet(*(worker(name) for name in workers), prefill=1, decode=1, pool=pool), memory, kind)
    return memory_warnings(before, after)


def test_nothing_is_said_of_cpu_slots_while_the_model_or_the_machine_is_not_known() -> None:
    assert warnings("prefill-1", "decode-1", memory=GB) == []
    assert warnings("prefill-1", "decode-1", memory=None, bytes_shared=9 * GB) == []


def test_nothing_is_said_of_workers_that_fit_their_machine_though_not_their_share_of_it() -> None:
    assert warnings("prefill-1", "decode-1", memory=GB, bytes_shared=2 * GB) == []


def test_workers_that_may_need_more_than_their_machine_has_are_counted_by_node() -> None:
    assert warnings("prefill-1", "decode-1", memory=GB, bytes_shared=int(2.5 * GB)) == [
        "2 workers on a may come to need 5 GB of memory, and it has 4 GB. Fewer workers there, or a smaller kv_tokens, "
        "leave it room."
    ]


def test_a_node_on_which_nothing_starts_is_not_spoken_of() -> None:
    state = with_memory(fleet(worker("prefill-1"), worker("decode-1"), prefill=1, decode=1), GB)
    crowded = replace(state, pools=tuple(replace(pool, bytes_shared=9 * GB) for pool in state.pools))
    assert memory_warnings(crowded, crowded) == []


def test_on_gpus_it_is_said_what_can_not_be_checked_and_how_to_have_it_checked() -> None:
    gpus = DeviceKind.GPU
    assert warnings("prefill-1", "decode-1", memory=80 * GB, kind=gpus, bytes_needed=GB) == []
    assert warnings("decode-1", memory=80 * GB, kind=gpus) == [
        "Nobody can tell whether decode workers fit into the memory of their GPUs, since the model's size is not "
        "known. Fetch its weights to a node, or give its config.json, to have this checked."
    ]
