
import django.db.models.deletion
import inference.contracts.states
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0002_watch_and_boots'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='device',
            options={'ordering': ['node_id', 'index', 'id']},
        ),
        migrations.AlterModelOptions(
            name='jointoken',
            options={'ordering': ['-created_at', '-id']},
        ),
        migrations.AddField(
            model_name='device',
            name='ecc_uncorrected',
            field=models.PositiveBigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='device',
            name='fault',
            field=models.TextField(blank=True),
        ),
        migrations.AddField(
            model_name='device',
            name='labels',
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name='device',
            name='maintenance',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='device',
            name='maintenance_note',
            field=models.CharField(blank=True, max_length=500),
        ),
        migrations.AddField(
            model_name='device',
            name='memory_bandwidth_use',
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name='device',
            name='nvlink_peers',
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name='device',
            name='parent',
            field=models.CharField(blank=True, max_length=100),
        ),
        migrations.AddField(
            model_name='device',
            name='pci',
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name='device',
            name='pcie_gen',
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='device',
            name='pcie_width',
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='device',
            name='power_limit_w',
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name='device',
            name='reserved_for',
            field=models.CharField(blank=True, max_length=100),
        ),
        migrations.AddField(
            model_name='device',
            name='sm_use',
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name='device',
            name='xid',
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='clock_offset_s',
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='cordon_reason',
            field=models.CharField(blank=True, max_length=500),
        ),
        migrations.AddField(
            model_name='node',
            name='desired',
            field=models.CharField(choices=[(inference.contracts.states.NodeDesired['ACTIVE'], inference.contracts.states.NodeDesired['ACTIVE']), (inference.contracts.states.NodeDesired['CORDONED'], inference.contracts.states.NodeDesired['CORDONED']), (inference.contracts.states.NodeDesired['DRAINING'], inference.contracts.states.NodeDesired['DRAINING']), (inference.contracts.states.NodeDesired['RETIRED'], inference.contracts.states.NodeDesired['RETIRED'])], default=inference.contracts.states.NodeDesired['ACTIVE'], max_length=16),
        ),
        migrations.AddField(
            model_name='node',
            name='disk_free',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='disk_total',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='driver',
            field=models.CharField(blank=True, max_length=100),
        ),
        migrations.AddField(
            model_name='node',
            name='engines',
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name='node',
            name='interfaces',
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name='node',
            name='labels',
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name='node',
            name='measured_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='observed_digest',
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name='node',
            name='retired_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='scoped',
            field=models.BooleanField(null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='secured',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='watch',
            name='turn_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.CreateModel(
            name='Link',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('bytes_per_s', models.FloatField(null=True)),
                ('latency_s', models.FloatField(null=True)),
                ('measured_at', models.DateTimeField(null=True)),
                ('error', models.TextField(blank=True)),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='links_out', to='fleet.node')),
                ('target', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='links_in', to='fleet.node')),
            ],
            options={
                'ordering': ['source__name', 'target__name'],
                'constraints': [models.UniqueConstraint(fields=('source', 'target'), name='one_link_per_direction')],
            },
        ),
        migrations.CreateModel(
            name='LinkMeasurement',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('requested_at', models.DateTimeField()),
                ('started_at', models.DateTimeField(null=True)),
                ('peer_host', models.CharField(blank=True, max_length=255)),
                ('peer_port', models.PositiveIntegerField(null=True)),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='fleet.node')),
                ('target', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='fleet.node')),
            ],
            options={
                'ordering': ['requested_at', 'id'],
                'constraints': [models.UniqueConstraint(fields=('source', 'target'), name='one_measurement_per_direction')],
            },
        ),
        migrations.CreateModel(
            name='NodeWeights',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('path', models.CharField(max_length=500)),
                ('revision', models.CharField(blank=True, max_length=100)),
                ('wanted', models.BooleanField(default=False)),
                ('attempt', models.PositiveIntegerField(default=0)),
                ('state', models.CharField(choices=[(inference.contracts.states.FetchState['ABSENT'], inference.contracts.states.FetchState['ABSENT']), (inference.contracts.states.FetchState['WANTED'], inference.contracts.states.FetchState['WANTED']), (inference.contracts.states.FetchState['FETCHING'], inference.contracts.states.FetchState['FETCHING']), (inference.contracts.states.FetchState['PRESENT'], inference.contracts.states.FetchState['PRESENT']), (inference.contracts.states.FetchState['FAILED'], inference.contracts.states.FetchState['FAILED'])], default=inference.contracts.states.FetchState['ABSENT'], max_length=16)),
                ('size_bytes', models.BigIntegerField(null=True)),
                ('fetched_bytes', models.BigIntegerField(null=True)),
                ('reason', models.TextField(blank=True)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='weights', to='fleet.node')),
            ],
            options={
                'ordering': ['node_id', 'path', 'revision'],
                'constraints': [models.UniqueConstraint(fields=('node', 'path', 'revision'), name='weights_once_per_node')],
            },
        ),
    ]
