"""Claims about which devices the next worker gets."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.states import DeviceKind, PlacementStrategy, Role
from inference.planning.placement import Need, Placed, Placement, Slot, choose_kind

GPU, CPU = DeviceKind.GPU, DeviceKind.CPU
PREFILL = Need(pool="p", role=Role.PREFILL)
DECODE = Need(pool="d", role=Role.DECODE)
H100, H20 = "NVIDIA H100 80GB HBM3", "NVIDIA H20"


def slot(device: str, name: str = "", **more: object) -> Slot:
    """ "a/0" is device 0 of node a."""
    node, _, index = device.partition("/")
    return Slot(device=device, node=node, kind=GPU, index=int(index), name=name, **more)  # type: ignore[arg-type]


def slots(*devices: str) -> list[Slot]:
    return [slot(device) for device in devices]


def names(taken: tuple[Slot, ...] | None) -> tuple[str, ...] | None:
    return None if taken is None else tuple(each.device for each in taken)


# -- one device


def test_nothing_free_is_no_device() -> None:
    assert Placement([]).place(DECODE) is None


def test_a_device_is_given_once() -> None:
    placement = Placement(slots("a/0"))

    assert names(placement.place(DECODE)) == ("a/0",)
    assert placement.place(DECODE) is None
    assert placement.place(PREFILL) is None


def test_workers_of_one_pool_are_spread_over_nodes() -> None:
    placed = [Placed("d", Role.DECODE, "a")]
    placement = Placement(slots("a/0", "a/1", "b/0"), placed=placed, taken={"a": 1, "b": 2})

    assert names(placement.place(DECODE)) == ("b/0",)


def test_among_nodes_alike_for_the_pool_the_least_occupied_is_taken() -> None:
    assert names(Placement(slots("a/1", "b/0"), taken={"a": 1}).place(DECODE)) == ("b/0",)


def test_packed_workers_fill_a_node_before_they_use_the_next() -> None:
    packed = replace(DECODE, strategy=PlacementStrategy.PACK)
    placement = Placement(slots("a/0", "a/1", "a/2", "b/2", "b/3"))

    assert [names(placement.place(packed)) for _ in range(3)] == [("b/2",), ("b/3",), ("a/0",)]


def test_labels_must_all_match() -> None:
    placement = Placement([slot("a/0", labels=frozenset({"x"})), slot("b/0", labels=frozenset({"x", "y"}))])
    needy = replace(DECODE, labels=frozenset({"x", "y"}))

    assert names(placement.place(needy)) == ("b/0",)
    assert placement.place(needy) is None


def test_a_device_that_is_known_to_be_too_small_is_not_taken() -> None:
    placement = Placement([slot("a/0", memory=40), slot("b/0", memory=80), slot("c/0", memory=None)])
    needy = replace(DECODE, memory=80)

    assert [names(placement.place(needy)) for _ in range(3)] == [("b/0",), ("c/0",), None]


def test_devices_reserved_for_the_deployment_are_taken_first() -> None:
    assert names(Placement([slot("a/0"), slot("b/0", reserved=True)]).place(DECODE)) == ("b/0",)


# -- roles


def test_compute_goes_to_prefill_and_bandwidth_to_decode() -> None:
    placement = Placement([slot("a/0", H100), slot("b/0", H20)])

    assert names(placement.place(DECODE)) == ("b/0",)
    assert names(placement.place(PREFILL)) == ("a/0",)


def test_prefill_leaves_the_device_with_more_memory_to_decode_when_both_compute_alike() -> None:
    placement = Placement([slot("a/0", "NVIDIA H200"), slot("b/0", H100)])

    assert names(placement.place(PREFILL)) == ("b/0",)


def test_the_device_matters_more_than_the_way() -> None:
    placement = Placement([slot("a/1", H20), slot("b/0", H100)], placed=[Placed("d", Role.DECODE, "a")])

    assert names(placement.place(PREFILL)) == ("b/0",)


# -- pairs close to each other


def test_a_worker_goes_to_the_node_of_its_partner() -> None:
    placement = Placement(slots("a/0", "b/1"), placed=[Placed("p", Role.PREFILL, "b")])

    assert names(placement.place(DECODE)) == ("b/1",)


def test_else_to_a_node_at_the_same_switch_and_else_over_the_best_measured_link() -> None:
    free = slots("a/0", "b/0", "c/0", "d/0")
    placement = Placement(
        free,
        placed=[Placed("p", Role.PREFILL, "p")],
        switches={"p": "s1", "d": "s1", "a": "", "b": "s2", "c": ""},
        links={("p", "b"): 1e9, ("p", "c"): 5e9, ("c", "p"): 1.0, ("a", "p"): 9e9},
    )

    assert [names(placement.place(DECODE)) for _ in free] == [("d/0",), ("c/0",), ("b/0",), ("a/0",)]


def test_links_are_read_in_the_direction_in_which_kv_travels() -> None:
    placement = Placement(
        slots("a/0", "b/0"),
        placed=[Placed("d", Role.DECODE, "d")],
        links={("d", "a"): 9e9, ("a", "d"): 1e9, ("b", "d"): 2e9},
    )

    assert names(placement.place(PREFILL)) == ("b/0",)


def test_a_placed_worker_draws_its_partners_from_then_on() -> None:
    placement = Placement(slots("a/0", "b/0", "b/1"), taken={"a": 1}, switches={"a": "s", "b": "t"})
    assert placement.place(replace(PREFILL, labels=frozenset({"none"}))) is None

    assert names(placement.place(PREFILL)) == ("b/0",)
    assert names(placement.place(DECODE)) == ("b/1",)


# -- tensor-parallel groups


def test_a_group_is_on_one_node() -> None:
    placement = Placement(slots("a/0", "b/0", "b/1"))

    assert names(placement.place(replace(DECODE, devices=2))) == ("b/0", "b/1")
    assert placement.place(replace(DECODE, devices=2)) is None


def test_a_group_is_joined_by_nvlink_where_there_is_any() -> None:
    pairs = {"a/0": (), "a/1": ("a/3",), "a/2": (), "a/3": ("a/1",)}
    placement = Placement([slot(device, peers=frozenset(peers)) for device, peers in pairs.items()])

    assert names(placement.place(replace(DECODE, devices=2))) == ("a/1", "a/3")
    assert names(placement.place(replace(DECODE, devices=2))) == ("a/0", "a/2")


def test_a_node_with_nvlink_is_preferred_for_a_group() -> None:
    loose = slots("a/0", "a/1")
    joined = [slot("b/0", peers=frozenset({"b/1"})), slot("b/1", peers=frozenset({"b/0"}))]

    assert names(Placement([*loose, *joined]).place(replace(DECODE, devices=2))) == ("b/0", "b/1")


def test_a_group_is_of_one_model() -> None:
    assert Placement([slot("a/0", H100), slot("a/1", H20)]).place(replace(DECODE, devices=2)) is None


# -- always


@st.composite
def _fleets(draw: st.DrawFn) -> list[Slot]:
    return [
        slot(
            f"{node}/{index}",
            draw(st.sampled_from(["", H100, H20])),
            labels=draw(st.sampled_from([frozenset(), frozenset({"x"})])),
            memory=draw(st.sampled_from([None, 40, 80])),
        )
        for node in "abcd"
        for index in range(draw(st.integers(0, 3)))
    ]


_NEEDS = st.builds(
    Need,
    pool=st.just("pool"),
    role=st.sampled_from(Role),
    devices=st.integers(1, 2),
    labels=st.sampled_from([frozenset(), frozenset({"x"})]),
    memory=st.sampled_from([None, 80]),
    strategy=st.sampled_from(PlacementStrategy),
)


@given(_fleets(), st.lists(_NEEDS, min_size=1, max_size=8), st.integers(0, 99))
def test_the_order_of_the_devices_is_of_no_account(free: list[Slot], needs: list[Need], seed: int) -> None:
    shuffled = random.Random(seed).sample(free, len(free))
    placement, other = Placement(free), Placement(shuffled)

    assert [placement.place(need) for need in needs] == [other.place(need) for need in needs]


@given(_fleets(), st.lists(_NEEDS, min_size=1, max_size=12))
def test_what_the_heaps_give_is_what_a_fresh_look_at_everything_would_give(free: list[Slot], needs: list[Need]) -> None:
    """A placement keeps its heaps up to date as it goes; one made anew has nothing to keep."""
    placement = Placement(free, switches={"a": "s", "b": "s"}, links={("a", "c"): 1e9, ("c", "a"): 2e9})
    left, placed, taken = list(free), [], dict.fromkeys("abcd", 0)
    for need in needs:
        fresh = Placement(
            left, placed=placed, taken=taken, switches={"a": "s", "b": "s"}, links={("a", "c"): 1e9, ("c", "a"): 2e9}
        )
        slots_given = placement.place(need)
        assert slots_given == fresh.place(need)
        if slots_given:
            left = [each for each in left if each not in slots_given]
            placed.append(Placed(need.pool, need.role, slots_given[0].node))
            taken[slots_given[0].node] += len(slots_given)


# -- kinds


def test_a_new_deployment_takes_gpus_when_they_are_enough() -> None:
    assert choose_kind([], [GPU, GPU, CPU, CPU, CPU], 2) == GPU


def test_a_new_deployment_takes_cpu_slots_when_gpus_are_too_few_for_all_of_it() -> None:
    assert choose_kind([], [GPU, CPU, CPU], 2) == CPU


def test_a_deployment_stays_with_the_kind_it_holds() -> None:
    assert choose_kind([CPU], [GPU, GPU], 1) == CPU


def test_when_no_kind_is_enough_the_more_plentiful_is_named() -> None:
    assert choose_kind([], [GPU, CPU, CPU], 3) == CPU


def test_an_empty_fleet_has_no_kind() -> None:
    assert choose_kind([], [], 2) is None
