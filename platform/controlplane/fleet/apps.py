from django.apps import AppConfig


class FleetConfig(AppConfig):
    name = "controlplane.fleet"

    def ready(self) -> None:
        from controlplane.fleet.workflows import workflows_register  # models are loaded only now

        workflows_register()
