from django.apps import AppConfig


class PoolsConfig(AppConfig):
    name = "controlplane.pools"

    def ready(self) -> None:
        # Models are loaded only now.
        from controlplane.fleet.hooks import hooks
        from controlplane.pools.node_spec import node_specs_renew
        from controlplane.pools.workflows import workflows_register

        hooks.specs_renew = node_specs_renew
        workflows_register()
