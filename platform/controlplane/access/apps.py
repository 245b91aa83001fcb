from django.apps import AppConfig


class AccessConfig(AppConfig):
    name = "controlplane.access"

    def ready(self) -> None:
        from controlplane.access import schema  # noqa: F401  (the extension registers itself)
