from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('telemetry', '0002_window_cursor'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='rollup',
            name='one_roll_up_per_step',
        ),
        migrations.AddField(
            model_name='rollup',
            name='revision',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddConstraint(
            model_name='rollup',
            constraint=models.UniqueConstraint(fields=('deployment', 'pool_id', 'revision', 'second'), name='one_roll_up_per_step'),
        ),
    ]
