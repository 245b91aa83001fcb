"""Log lines of a worker process, on standard error, where its agent keeps them."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logging() -> None:
    """Readable lines with the request id where there is one. Tracebacks are plain: prettier ones print local variables,
    the cluster secret among them."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
