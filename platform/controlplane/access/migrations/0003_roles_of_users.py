"""Who was a superuser becomes an admin, everybody else a viewer. Can be run again."""

from django.conf import settings
from django.db import migrations


def give_roles(apps, schema_editor):
    User = apps.get_model(settings.AUTH_USER_MODEL)
    Account = apps.get_model("access", "Account")
    Account.objects.bulk_create(
        [
            Account(user_id=key, role="admin" if superuser else "viewer")
            for key, superuser in User.objects.values_list("pk", "is_superuser")
        ],
        ignore_conflicts=True,
    )


class Migration(migrations.Migration):
    dependencies = [
        ("access", "0002_people_tokens_limits"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [migrations.RunPython(give_roles, migrations.RunPython.noop)]
