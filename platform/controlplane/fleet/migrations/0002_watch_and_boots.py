from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("fleet", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Watch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("since", models.DateTimeField()),
                ("swept_at", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="node",
            name="retired_boot_id",
            field=models.CharField(blank=True, default="", max_length=64),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name="device",
            name="cores",
            field=models.TextField(blank=True, help_text="Processor cores of a CPU slot, comma separated."),
        ),
    ]
