"""Claims about what people are told before an operation begins."""

from __future__ import annotations

from dataclasses import replace
from time import process_time

from controlplane.pools.planning.plan import plan
from controlplane.pools.planning.preview import preview, preview_of_restart
from controlplane.pools.planning.snapshot import DeviceSeen, NodeSeen, PoolSeen, Snapshot
from inference.contracts.states import DeviceKind, NodeDesired, NodePhase, Role, WorkerDesired, WorkerPhase
from inference.contracts.views.operations import PreviewMoment
from tests.control.pools.planning.fleets import fleet, worker

#: So that no preview warns of what is not known.
KNOWN = {"bytes_needed": 500_000_000}


def one_p_three_d(*, prefill: int = 3, decode: int = 1, **more: object) -> Snapshot:
    workers = [worker("prefill-1"), *(worker(f"decode-{number}") for number in (1, 2, 3))]
    return fleet(*workers, prefill=prefill, decode=decode, **{"pool": KNOWN, **more})


def test_nothing_to_do_is_one_moment() -> None:
    told = preview(one_p_three_d(prefill=1, decode=3))

    assert (told.start, told.stop, told.flip, told.warnings, told.refusals) == ((), (), (), (), ())
    assert told.moments == (PreviewMoment(text="now", devices=4, prefill=1, decode=3),)
    assert (told.devices_max, told.budget) == (4, 4)


def test_a_trade_by_flips() -> None:
    told = preview(one_p_three_d(can_flip=True))

    assert told.flip == ("decode-1 on a cpu-1: decode to prefill", "decode-2 on a cpu-2: decode to prefill")
    assert told.start == told.stop == ()
    assert told.moments == (
        PreviewMoment(text="now", devices=4, prefill=1, decode=3),
        PreviewMoment(text="flip decode-1 and decode-2", devices=4, prefill=1, decode=1),
        PreviewMoment(text="decode-1 and decode-2 ready", devices=4, prefill=3, decode=1),
    )


def test_a_trade_by_release_and_start() -> None:
    told = preview(one_p_three_d(slots=6, budget=4))

    assert told.stop == ("decode-1 on a cpu-1", "decode-2 on a cpu-2")
    assert told.start == ("prefill-2 on a cpu-1", "prefill-3 on a cpu-2")
    assert [moment.text for moment in told.moments] == [
        "now",
        "drain decode-1 and decode-2",
        "decode-1 and decode-2 gone",
        "let go of decode-1 and decode-2, start prefill-2 and prefill-3",
        "prefill-2 and prefill-3 ready",
    ]
    assert (told.devices_max, told.budget) == (4, 4)


def test_a_drain_that_is_cancelled_is_a_start() -> None:
    draining = worker("decode-1", WorkerPhase.DRAINING, desired=WorkerDesired.DRAIN)

    assert preview(fleet(draining, decode=1, pool=KNOWN)).start == ("decode-1 on a cpu-0, whose drain is cancelled",)


def test_many_workers_are_counted_in_moments_and_listed_beside_them() -> None:
    told = preview(fleet(decode=4, pool=KNOWN))

    assert [moment.text for moment in told.moments] == ["now", "start 4 workers", "4 workers ready"]
    assert told.start[0] == "decode-1 on a cpu-0"
    assert (told.devices_max, told.budget) == (4, 4)


def test_what_can_not_be_done_is_refused() -> None:
    told = preview(fleet(decode=5, pool=KNOWN))

    assert len(told.start) == 4
    assert told.refusals == ("decode needs 1 free CPU slot of at least 0.5 GB: 4 CPU slots, all taken",)


def test_a_time_without_service_is_told_first() -> None:
    full = fleet(worker("prefill-1"), worker("decode-1"), prefill=1, decode=1, slots=2, pool=KNOWN, candidate=2)
    told = preview(replace(full, candidate_share=1.0))

    assert told.warnings == (
        "Nothing serves between “drain prefill-1 and decode-1” and “prefill-1 and decode-1 ready”.",
    )
    assert told.refusals == ()


def test_prefill_and_decode_of_unlike_revisions_are_no_service() -> None:
    """One spare device: prefill of revision 2 is up, decode of revision 1 still is, and they can't pair."""
    full = fleet(worker("prefill-1"), worker("decode-1"), prefill=1, decode=1, slots=3, pool=KNOWN, candidate=2)
    told = preview(replace(full, candidate_share=1.0))

    assert all(moment.prefill for moment in told.moments)
    assert len(told.warnings) == 1
    assert told.warnings[0].startswith("Nothing serves between")


def test_draining_the_only_node_ends_the_service() -> None:
    told = preview(fleet(worker("decode-1"), decode=1, pool=KNOWN, desired={"a": NodeDesired.DRAINING}))

    assert told.warnings == ("Nothing serves after “drain decode-1”.",)
    assert told.refusals == ("decode needs 1 free device of at least 0.5 GB: 4 devices, 4 on nodes being drained",)


def test_deleting_warns_of_nothing_and_ends_with_nothing() -> None:
    told = preview(one_p_three_d(deleting=True))

    assert told.warnings == told.refusals == ()
    assert len(told.stop) == 4
    assert (told.moments[-1].devices, told.moments[-1].prefill, told.moments[-1].decode) == (0, 0, 0)


def test_a_fit_that_can_not_be_checked_is_said() -> None:
    gpus = tuple(replace(each, kind=DeviceKind.GPU) for each in fleet(decode=1).devices)
    (said,) = preview(fleet(decode=1, devices=gpus)).warnings
    assert said.startswith("Nobody can tell whether decode workers fit into the memory of their GPUs")
    assert preview(fleet(decode=1)).warnings == (), "CPU slots share the memory of their machine"


def test_a_resize_that_leaves_one_pair_says_which_revision_it_runs() -> None:
    pairs = [worker(f"{role}-{number}", revision=number) for role in ("prefill", "decode") for number in (1, 2)]
    told = preview(fleet(*pairs, prefill=1, decode=1, pool=KNOWN, candidate=2, candidate_share=0.5))

    assert set(told.stop) == {"prefill-2 on a cpu-1", "decode-2 on a cpu-3"}
    assert told.warnings == (
        "There is one pair only, which stays at revision 1. Revision 2 takes all requests at the last step of its "
        "roll-out, without having been tried on some of them.",
    )


def test_what_a_silent_node_runs_leaves_only_when_it_is_heard_again() -> None:
    away = worker("decode-1", WorkerPhase.UNKNOWN, desired=WorkerDesired.DRAIN)
    told = preview(fleet(away, decode=0, lost=("a",)))

    assert told.warnings == ("decode-1 leaves only when a is heard again.",)


def test_a_restart_takes_its_worker_away_and_brings_it_back_on_its_devices() -> None:
    told = preview_of_restart(one_p_three_d(prefill=1, decode=3), "decode-2", drains=True)

    assert (told.stop, told.start, told.warnings) == (("decode-2 on a cpu-2",), ("decode-2 on a cpu-2",), ())
    assert told.moments == (
        PreviewMoment(text="now", devices=4, prefill=1, decode=3),
        PreviewMoment(text="drain decode-2", devices=4, prefill=1, decode=2),
        PreviewMoment(text="decode-2 ready", devices=4, prefill=1, decode=3),
    )


def test_a_restart_of_the_only_worker_of_its_role_says_that_nothing_serves_meanwhile() -> None:
    told = preview_of_restart(one_p_three_d(prefill=1, decode=3), "prefill-1", drains=True)

    assert told.warnings == ("Nothing serves between “drain prefill-1” and “prefill-1 ready”.",)


def test_a_restart_of_what_failed_stops_nothing() -> None:
    state = fleet(worker("decode-1", WorkerPhase.FAILED), decode=1, pool=KNOWN)
    told = preview_of_restart(state, "decode-1", drains=False)

    assert (told.stop, told.start) == ((), ("decode-1 on a cpu-0",))
    assert [(moment.text, moment.decode) for moment in told.moments] == [
        ("now", 0),
        ("start decode-1", 0),
        ("decode-1 ready", 1),
    ]


def test_the_course_of_a_large_rollout_ends() -> None:
    workers = [worker(f"{role}-{number}") for role in ("prefill", "decode") for number in range(30)]
    told = preview(fleet(*workers, prefill=30, decode=30, slots=60, pool=KNOWN, candidate=2, candidate_share=1.0))

    assert (len(told.start), len(told.stop), told.devices_max) == (60, 60, 60)
    assert told.warnings == told.refusals == ()


def test_a_plan_for_200_workers_on_8000_devices_takes_a_fraction_of_a_second() -> None:
    """Generous, since the machine may be busy: a plan whose work grew with workers times devices would take seconds."""
    nodes = {
        f"n{number:04}": NodeSeen(f"n{number:04}", NodePhase.READY, switch=f"s{number // 32}") for number in range(1000)
    }
    devices = tuple(
        DeviceSeen(f"{node}/{index}", node, DeviceKind.GPU, index, False, None, False)
        for node in nodes
        for index in range(8)
    )
    pools = tuple(PoolSeen(role, role, replicas) for role, replicas in ((Role.PREFILL, 50), (Role.DECODE, 150)))
    state = Snapshot(deleting=False, pools=pools, workers=(), nodes=nodes, devices=devices)

    began = process_time()
    made = plan(state)
    spent = process_time() - began

    assert len(made.start) == 200
    assert len({start.devices for start in made.start}) == 200
    assert spent < 0.75
