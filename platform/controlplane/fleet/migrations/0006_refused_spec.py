"""Nodes say why they refuse what they are told."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("fleet", "0005_report_interval")]

    operations = [migrations.AddField(model_name="node", name="refused_spec", field=models.TextField(blank=True))]
