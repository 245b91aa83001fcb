from django.apps import AppConfig


class CatalogConfig(AppConfig):
    name = "controlplane.catalog"

    def ready(self) -> None:
        from controlplane.catalog.fetching import workflows_register  # models are loaded only now

        workflows_register()
