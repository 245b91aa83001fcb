"""`manage.py wait_ready`: watch a deployment until it serves."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.core import clock
from controlplane.core.errors import NotFound
from controlplane.pools import selectors
from controlplane.pools.models import Deployment, Worker
from controlplane.pools.news import worker_news
from controlplane.pools.pairing import serves
from controlplane.pools.presenters import worker_peer
from controlplane.pools.seeing import worker_seen
from inference.contracts.states import Role, WorkerDesired, WorkerPhase

_PAUSE_S = 0.3
_SHOWN_LINES = 20


class Command(BaseCommand):
    help = "Print how the workers of a deployment come up, until it serves; fails when one of them can't."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--deployment", required=True)
        parser.add_argument("--timeout", type=float, default=600.0, help="seconds to wait")

    def handle(self, *args: Any, **options: Any) -> None:
        began, deadline = clock.now(), time.monotonic() + options["timeout"]
        told: set[str] = set()
        while True:
            deployment = self._deployment(options["deployment"])
            workers = [worker for pool in deployment.pools.all() for worker in pool.workers.all()]
            fresh = [worker for worker in workers if _is_fresh(worker, began)]
            for line in (*_refusals(deployment), *(_line(worker) for worker in fresh)):
                if line not in told:
                    told.add(line)
                    self.stdout.write(f"  {line}")
                    self.stdout.flush()
            if serves(worker_peer(worker) for worker in fresh):
                return
            self._refuse_failed(fresh)
            if time.monotonic() > deadline:
                state = "; ".join([*_refusals(deployment), *map(_line, workers)]) or "it has no workers"
                raise CommandError(f"{deployment} does not serve after {options['timeout']:g} s: {state}.")
            time.sleep(_PAUSE_S)

    def _deployment(self, name: str) -> Deployment:
        try:
            return selectors.deployment_get(name)
        except NotFound as error:
            raise CommandError(error.message) from error

    def _refuse_failed(self, workers: list[Worker]) -> None:
        for worker in workers:
            if worker.phase == WorkerPhase.FAILED:
                log = "\n".join(f"    {line}" for line in worker.log_tail.splitlines()[-_SHOWN_LINES:])
                raise CommandError(f"{worker.name} failed: {worker.reason}\n{log}".rstrip())


def _is_fresh(worker: Worker, began: datetime) -> bool:
    """Whether its node was heard since then and had applied all that is wanted of it: what was written before tells of
    an earlier run."""
    node = worker.node
    heard = node.last_report_at is not None and node.last_report_at >= began
    return worker.desired == WorkerDesired.RUN and heard and node.observed_generation >= node.generation


def _line(worker: Worker) -> str:
    return worker_news(worker_seen(worker), Role(worker.pool.role))


def _refusals(deployment: Deployment) -> list[str]:
    return [line for pool in deployment.pools.all() for line in pool.refusals.splitlines()]
