"""Pools, deployments, workers: what starts and stops, tried, followed, refused."""

from __future__ import annotations

import msgspec
import pytest
import redis

from controlplane.fleet.models import Node
from controlplane.operations.ending import operation_finish
from controlplane.operations.models import Operation
from controlplane.pools.models import Pool
from inference.cli import waiting
from inference.contracts.reports import LogReply, WorkerLoad
from inference.contracts.states import LogRun, OperationState, WorkerPhase
from tests.control.cli.conftest import Tandem, turn
from tests.control.conftest import Outbox
from tests.control.pools.answering import answering
from tests.control.pools.world import World

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_pool_is_resized_and_followed_to_its_end(chat: World, tandem: Tandem) -> None:
    told = tandem("pools resize m --decode 3 --reason 'evening peak' --wait")

    assert told.exit_code == 0, told.output
    assert told.stdout.startswith("Succeeded: ")
    assert "✓" in told.stderr
    operation = Operation.objects.get(kind="resize")
    assert (operation.state, operation.reason, operation.requested_by) == ("succeeded", "evening peak", "token cli")
    assert tandem.json("pools show m/decode")["ready"] == 3


def test_a_trial_shows_the_moments_and_does_nothing(chat: World, tandem: Tandem) -> None:
    told = tandem("pools resize m --decode 3 --dry-run")

    assert told.exit_code == 0
    assert "WHAT HAPPENS" in told.stdout
    assert "DEVICES" in told.stdout
    assert "Dry run: nothing was done." in told.stderr
    assert not Operation.objects.filter(kind="resize").exists()
    assert Pool.objects.get(role="decode").replicas == 2


def test_a_trial_as_json_is_the_answer_of_the_api(chat: World, tandem: Tandem) -> None:
    answer = tandem.json("pools resize m --decode 3 --dry-run")
    assert answer["operation"]["preview"]["devices_max"] == 4


def test_who_waits_for_an_operation_that_fails_gets_1(
    chat: World, tandem: Tandem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: float) -> None:
        operation_finish(Operation.objects.get(kind="resize"), OperationState.FAILED, "No room was found.")

    monkeypatch.setattr(waiting, "sleep_for", fail)
    told = tandem("pools resize m --decode 3 --wait")
    assert (told.exit_code, told.stdout) == (1, "Failed: No room was found.\n")


def test_who_waits_too_long_gets_7_and_it_goes_on(chat: World, tandem: Tandem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "sleep_for", lambda _: None)
    said = tandem("pools resize m --decode 3 --wait --timeout 0.3")
    assert said.exit_code == 7
    assert "it goes on" in said.stderr
    assert Operation.objects.get(kind="resize").state == OperationState.RUNNING


def test_without_waiting_one_is_told_how_to_follow(chat: World, tandem: Tandem) -> None:
    said = tandem.ok("pools resize m --decode 3")
    operation = Operation.objects.get(kind="resize")
    assert f"tandem operations watch {operation.pk}" in said
    assert tandem.ok("pools resize m --decode 4 -q").strip() == str(Operation.objects.filter(kind="resize").first().pk)


def test_what_is_so_already_is_no_operation(chat: World, tandem: Tandem) -> None:
    assert tandem.ok("pools resize m --decode 2 --wait") == "Nothing to do: it is so already.\n"


def test_two_pools_at_once_are_a_rebalance(chat: World, tandem: Tandem) -> None:
    assert "deployments rebalance m" in tandem.refused("pools resize m --decode 1 --prefill 2", 2)
    assert "which pool" in tandem.refused("pools resize m", 2)


def test_more_than_there_is_room_for_is_refused_in_the_words_of_the_api(chat: World, tandem: Tandem) -> None:
    said = tandem.refused("pools resize m --decode 50", 2)
    assert said.startswith("tandem: ")
    assert "50" in said


def test_a_pool_that_is_not_there(chat: World, tandem: Tandem) -> None:
    assert "There is no pool 'unified'" in tandem.refused("pools resize m --unified 1", 4)
    assert "There is no deployment 'x'" in tandem.refused("pools show x/decode", 4)
    assert "Which pool of m" in tandem.refused("pools show m", 2)


def test_pools_are_listed_and_shown(chat: World, tandem: Tandem) -> None:
    assert set(tandem.ok("pools list -q").split()) == {"m/decode", "m/prefill"}
    assert "2/2" in tandem.ok("pools list")
    assert "m/decode-1" in tandem.ok("pools show m/decode")


def test_limits_and_labels_of_a_pool_are_changed(chat: World, tandem: Tandem) -> None:
    assert "1 to 3 workers, pack, labels fast" in tandem.ok(
        "pools change m/decode --min 1 --max 3 --strategy pack --label fast --reason why"
    )
    assert tandem.json("pools show m/decode")["max_replicas"] == 3
    assert tandem.ok("pools change m/decode --no-labels").endswith("labels any.\n")
    assert "Say what is to change" in tandem.refused("pools change m/decode", 2)


def test_what_another_operation_holds_is_refused_or_queued(chat: World, tandem: Tandem) -> None:
    tandem.ok("deployments change m --route handoff_failure=recompute_on_decode --route idle_s=20")
    tandem.ok("deployments change m --route idle_s=none --route local_prefill_auto=true")
    routing = tandem.json("deployments show m")["routing"]
    assert routing["handoff_failure"] == "recompute_on_decode"
    assert (routing["idle_s"], routing["local_prefill_auto"]) == (None, True)
    tandem.ok("deployments rebalance m --prefill 2 --decode 1")
    first = str(Operation.objects.get(kind="rebalance").pk)
    assert first in tandem.refused("workers flip m/decode-2", 5)
    queued = tandem.json("workers flip m/decode-2 --queue")["operation"]
    assert (queued["state"], queued["queued_behind"]) == ("queued", [first])
    tandem(f"operations watch {queued['id'][:8]}")
    assert Operation.objects.get(pk=queued["id"]).finished_at is not None


def test_a_deployment_from_its_beginning_to_its_end(world: World, tandem: Tandem) -> None:
    world.node("a")
    made = "deployments create m --model tiny --prefill 1 --decode 2 --set kv_tokens=4096 --slo-ttft 0.5"
    assert "WHAT HAPPENS" in tandem.ok(f"{made} --dry-run")
    assert tandem.json("deployments list")["items"] == []
    tandem.ok(f"{made} --wait")
    shown = tandem.json("deployments show m")
    assert (shown["settings"]["kv_tokens"], shown["slo_ttft_s"]) == (4096, 0.5)
    assert "TTFT 0.5 s" in tandem.ok("deployments show m")
    assert tandem.ok("deployments list -q") == "m\n"

    assert "promises nothing" in tandem.ok("deployments change m --no-slo")
    tandem.ok("deployments rebalance m --prefill 2 --decode 1 --wait")
    assert {pool["role"]: pool["ready"] for pool in tandem.json("deployments show m")["pools"]} == {
        "prefill": 2,
        "decode": 1,
    }
    tandem.ok("deployments delete m --reason 'done with it' --wait")
    assert tandem.json("deployments list")["items"] == []


def test_a_revision_is_rolled_out_paused_and_rolled_back(chat: World, tandem: Tandem) -> None:
    assert "Say what is to change" in tandem.refused("deployments rollout m", 2)
    tandem.ok("deployments rollout m --set kv_tokens=4096 --note 'less room' --observe 5 --step 50")
    assert tandem.json("deployments show m")["rollout"]["candidate"] == 2
    assert "paused" in tandem.ok("deployments pause m")
    assert "to revision 2, paused" in tandem.ok("deployments show m")
    assert "goes on" in tandem.ok("deployments resume m")
    assert "less room" in tandem.ok("deployments revisions m")
    tandem.ok("deployments rollback m --wait")
    assert tandem.json("deployments show m")["rollout"] is None
    assert tandem.refused("deployments pause m", 5)


def test_a_worker_is_flipped_and_restarted_by_its_name(chat: World, tandem: Tandem) -> None:
    tandem.ok("workers flip decode-2 --wait")
    assert {worker["role"] for pool in tandem.json("deployments show m")["pools"] for worker in pool["workers"]} == {
        "prefill",
        "decode",
    }
    tandem.ok("workers restart m/decode-1 --wait")
    assert "m/decode-1" in tandem.ok("workers list --deployment m --node a") + tandem.ok("workers list --node b")
    assert "There is no worker 'decode-9'" in tandem.refused("workers show m/decode-9", 4)


def test_a_worker_is_shown_with_what_it_does(chat: World, tandem: Tandem) -> None:
    load = WorkerLoad(running=2, waiting=1, waiting_tokens=700, kv_blocks_used=5, kv_blocks_total=10, tickets=1)
    chat.process("decode-1").load = msgspec.structs.replace(load, kv_bytes_received=2048)
    chat.report()
    said = {" ".join(line.split()) for line in tandem.ok("workers show m/decode-1").splitlines()}
    assert {"Waiting tokens 700", "Reserved for 1 request", "KV received 2.0 KiB", "KV sent 0 B"} <= said


def test_a_worker_is_shown_with_why_it_does_not_run(chat: World, tandem: Tandem) -> None:
    process = chat.process("decode-1")
    process.phase, process.reason, process.log_tail = WorkerPhase.FAILED, "out of memory", ("the last line",)
    chat.report()
    said = tandem.ok("workers show m/decode-1")
    assert "out of memory" in said
    assert "the last line" in said
    assert "m/decode-1 is failed: out of memory" in tandem.ok("status")


def test_a_log_is_asked_of_its_node_and_printed(
    chat: World, tandem: Tandem, outbox: Outbox, live_redis: redis.Redis
) -> None:
    Node.objects.update(secured=True)
    with answering(live_redis, outbox, LogReply(lines=("loading", "ready"))) as asked:
        assert tandem.ok("workers logs m/decode-1 -n 2 --previous") == "loading\nready\n"
        assert tandem.json("workers logs m/decode-1")["lines"] == ["loading", "ready"]

    worker_id = str(chat.worker("decode-1").pk)
    assert [(each.worker_id, each.run, each.lines) for each in asked] == [
        (worker_id, LogRun.PREVIOUS, 2),
        (worker_id, LogRun.CURRENT, 200),
    ]


def test_a_log_that_can_not_be_had_is_told_in_the_words_of_the_api(chat: World, tandem: Tandem) -> None:
    """Redis, over which logs travel, is away in this test."""
    said = tandem("workers logs m/decode-1 -n 5")
    assert said.exit_code in (5, 6)
    assert said.stderr.startswith("tandem: ")


def test_status_shows_everything_on_one_screen(chat: World, tandem: Tandem) -> None:
    tandem.ok("pools resize m --decode 3")
    said = tandem.ok("status")
    assert "decode 2/3" in said
    assert "2 nodes (2 ready); 8 devices:" in said
    assert "Under way" in said
    assert len(said.splitlines()) < 24
    Node.objects.filter(name="b").update(desired="retired")
    assert "1 node (1 ready); 4 devices:" in tandem.ok("status")
    turn(chat)
    assert set(tandem.json("status")) == {"deployments", "nodes", "operations"}
