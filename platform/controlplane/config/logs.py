"""Logging: structlog and the standard library end in one handler, as readable lines or as JSON.

What libraries log through `logging` and what Tandem logs through structlog look alike, with bound context (the request
id, where there is one) on each line.
"""

from __future__ import annotations

from typing import Any

import structlog

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]


def configure_structlog() -> None:
    """Send structlog's events into the standard library's logging; called once, when the apps are loaded."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def logging_config(level: str, *, as_json: bool) -> dict[str, Any]:
    """Django's LOGGING: one handler on standard error."""
    # Plain tracebacks: the prettier ones print local variables, secrets among them.
    render: list[Any] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [
            _without_control_characters,
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
        ]
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "lines": {
                "()": "structlog.stdlib.ProcessorFormatter",
                "foreign_pre_chain": _SHARED,
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
            }
        },
        "handlers": {"standard_error": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"handlers": ["standard_error"], "level": level},
        # Two lines for every report of every node would fill the disk with nothing; failures are told louder. Authlib
        # tells the secrets of logins where it is asked for details.
        "loggers": {name: {"level": "WARNING"} for name in ("celery.worker.strategy", "celery.app.trace", "authlib")},
    }


def _without_control_characters(
    logger: Any, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """A value that somebody else chose (a user name) can't begin a line or steer a terminal."""
    for name, value in event.items():
        if isinstance(value, str) and name != "event" and not value.isprintable():
            event[name] = "".join(each if each.isprintable() else repr(each)[1:-1] for each in value)
    return event
