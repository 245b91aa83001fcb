"""Nodes, devices and the network between them."""

from __future__ import annotations

import pytest

from controlplane.fleet.models import Device, Node
from controlplane.operations.models import Operation
from tests.control.cli.conftest import Tandem
from tests.control.pools.world import World

pytestmark = pytest.mark.django_db(transaction=True)


def test_nodes_are_listed_and_shown(chat: World, tandem: Tandem) -> None:
    assert tandem.ok("nodes list -q").split() == ["a", "b"]
    assert tandem.ok("nodes list --phase lost") == ""
    header, *rows = tandem.ok("nodes list").splitlines()
    assert all("4 x slot" in row for row in rows)
    assert header.split()[-1] == "WARNINGS"
    assert not any(row.rstrip().endswith(" 0") for row in rows), "no warnings are not worth a number"
    said = tandem.ok("nodes show a")
    assert "a/cpu-0" in said
    assert "Did you mean" not in tandem.refused("nodes show zzz", 4)


def test_a_node_is_cordoned_uncordoned_and_drained_by_its_name(chat: World, tandem: Tandem) -> None:
    tandem.ok("nodes cordon a --reason 'new driver' --wait")
    assert "cordoned: new driver" in tandem.ok("nodes show a")
    tandem.ok("nodes uncordon a")
    assert "Moments" in tandem.ok("nodes drain a --dry-run") or tandem.json("nodes drain a --dry-run")["operation"]
    tandem.ok("nodes drain a --wait --timeout 10m")
    assert tandem.json("nodes show a")["workers"] == 0


def test_a_node_is_retired(chat: World, tandem: Tandem) -> None:
    tandem.ok("nodes retire b --yes --reason sold --dry-run")
    assert Node.objects.get(name="b").desired == "active"
    tandem.ok("nodes retire b --yes --reason sold")
    assert Node.objects.get(name="b").desired == "retired"


def test_labels_of_a_node_are_changed_one_by_one(chat: World, tandem: Tandem) -> None:
    tandem.ok("nodes label a rack=r7 fast")
    assert tandem.ok("nodes label a rack=r8 fast-") == "a: rack=r8.\n"
    assert tandem.ok("nodes list --label rack=r8 -q") == "a\n"
    assert tandem("nodes label a other --dry-run").stderr == "Dry run: nothing was done.\n"
    assert Node.objects.get(name="a").labels == ["rack=r8"]


def test_a_join_command_is_shown_once_listed_and_revoked(world: World, tandem: Tandem) -> None:
    command = tandem.ok("nodes join-command --note 'rack 7' --ttl 1h -q").strip()
    assert "tandem-join-" in command
    assert "rack 7" in tandem.ok("nodes join-tokens")
    tandem.ok(f"nodes revoke-join {tandem.ok('nodes join-tokens -q').strip()}")
    assert tandem.json("nodes join-tokens")["items"] == []


def test_devices_are_listed_labelled_reserved_and_taken_out_of_use(chat: World, tandem: Tandem) -> None:
    assert len(tandem.ok("devices list -q").split()) == 8
    assert len(tandem.ok("devices list --free -q").split()) == 5
    assert tandem.ok("devices label a/cpu-3 fast switch=s1") == "a/cpu-3: fast, switch=s1.\n"
    assert "maintenance: fan" in tandem.ok("devices maintain a/cpu-3 --note fan")
    assert tandem.ok("devices maintain a/cpu-3 --end") == "a/cpu-3: ok.\n"
    assert "reserved for m" in tandem.ok("devices reserve a/cpu-3 m")
    tandem.ok("devices reserve a/cpu-3 --end")
    assert "Condition" in tandem.ok("devices show a/cpu-3")
    assert "like node-1/gpu-0" in tandem.refused("devices show cpu-3", 2)


def test_only_a_device_that_is_gone_is_forgotten(chat: World, tandem: Tandem) -> None:
    assert tandem.refused("devices forget a/cpu-3", 5)
    tandem.ok("devices label a/cpu-3 fast")
    gone = Device.objects.get(node__name="a", device_id="cpu-3")
    Device.objects.filter(pk=gone.pk).update(missing=True)
    tandem.ok("devices forget a/cpu-3")
    assert not Device.objects.filter(pk=gone.pk).exists()


def test_the_network_is_measured_between_nodes_by_name(chat: World, tandem: Tandem) -> None:
    tandem.ok("links measure a b --reason 'new switch'")
    operation = Operation.objects.get(kind="measure_network")
    assert (operation.reason, len(operation.request["node_ids"])) == ("new switch", 2)
    assert "operations" not in tandem.ok("links show")
    assert tandem.refused("links measure", 2)
    assert "There is no node 'c'" in tandem.refused("links measure a c", 4)
