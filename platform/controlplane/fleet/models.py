"""What we own: nodes, their devices, and the network between them. Observed columns are written by the join and report
services only."""

from __future__ import annotations

import uuid

from django.db import models

from inference.contracts.states import DeviceKind, FetchState, NodeDesired, NodePhase


class Node(models.Model):
    """A machine with an agent.

    desired, cordon_reason, labels: what operators want of it. generation: desired, raised with each change of what the
    node shall run. observed_generation: what it applied.
    boot_id, sequence: order of reports without any clock; retired_boot_id: the boot before this one, whose late reports
    are ignored. last_report_at: arrival time by the control plane's clock; a node's own clock decides nothing.
    clock_offset_s: its clock minus ours when its last report arrived; shown only.
    observed_digest: of the last report without what is merely measured, so that an unchanged one costs next to nothing.
    measured_at: when what is measured of its devices was last written.
    report_interval_s: how often it was last told to report; None: before this was remembered.
    refused_spec: why it takes nothing of what it was last told; empty: it takes it.
    secured: it has used its node key, so its messages are taken with the right code only. scoped: whether its broker
    credentials reach its own queue only; None: they were handed out by an earlier release.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100, unique=True)
    desired = models.CharField(
        max_length=16, choices=[(value, value) for value in NodeDesired], default=NodeDesired.ACTIVE
    )
    cordon_reason = models.CharField(max_length=500, blank=True)
    labels = models.JSONField(default=list)
    generation = models.PositiveIntegerField(default=0)
    secured = models.BooleanField(default=False)
    scoped = models.BooleanField(null=True)
    report_interval_s = models.FloatField(null=True)
    joined_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True)

    # observed
    hostname = models.CharField(max_length=255)
    address = models.CharField(max_length=255)
    phase = models.CharField(max_length=16, choices=[(phase, phase) for phase in NodePhase], default=NodePhase.JOINING)
    agent_version = models.CharField(max_length=50, blank=True)
    cpu_cores = models.PositiveIntegerField(null=True)
    memory_total = models.BigIntegerField(null=True)
    memory_used = models.BigIntegerField(null=True)
    disk_total = models.BigIntegerField(null=True)
    disk_free = models.BigIntegerField(null=True)
    driver = models.CharField(max_length=100, blank=True)
    interfaces = models.JSONField(default=list)
    engines = models.JSONField(default=dict)
    clock_offset_s = models.FloatField(null=True)
    observed_generation = models.PositiveIntegerField(default=0)
    observed_digest = models.CharField(max_length=64, blank=True)
    refused_spec = models.TextField(blank=True)
    boot_id = models.CharField(max_length=64, blank=True)
    retired_boot_id = models.CharField(max_length=64, blank=True)
    sequence = models.PositiveBigIntegerField(default=0)
    last_report_at = models.DateTimeField(null=True)
    measured_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Device(models.Model):
    """One GPU, one part of a GPU (MIG), or one CPU slot. device_id is the node's own name for it.

    labels, maintenance, reserved_for (name of the only deployment that may have it): what operators want.
    missing: the node no longer reports it. The observed columns are the fields of `DeviceReport`.
    Who holds it is the row that another app may hang on it under the name `allocation`.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="devices")
    device_id = models.CharField(max_length=100)
    labels = models.JSONField(default=list)
    maintenance = models.BooleanField(default=False)
    maintenance_note = models.CharField(max_length=500, blank=True)
    reserved_for = models.CharField(max_length=100, blank=True)

    # observed
    kind = models.CharField(max_length=8, choices=[(kind, kind) for kind in DeviceKind])
    index = models.PositiveIntegerField()
    name = models.CharField(max_length=200)
    cores = models.TextField(blank=True, help_text="Processor cores of a CPU slot, comma separated.")
    parent = models.CharField(max_length=100, blank=True)
    pci = models.CharField(max_length=64, blank=True)
    nvlink_peers = models.JSONField(default=list)
    fault = models.TextField(blank=True)
    ecc_uncorrected = models.PositiveBigIntegerField(null=True)
    xid = models.IntegerField(null=True)
    memory_total = models.BigIntegerField(null=True)
    memory_used = models.BigIntegerField(null=True)
    memory_bandwidth_use = models.FloatField(null=True)
    utilization = models.FloatField(null=True)
    sm_use = models.FloatField(null=True)
    temperature_c = models.FloatField(null=True)
    power_w = models.FloatField(null=True)
    power_limit_w = models.FloatField(null=True)
    pcie_gen = models.PositiveIntegerField(null=True)
    pcie_width = models.PositiveIntegerField(null=True)
    missing = models.BooleanField(default=False)

    class Meta:
        ordering = ["node_id", "index", "id"]
        constraints = [
            models.UniqueConstraint(fields=["node", "device_id"], name="device_once_per_node"),
        ]

    def __str__(self) -> str:
        return self.device_id

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

    class Meta:
        ordering = ["-created_at", "-id"]


class NodeWeights(models.Model):
    """Weights of one model on one node. wanted, attempt: desired; see `WeightsSpec`. The rest: see `WeightsReport`.
    shape: `ModelShape` as JSON, read and written through that struct only."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="weights")
    path = models.CharField(max_length=500)
    revision = models.CharField(max_length=100, blank=True)
    wanted = models.BooleanField(default=False)
    attempt = models.PositiveIntegerField(default=0)

    # observed
    state = models.CharField(max_length=16, choices=[(state, state) for state in FetchState], default=FetchState.ABSENT)
    size_bytes = models.BigIntegerField(null=True)
    fetched_bytes = models.BigIntegerField(null=True)
    reason = models.TextField(blank=True)
    shape = models.JSONField(null=True)

    class Meta:
        ordering = ["node_id", "path", "revision"]
        constraints = [
            models.UniqueConstraint(fields=["node", "path", "revision"], name="weights_once_per_node"),
        ]


class Link(models.Model):
    """The network from one node to another as last measured. error: why the last measurement gave nothing; what an
    earlier one gave is then kept, with its time in measured_at."""

    source = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="links_out")
    target = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="links_in")
    bytes_per_s = models.FloatField(null=True)
    latency_s = models.FloatField(null=True)
    measured_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)

    class Meta:
        ordering = ["source__name", "target__name"]
        constraints = [
            models.UniqueConstraint(fields=["source", "target"], name="one_link_per_direction"),
        ]


class LinkMeasurement(models.Model):
    """A measurement that was asked for and has not ended; the row goes when it ends, and its result is the `Link`.

    started_at: None while it waits for both nodes to be free. peer_host, peer_port: where the target listens, as its
    report said.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    source = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    target = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    requested_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    peer_host = models.CharField(max_length=255, blank=True)
    peer_port = models.PositiveIntegerField(null=True)

    class Meta:
        ordering = ["requested_at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["source", "target"], name="one_measurement_per_direction"),
        ]


class Watch(models.Model):
    """One row: since when the sweep has been watching the nodes without a pause. A control plane that was away itself
    can't tell a silent node from its own deafness, so the silence of every node counts from here at the earliest.

    turn_at: when a sweep last began (`turns`)."""

    since = models.DateTimeField()
    swept_at = models.DateTimeField()
    turn_at = models.DateTimeField(null=True)
