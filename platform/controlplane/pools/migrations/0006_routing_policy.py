from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("pools", "0005_requests_of_operations")]

    operations = [
        migrations.AddField(
            model_name="deployment",
            name="routing_policy",
            field=models.JSONField(default=dict),
        ),
    ]
