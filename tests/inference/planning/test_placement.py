"""Claims about which device the next worker gets."""

from __future__ import annotations

from inference.contracts.states import DeviceKind
from inference.planning.placement import Slot, choose_kind, choose_slot

GPU, CPU = DeviceKind.GPU, DeviceKind.CPU


def slot(name: str, kind: DeviceKind = GPU) -> Slot:
    node, _, index = name.partition("/")
    return Slot(device=name, node=node, kind=kind, index=int(index))


def test_nothing_free_is_no_slot() -> None:
    assert choose_slot([], {}, {}) is None


def test_workers_of_one_pool_are_spread_over_nodes() -> None:
    free = [slot("a/0"), slot("a/1"), slot("b/0")]

    assert choose_slot(free, {"a": 1}, {"a": 1, "b": 2}) == slot("b/0")


def test_among_nodes_alike_for_the_pool_the_least_occupied_is_taken() -> None:
    free = [slot("a/1"), slot("b/0")]

    assert choose_slot(free, {}, {"a": 1}) == slot("b/0")


def test_equal_nodes_are_taken_by_name_and_index_whatever_the_order() -> None:
    free = [slot("b/0"), slot("a/1"), slot("a/0")]

    assert choose_slot(free, {}, {}) == choose_slot(reversed(free), {}, {}) == slot("a/0")


def test_a_new_deployment_takes_gpus_when_they_are_enough() -> None:
    free = [slot("a/0"), slot("a/1"), slot("b/0", CPU), slot("b/1", CPU), slot("b/2", CPU)]

    assert choose_kind([], free, 2) == GPU


def test_a_new_deployment_takes_cpu_slots_when_gpus_are_too_few_for_all_of_it() -> None:
    free = [slot("a/0"), slot("b/0", CPU), slot("b/1", CPU)]

    assert choose_kind([], free, 2) == CPU


def test_a_deployment_stays_with_the_kind_it_holds() -> None:
    assert choose_kind([CPU], [slot("a/0"), slot("a/1")], 1) == CPU


def test_when_no_kind_is_enough_the_more_plentiful_is_named() -> None:
    free = [slot("a/0"), slot("b/0", CPU), slot("b/1", CPU)]

    assert choose_kind([], free, 3) == CPU


def test_an_empty_fleet_has_no_kind() -> None:
    assert choose_kind([], [], 2) is None
