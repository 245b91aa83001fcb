"""What we own: nodes and their devices. Observed columns are written by the join and report services only."""

from __future__ import annotations

import uuid

from django.db import models

from inference.contracts.states import DeviceKind, NodePhase


class Node(models.Model):
    """A machine with an agent.

    generation: desired, raised with each change of what the node shall run. observed_generation: what it applied.
    boot_id, sequence: order of reports without any clock; retired_boot_id: the boot before this one, whose late reports
    are ignored. last_report_at: arrival time by the control plane's clock; a node's own clock is never read.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100, unique=True)
    hostname = models.CharField(max_length=255)
    address = models.CharField(max_length=255)
    phase = models.CharField(max_length=16, choices=[(phase, phase) for phase in NodePhase], default=NodePhase.JOINING)
    agent_version = models.CharField(max_length=50, blank=True)
    cpu_cores = models.PositiveIntegerField(null=True)
    memory_total = models.BigIntegerField(null=True)
    memory_used = models.BigIntegerField(null=True)
    generation = models.PositiveIntegerField(default=0)
    observed_generation = models.PositiveIntegerField(default=0)
    boot_id = models.CharField(max_length=64, blank=True)
    retired_boot_id = models.CharField(max_length=64, blank=True)
    sequence = models.PositiveBigIntegerField(default=0)
    joined_at = models.DateTimeField()
    last_report_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Device(models.Model):
    """One GPU or CPU slot. device_id is the node's own name for it. missing: the node no longer reports it.

    Who holds it is the row that another app may hang on it under the name `allocation`.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="devices")
    device_id = models.CharField(max_length=100)
    kind = models.CharField(max_length=8, choices=[(kind, kind) for kind in DeviceKind])
    index = models.PositiveIntegerField()
    name = models.CharField(max_length=200)
    cores = models.TextField(blank=True, help_text="Processor cores of a CPU slot, comma separated.")
    memory_total = models.BigIntegerField(null=True)
    memory_used = models.BigIntegerField(null=True)
    utilization = models.FloatField(null=True)
    temperature_c = models.FloatField(null=True)
    power_w = models.FloatField(null=True)
    missing = models.BooleanField(default=False)

    class Meta:
        ordering = ["node_id", "index"]
        constraints = [
            models.UniqueConstraint(fields=["node", "device_id"], name="device_once_per_node"),
        ]

    @property
    def core_numbers(self) -> tuple[int, ...]:
        return tuple(int(core) for core in self.cores.split(",") if core)


class JoinToken(models.Model):
    """Lets one node join, once. digest: SHA-256 of the token in hex."""

    digest = models.CharField(max_length=64, unique=True)
    note = models.CharField(max_length=200, blank=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    node = models.ForeignKey(Node, null=True, on_delete=models.SET_NULL, related_name="join_tokens")


class Watch(models.Model):
    """One row: since when the sweep has been watching the nodes without a pause. A control plane that was away itself
    can't tell a silent node from its own deafness, so the silence of every node counts from here at the earliest."""

    since = models.DateTimeField()
    swept_at = models.DateTimeField()
