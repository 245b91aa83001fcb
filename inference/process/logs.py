"""Log lines of a process on standard error, readable or as JSON, with the request id on every line of a request."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Mapping
from typing import Any

import structlog


def configure_logging(env: Mapping[str, str], *, libraries: int = logging.WARNING) -> None:
    """TANDEM_LOG_LEVEL: "INFO" unless said otherwise. TANDEM_LOG_JSON: "1" for JSON.

    libraries: the least level of what libraries log; never below the process's own. Tracebacks are plain in both
    forms: prettier ones print local variables, secrets among them.
    """
    level = logging.getLevelNamesMapping().get(env.get("TANDEM_LOG_LEVEL", "INFO").upper(), logging.INFO)
    render: list[Any] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if env.get("TANDEM_LOG_JSON", "").lower() in ("1", "true", "yes", "on")
        else [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: _Printer(sys.stderr),
        cache_logger_on_first_use=True,  # else each line makes a logger of its own
    )
    logging.basicConfig(
        stream=sys.stderr,
        level=max(level, libraries),
        format="%(asctime)s [%(levelname)s] %(name)s: %(message)s",
    )


class _Printer(structlog.PrintLogger):
    """A line that can't be written (a full disk, a pipe that nobody reads) is lost, and whoever logs goes on."""

    def msg(self, message: str) -> None:
        with contextlib.suppress(OSError):
            super().msg(message)

    log = debug = info = warn = warning = fatal = failure = err = error = critical = exception = msg
