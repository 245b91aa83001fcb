from django.apps import AppConfig


class LaunchConfig(AppConfig):
    name = "controlplane.launch"
