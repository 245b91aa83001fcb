"""What should run (written by services) and what is seen to run (written from node reports)."""

from __future__ import annotations

import uuid

import msgspec
from django.db import models

from controlplane.catalog.models import Model
from controlplane.fleet.models import Device, Node
from inference.contracts.engines import NATIVE
from inference.contracts.reports import WorkerLoad
from inference.contracts.rollout import RolloutPolicy
from inference.contracts.routing_policy import RoutingPolicy
from inference.contracts.specs import EngineSettings
from inference.contracts.states import Role, WorkerDesired, WorkerPhase


class Deployment(models.Model):
    """One served name: a prefill pool and a decode pool, or a unified pool.

    stable: number of the revision that serves; while a roll-out goes on, its `Rollout` names the other one. previous:
    the revision that was stable before, to which a roll-back without a number goes. engine: see `engines`.
    rollout_policy, routing_policy: `RolloutPolicy` and `RoutingPolicy` as JSON, read and written through those structs
    only. slo_ttft_s, slo_tpot_s: what
    each request is to keep; null: nothing is promised. deleting: asked to go; the row is removed when its last worker
    is gone.
    """

    name = models.CharField(max_length=100, unique=True)
    engine = models.CharField(max_length=32, default=NATIVE)
    stable = models.PositiveIntegerField(default=1)
    previous = models.PositiveIntegerField(null=True)
    rollout_policy = models.JSONField(default=dict)
    routing_policy = models.JSONField(default=dict)
    slo_ttft_s = models.FloatField(null=True)
    slo_tpot_s = models.FloatField(null=True)
    local_prefill_tokens = models.PositiveIntegerField(default=64)
    default_max_tokens = models.PositiveIntegerField(default=512)
    created_at = models.DateTimeField()
    deleting = models.BooleanField(default=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def policy(self) -> RolloutPolicy:
        return msgspec.convert(self.rollout_policy, RolloutPolicy)

    @property
    def routing(self) -> RoutingPolicy:
        return msgspec.convert(self.routing_policy, RoutingPolicy)

    @property
    def stable_revision(self) -> Revision:
        """The revision that serves (prefetch "revisions__model" for lists)."""
        return next(revision for revision in self.revisions.all() if revision.number == self.stable)

    @property
    def under_rollout(self) -> Rollout | None:
        """The roll-out that goes on (select "rollout__candidate" for lists)."""
        return getattr(self, "rollout", None)


class Revision(models.Model):
    """What the workers of a deployment run: a model and how its engine is set. Never changed, so that going back to it
    gives what it gave.

    model_revision: of a hub id; empty takes the hub's default. settings: `EngineSettings` as JSON, read and written
    through that struct only.
    """

    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    model = models.ForeignKey(Model, on_delete=models.PROTECT, related_name="revisions")
    model_revision = models.CharField(max_length=200, blank=True)
    settings = models.JSONField(default=dict)
    note = models.CharField(max_length=500, blank=True)
    created_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["deployment", "number"], name="revision_number_once")]

    def __str__(self) -> str:
        return f"{self.deployment} revision {self.number}"

    @property
    def engine_settings(self) -> EngineSettings:
        return msgspec.convert(self.settings, EngineSettings)


class Rollout(models.Model):
    """A change of revision under way. The row is there as long as the candidate is wanted; without it, every worker
    shall run the stable revision.

    operation_id: the operation that wants it. share: of the workers of each pool that shall run the candidate now.
    judged: whether it goes on step by step and by the candidate's health; a roll-back goes at once. step_at: when the
    present share was set. ready_at: since when all workers of that share are ready; null: not yet.
    requests, error_rate, slo_miss_rate: what the candidate did with requests since it began, as last looked at; null
    rates: not known.
    """

    deployment = models.OneToOneField(Deployment, on_delete=models.CASCADE, related_name="rollout")
    operation_id = models.UUIDField()
    candidate = models.ForeignKey(Revision, on_delete=models.RESTRICT, related_name="+")
    share = models.FloatField(default=0.0)
    judged = models.BooleanField(default=True)
    paused = models.BooleanField(default=False)
    started_at = models.DateTimeField()
    step_at = models.DateTimeField()
    ready_at = models.DateTimeField(null=True)
    requests = models.PositiveIntegerField(default=0)
    error_rate = models.FloatField(null=True)
    slo_miss_rate = models.FloatField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(name="rollout_share_is_a_share", condition=models.Q(share__gte=0, share__lte=1))
        ]


class Pool(models.Model):
    """The workers of one role. generation is raised by each change; an edit names the one it saw.

    labels: that a node or device must have to be given to this pool. tensor_parallel: devices of one worker.
    strategy: see `inference.planning`. refusals: why the last plan could not place what is wanted, one sentence a line
    (written by reconcile).
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="pools")
    role = models.CharField(max_length=16, choices=[(role, role) for role in Role])
    replicas = models.PositiveIntegerField()
    min_replicas = models.PositiveIntegerField(default=0)
    max_replicas = models.PositiveIntegerField(default=64)
    labels = models.JSONField(default=list)
    tensor_parallel = models.PositiveIntegerField(default=1)
    strategy = models.CharField(max_length=16, default="spread")
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
    """One engine process, wanted (pool, revision, desired, incarnation, restart) and seen (all under "observed").

    name: short, for people ("decode-3"); changes with the role. renewing: it is drained (desired says so) only to be
    started again on the same devices; it keeps its place in its pool. observed_role: what its process is now, which
    during a flip is not yet the role of its pool; empty: not known. refused_role: the role that its process could not
    be switched to. Out of sight, what it was and where stays; what it did does not. Rows of stopped workers are removed
    once their node confirms it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="workers")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="workers")
    revision = models.ForeignKey(Revision, on_delete=models.RESTRICT, related_name="workers")
    incarnation = models.UUIDField(default=uuid.uuid4)
    desired = models.CharField(
        max_length=8, choices=[(value, value) for value in WorkerDesired], default=WorkerDesired.RUN
    )
    restart = models.PositiveIntegerField(default=0)
    renewing = models.BooleanField(default=False)
    created_at = models.DateTimeField()

    # observed
    phase = models.CharField(
        max_length=16, choices=[(phase, phase) for phase in WorkerPhase], default=WorkerPhase.ASSIGNED
    )
    phase_since = models.DateTimeField()
    reason = models.TextField(blank=True)
    observed_role = models.CharField(max_length=16, blank=True)
    refused_role = models.CharField(max_length=16, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    next_start_s = models.FloatField(null=True)
    drain_left_s = models.FloatField(null=True)
    http_host = models.CharField(max_length=255, blank=True)
    http_port = models.PositiveIntegerField(null=True)
    transfer_host = models.CharField(max_length=255, blank=True)
    transfer_port = models.PositiveIntegerField(null=True)
    fingerprint = models.CharField(max_length=128, blank=True)
    context_length = models.PositiveIntegerField(null=True)
    abilities = models.JSONField(null=True, help_text="`Abilities`; null: not known.")
    load = models.JSONField(null=True, help_text="`WorkerLoad`; null: not known.")
    log_tail = models.TextField(blank=True)

    class Meta:
        ordering = ["created_at"]
        constraints = [models.UniqueConstraint(fields=["pool", "name"], name="worker_name_once_per_pool")]

    def __str__(self) -> str:
        return self.name

    @property
    def known_role(self) -> Role | None:
        """What its process is now; None when that is not known. Out of sight, it is what it was."""
        seen = self.observed_role and self.phase != WorkerPhase.UNKNOWN
        return Role(self.observed_role) if seen else None

    @property
    def known_load(self) -> WorkerLoad | None:
        """What it is doing, as last reported; None when that is not known."""
        return None if self.load is None else msgspec.convert(self.load, WorkerLoad)


class Allocation(models.Model):
    """A device given to a worker. One row per device: the database itself refuses a second owner."""

    device = models.OneToOneField(Device, on_delete=models.PROTECT, related_name="allocation")
    worker = models.ForeignKey(Worker, on_delete=models.CASCADE, related_name="allocations")


class PlanningTurn(models.Model):
    """One row, locked by whoever gives devices to workers: two plans never see the same free device. What nodes report
    is written meanwhile; a plan is applied by compare-and-set."""

    ONLY = 1


class RoutingTableVersion(models.Model):
    """One row: the version and content digest of the routing table last built, so that the version only grows, and
    only when something changed."""

    version = models.PositiveBigIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)
