from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("operations", "0001_initial")]

    operations = [
        migrations.AddConstraint(
            model_name="operation",
            constraint=models.UniqueConstraint(
                condition=models.Q(state="running"),
                fields=("target_kind", "target_id"),
                name="one_running_operation_per_target",
            ),
        ),
    ]
