"""Operations of the previous release get the request from which their progress is read, and by which they are retried.

There, the request was told in words only: "2 workers".
"""

from __future__ import annotations

from typing import Any

from django.db import migrations

_BATCH = 500
_KINDS_BEFORE = ("deploy", "resize", "delete")
#: No deployment has it: what is tried again for one that has gone is refused, as for any other that is not there.
_GONE = 0


def write_requests(apps: Any, schema_editor: Any) -> None:
    operations = apps.get_model("operations", "Operation").objects.filter(kind__in=_KINDS_BEFORE)
    pools = {str(pool.pk): pool for pool in apps.get_model("pools", "Pool").objects.all()}
    for operation in operations.prefetch_related("targets").iterator(_BATCH):
        if operation.request:
            continue
        for target in operation.targets.all():
            if target.kind == "deployment":
                operation.request = {"deployment_id": int(target.target_id)}
            elif target.kind == "pool":
                operation.request = _resize(operation, target.target_id, pools.get(target.target_id))
        operation.save(update_fields=["request"])


def _resize(operation: Any, pool_id: str, pool: Any) -> dict[str, Any]:
    wanted = _count(operation.after)
    if wanted is None:
        wanted = pool.replicas if pool else 0
    deployment_id = pool.deployment_id if pool else _GONE
    return {"deployment_id": deployment_id, "pool_id": pool_id, "replicas": wanted, "was": _count(operation.before)}


def _count(words: str) -> int | None:
    number = words.partition(" ")[0]
    return int(number) if number.isdecimal() else None


class Migration(migrations.Migration):
    dependencies = [
        ("operations", "0003_workflows"),
        ("pools", "0004_revision_of_every_worker"),
    ]

    operations = [migrations.RunPython(write_requests, migrations.RunPython.noop)]
