from django.apps import AppConfig


class CoreConfig(AppConfig):
    name = "controlplane.core"

    def ready(self) -> None:
        from controlplane.config import checks, logs  # noqa: F401  (checks register themselves)

        logs.configure_structlog()
