"""The control plane's Celery application: queue "control" and the beat schedule.

Tasks are acknowledged early on purpose: with late acks a worker exits when Redis goes away while a task is in flight.
Nothing is lost by it, since the sweep finds whatever a lost task would have done.
"""

from __future__ import annotations

import os

from celery import Celery
from celery.signals import worker_ready

from controlplane.config import staying
from controlplane.config.schedule import Steady
from controlplane.config.watchdog import QueueWatch
from inference.broker.tls import broker_tls
from inference.contracts import names

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.config.settings")

from django.conf import settings

app = Celery("controlplane")
app.conf.update(
    broker_url=settings.REDIS_URL,
    broker_use_ssl=broker_tls(settings.REDIS_URL),
    task_default_queue=names.CONTROL_QUEUE,
    task_ignore_result=True,
    task_acks_late=False,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # max_retries concerns sending only: with Redis away it gives up at once instead of holding a request for 6 s.
    # Consumers reconnect for ever, by the two settings above.
    broker_transport_options={"socket_timeout": 5, "socket_connect_timeout": 3, "max_retries": 0},
    accept_content=["json"],
    task_serializer="json",
    enable_utc=True,
    timezone="UTC",
    worker_hijack_root_logger=False,
    worker_consumer="inference.broker.consumer:CarefulConsumer",
    beat_schedule={
        "sweep": {
            "task": names.TASK_SWEEP,
            "schedule": Steady(settings.SWEEP_INTERVAL_S),
            "options": {"expires": settings.SWEEP_VALID_S},
        },
    },
)
app.autodiscover_tasks()
app.steps["worker"].add(QueueWatch)


@worker_ready.connect  # type: ignore[untyped-decorator]
def settle_worker(**_: object) -> None:
    """In the worker only: processes that merely send tasks are no matter of this module."""
    staying.settle()
