"""What should run (written by services) and what is seen to run (written from node reports)."""

from __future__ import annotations

import uuid

import msgspec
from django.db import models

from controlplane.catalog.models import Model
from controlplane.fleet.models import Device, Node
from inference.contracts.reports import WorkerLoad
from inference.contracts.specs import EngineSettings
from inference.contracts.states import Role, WorkerDesired, WorkerPhase


class Deployment(models.Model):
    """One served model: a prefill pool and a decode pool, or a unified pool.

    settings: `EngineSettings` as JSON, read and written through that struct only. deleting: asked to go; the row is
    removed when its last worker is gone.
    """

    name = models.CharField(max_length=100, unique=True)
    model = models.ForeignKey(Model, on_delete=models.PROTECT, related_name="deployments")
    settings = models.JSONField(default=dict)
    local_prefill_tokens = models.PositiveIntegerField(default=64)
    default_max_tokens = models.PositiveIntegerField(default=512)
    created_at = models.DateTimeField()
    deleting = models.BooleanField(default=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def engine_settings(self) -> EngineSettings:
        return msgspec.convert(self.settings, EngineSettings)


class Pool(models.Model):
    """The workers of one role. generation is raised by each change; an edit names the one it saw.

    refusals: why the last plan could not place what is wanted, one sentence a line (written by reconcile).
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="pools")
    role = models.CharField(max_length=16, choices=[(role, role) for role in Role])
    replicas = models.PositiveIntegerField()
    min_replicas = models.PositiveIntegerField(default=0)
    max_replicas = models.PositiveIntegerField(default=64)
    generation = models.PositiveIntegerField(default=1)
    refusals = models.TextField(blank=True)

    class Meta:
        ordering = ["deployment_id", "-role"]
        constraints = [
            models.UniqueConstraint(fields=["deployment", "role"], name="one_pool_per_role"),
            models.CheckConstraint(
                name="replicas_within_policy",
                condition=models.Q(replicas__gte=models.F("min_replicas"))
                & models.Q(replicas__lte=models.F("max_replicas")),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.deployment}/{self.role}"


class Worker(models.Model):
    """One engine process, wanted (desired, incarnation, restart) and seen (everything under "observed").

    name: short and stable for people ("decode-3"). Rows of stopped workers are removed once their node confirms it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="workers")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="workers")
    incarnation = models.UUIDField(default=uuid.uuid4)
    desired = models.CharField(
        max_length=8, choices=[(value, value) for value in WorkerDesired], default=WorkerDesired.RUN
    )
    restart = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()

    # observed
    phase = models.CharField(
        max_length=16, choices=[(phase, phase) for phase in WorkerPhase], default=WorkerPhase.ASSIGNED
    )
    phase_since = models.DateTimeField()
    reason = models.TextField(blank=True)
    attempts = models.PositiveIntegerField(default=0)
    next_start_s = models.FloatField(null=True)
    drain_left_s = models.FloatField(null=True)
    http_host = models.CharField(max_length=255, blank=True)
    http_port = models.PositiveIntegerField(null=True)
    transfer_host = models.CharField(max_length=255, blank=True)
    transfer_port = models.PositiveIntegerField(null=True)
    fingerprint = models.CharField(max_length=128, blank=True)
    context_length = models.PositiveIntegerField(null=True)
    load = models.JSONField(null=True, help_text="`WorkerLoad`; null: not known.")
    log_tail = models.TextField(blank=True)

    class Meta:
        ordering = ["created_at"]
        constraints = [models.UniqueConstraint(fields=["pool", "name"], name="worker_name_once_per_pool")]

    def __str__(self) -> str:
        return self.name

    @property
    def known_load(self) -> WorkerLoad | None:
        """What it is doing, as last reported; None when that is not known."""
        return None if self.load is None else msgspec.convert(self.load, WorkerLoad)


class Allocation(models.Model):
    """A device given to a worker. One row per device: the database itself refuses a second owner."""

    device = models.OneToOneField(Device, on_delete=models.PROTECT, related_name="allocation")
    worker = models.ForeignKey(Worker, on_delete=models.CASCADE, related_name="allocations")


class RoutingTableVersion(models.Model):
    """One row: the version and content digest of the routing table last built, so that the version only grows, and
    only when something changed."""

    version = models.PositiveBigIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)
