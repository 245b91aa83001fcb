"""`manage.py ensure_deployment`: have a model served, whether or not it is already."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.core.errors import ControlError, Invalid
from controlplane.pools import services
from controlplane.pools.models import Deployment, Worker
from inference.contracts.states import Role, WorkerDesired, WorkerPhase

REQUESTED_BY = "manage.py"
_PAUSE_S = 0.5


class Command(BaseCommand):
    help = (
        "Deploy a model unless the deployment exists; one that exists keeps its sizes, and failed workers get a retry."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", required=True, help="name that clients call it by")
        parser.add_argument("--model", required=True, help="name of the model in the catalogue")
        parser.add_argument("--prefill", type=int, default=0, help="prefill workers")
        parser.add_argument("--decode", type=int, default=0, help="decode workers")
        parser.add_argument("--unified", type=int, default=0, help="workers that do both stages, instead of the others")
        parser.add_argument("--timeout", type=float, default=60.0, help="seconds to wait for enough free devices")

    def handle(self, *args: Any, **options: Any) -> None:
        deployment = Deployment.objects.filter(name=options["name"], deleting=False).first()
        try:
            if deployment is not None:
                self._retry_failed(deployment)
            else:
                self._create(options)
        except ControlError as error:
            raise CommandError(error.message) from error

    def _create(self, options: dict[str, Any]) -> None:
        """A node that has just joined offers its devices only once it has reported, so a lack of devices may pass."""
        deadline = time.monotonic() + options["timeout"]
        while True:
            try:
                services.deployment_create(
                    name=options["name"],
                    model=options["model"],
                    shape=services.Shape(counts={role: options[role] for role in Role}),
                    requested_by=REQUESTED_BY,
                )
            except Invalid as error:
                if error.code != "no_capacity" or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_S)
            else:
                self.stdout.write(f"{options['name']} is being deployed.")
                return

    def _retry_failed(self, deployment: Deployment) -> None:
        failed = Worker.objects.filter(pool__deployment=deployment, desired=WorkerDesired.RUN, phase=WorkerPhase.FAILED)
        for worker in failed:
            services.worker_restart(worker_id=worker.pk, requested_by=REQUESTED_BY)
            self.stdout.write(f"{worker.name} had failed and is started again.")
        self.stdout.write(f"{deployment.name} exists already; its sizes are kept.")
