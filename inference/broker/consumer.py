"""Takes messages from a queue without ever ending over one.

Celery stops a worker over a message whose envelope, headers or body it did not expect, and puts the message back, so
one poisoned message would end every agent, or every control worker, that is started. Here such a message is dropped and
said so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery.worker.consumer import Consumer

log = logging.getLogger(__name__)

#: What unpacking bytes that are no message can raise; other errors are bugs and may end the process.
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


class CarefulConsumer(Consumer):
    """Celery's consumer of one connection. A message that can't be taken is acknowledged, so it does not come back; an
    envelope that can't be opened is gone already, and the connection is made anew as if it had been lost.

    taken: messages since the process started, over all connections.
    """

    connection_errors: tuple[type[Exception], ...]
    channel_errors: tuple[type[Exception], ...]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.taken = 0
        self._lost = (*self.connection_errors, *self.channel_errors)
        self.connection_errors = (*self.connection_errors, *_UNREADABLE)

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
        take = super().create_task_handler(*args, **kwargs)

        def take_or_drop(message: Any) -> None:
            self.taken += 1
            try:
                take(message)
            except self._lost:
                raise
            except Exception as error:
                log.error("a message that can't be read is dropped: %s", error)
                if not message.acknowledged:
                    message.ack_log_error(log, self._lost)

        return take_or_drop
