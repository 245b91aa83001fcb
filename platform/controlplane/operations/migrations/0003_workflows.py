"""An operation may have several targets and may wait for others; its steps have states.

Rows of the release before are carried over, and back: there, an operation has one target, and every step is a remark.
"""

from __future__ import annotations

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.utils import timezone

_BATCH = 500
_KINDS_BEFORE = ("deploy", "resize", "delete")
_KINDS = (
    *("deploy", "resize", "rebalance", "flip", "roll_out", "roll_back", "restart_worker", "delete", "drain_node"),
    *("cordon_node", "uncordon_node", "retire_node", "measure_network", "fetch_weights"),
)
_STATES = ("queued", "running", "succeeded", "failed", "superseded", "cancelled")
_STEP_STATES = ("running", "done", "failed", "skipped")
_STATES_BEFORE = ("running", "succeeded", "failed", "superseded")


def carry_over(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    operations = apps.get_model("operations", "Operation").objects.using(schema_editor.connection.alias)
    targets = apps.get_model("operations", "OperationTarget").objects.using(schema_editor.connection.alias)
    steps = apps.get_model("operations", "OperationStep").objects.using(schema_editor.connection.alias)
    operations.update(requested_at=models.F("started_at"))
    steps.update(finished_at=models.F("started_at"))
    for name in set(operations.values_list("target_name", flat=True)):
        operations.filter(target_name=name).update(deployment=name.partition("/")[0])  # of a pool: "chat/decode"
    targets.bulk_create(
        (
            targets.model(
                operation_id=operation.pk,
                kind=operation.target_kind,
                target_id=operation.target_id,
                name=operation.target_name,
                held=operation.state == "running",
            )
            for operation in operations.order_by("started_at").iterator(_BATCH)
        ),
        batch_size=_BATCH,
    )
    schema_editor.connection.check_constraints()  # PostgreSQL alters no table while checks of its rows are pending


def carry_back(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """The release before can't read kinds that it does not know: those go. What waited, or was cancelled, has failed."""
    operations = apps.get_model("operations", "Operation").objects.using(schema_editor.connection.alias)
    targets = apps.get_model("operations", "OperationTarget").objects.using(schema_editor.connection.alias)
    operations.exclude(kind__in=_KINDS_BEFORE).delete()
    now = timezone.now()
    operations.filter(state="queued").update(finished_at=now, outcome="Was never begun: the queue was removed.")
    operations.exclude(state__in=_STATES_BEFORE).update(state="failed")
    operations.filter(started_at=None).update(started_at=models.F("requested_at"))
    first_of: dict[object, object] = {}
    for target in targets.order_by("-id").iterator(_BATCH):
        first_of[target.operation_id] = target
    for pk, target in first_of.items():
        operations.filter(pk=pk).update(target_kind=target.kind, target_id=target.target_id, target_name=target.name)
    schema_editor.connection.check_constraints()


class Migration(migrations.Migration):
    dependencies = [("operations", "0002_one_running_operation_per_target")]

    operations = [
        migrations.AlterField(
            model_name="operation",
            name="kind",
            field=models.CharField(choices=[(kind, kind) for kind in _KINDS], max_length=16),
        ),
        migrations.AlterField(
            model_name="operation",
            name="state",
            field=models.CharField(choices=[(state, state) for state in _STATES], max_length=16),
        ),
        migrations.AlterField(model_name="operation", name="before", field=models.TextField(blank=True)),
        migrations.AlterField(model_name="operation", name="after", field=models.TextField(blank=True)),
        migrations.AddField(
            model_name="operation",
            name="deployment",
            field=models.CharField(blank=True, default="", max_length=100),
            preserve_default=False,
        ),
        migrations.AddField(model_name="operation", name="request", field=models.JSONField(default=dict)),
        migrations.AddField(model_name="operation", name="preview", field=models.JSONField(null=True)),
        migrations.AddField(
            model_name="operation",
            name="retry_of",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="retries",
                to="operations.operation",
            ),
        ),
        migrations.AddField(
            model_name="operation",
            name="cancelled_by",
            field=models.CharField(blank=True, default="", max_length=150),
            preserve_default=False,
        ),
        migrations.AddField(model_name="operation", name="requested_at", field=models.DateTimeField(null=True)),
        migrations.AlterField(model_name="operation", name="started_at", field=models.DateTimeField(null=True)),
        migrations.AddField(model_name="operation", name="running_s", field=models.FloatField(default=0.0)),
        migrations.AddField(model_name="operation", name="seen_at", field=models.DateTimeField(null=True)),
        migrations.CreateModel(
            name="OperationTarget",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=32)),
                ("target_id", models.CharField(max_length=64)),
                ("name", models.CharField(max_length=200)),
                ("held", models.BooleanField(default=False)),
                (
                    "operation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="targets",
                        to="operations.operation",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "indexes": [models.Index(fields=["kind", "target_id"], name="operations__kind_86c32d_idx")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("operation", "kind", "target_id"), name="operation_names_a_target_once"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(held=True), fields=("kind", "target_id"), name="one_operation_holds_a_target"
                    ),
                ],
            },
        ),
        migrations.RenameField(model_name="operationstep", old_name="at", new_name="started_at"),
        migrations.AddField(
            model_name="operationstep",
            name="key",
            field=models.CharField(blank=True, default="", max_length=100),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="operationstep",
            name="state",
            field=models.CharField(choices=[(state, state) for state in _STEP_STATES], default="done", max_length=8),
        ),
        migrations.AddField(
            model_name="operationstep",
            name="cause",
            field=models.TextField(blank=True, default=""),
            preserve_default=False,
        ),
        migrations.AddField(model_name="operationstep", name="finished_at", field=models.DateTimeField(null=True)),
        # What the old columns lacked when they were filled: so that going back can add them to rows.
        migrations.AlterField(
            model_name="operation", name="target_kind", field=models.CharField(default="", max_length=32)
        ),
        migrations.AlterField(
            model_name="operation", name="target_id", field=models.CharField(default="", max_length=64)
        ),
        migrations.AlterField(
            model_name="operation", name="target_name", field=models.CharField(default="", max_length=200)
        ),
        migrations.RemoveConstraint(model_name="operation", name="one_running_operation_per_target"),
        migrations.RemoveConstraint(model_name="operation", name="operation_finished_iff_not_running"),
        migrations.RunPython(carry_over, carry_back),
        migrations.RemoveIndex(model_name="operation", name="operations__target__6725ed_idx"),
        migrations.RemoveField(model_name="operation", name="target_kind"),
        migrations.RemoveField(model_name="operation", name="target_id"),
        migrations.RemoveField(model_name="operation", name="target_name"),
        migrations.RemoveField(model_name="operation", name="target_generation"),
        migrations.AlterField(model_name="operation", name="requested_at", field=models.DateTimeField()),
        migrations.AlterModelOptions(name="operation", options={"ordering": ["-requested_at", "-id"]}),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(fields=["-requested_at", "-id"], name="operations__request_067203_idx"),
        ),
        migrations.AddIndex(
            model_name="operation", index=models.Index(fields=["state"], name="operations__state_c888ab_idx")
        ),
        migrations.AddIndex(
            model_name="operation", index=models.Index(fields=["deployment"], name="operations__deploym_a6eb91_idx")
        ),
        migrations.AddConstraint(
            model_name="operation",
            constraint=models.CheckConstraint(
                condition=models.Q(state="queued", started_at__isnull=True, finished_at__isnull=True)
                | models.Q(state="running", started_at__isnull=False, finished_at__isnull=True)
                | (~models.Q(state__in=["queued", "running"]) & models.Q(finished_at__isnull=False)),
                name="operation_times_fit_its_state",
            ),
        ),
        migrations.AddConstraint(
            model_name="operationstep",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "running"), models.Q(("key", ""), _negated=True)),
                fields=("operation", "key"),
                name="one_running_step_per_key",
            ),
        ),
        migrations.AddConstraint(
            model_name="operationstep",
            constraint=models.CheckConstraint(
                condition=models.Q(state="running", finished_at__isnull=True)
                | (~models.Q(state="running") & models.Q(finished_at__isnull=False)),
                name="step_finished_iff_not_running",
            ),
        ),
    ]
