from django.apps import AppConfig


class PoolsConfig(AppConfig):
    name = "controlplane.pools"

    def ready(self) -> None:
        from controlplane.pools.workflows import workflows_register  # models are loaded only now

        workflows_register()
