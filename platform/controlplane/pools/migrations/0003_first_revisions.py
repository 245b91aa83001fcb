"""Each deployment's model and settings become its first revision, which all of its workers run.

What a worker's process is now was not kept; until this release it was always the role of its pool.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations
from django.db.models import F, OuterRef, Subquery


def write_first_revisions(apps: Any, schema_editor: Any) -> None:
    deployments, revisions, workers, pools = (
        apps.get_model("pools", name) for name in ("Deployment", "Revision", "Worker", "Pool")
    )
    for deployment in deployments.objects.all():
        first, _ = revisions.objects.get_or_create(
            deployment=deployment,
            number=1,
            defaults={
                "model_id": deployment.model_id,
                "settings": deployment.settings,
                "created_at": deployment.created_at,
            },
        )
        workers.objects.filter(pool__deployment=deployment).update(revision=first)
    role = pools.objects.filter(pk=OuterRef("pool")).values("role")
    workers.objects.exclude(http_port=None).update(observed_role=Subquery(role))


def put_back(apps: Any, schema_editor: Any) -> None:
    """The previous release knows one model a deployment: that of the stable revision."""
    revisions = apps.get_model("pools", "Revision")
    for stable in revisions.objects.filter(number=F("deployment__stable")).select_related("deployment"):
        stable.deployment.model_id, stable.deployment.settings = stable.model_id, stable.settings
        stable.deployment.save(update_fields=["model", "settings"])


class Migration(migrations.Migration):
    dependencies = [("pools", "0002_revisions")]

    operations = [migrations.RunPython(write_first_revisions, put_back)]
