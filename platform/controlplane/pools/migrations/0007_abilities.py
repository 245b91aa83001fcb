from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("pools", "0006_routing_policy")]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="abilities",
            field=models.JSONField(help_text="`Abilities`; null: not known.", null=True),
        ),
    ]
