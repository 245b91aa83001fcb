"""Is the control plane itself well? Each check gives a sentence on what is wrong, or nothing."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpRequest, JsonResponse

log = structlog.get_logger()


def database_problem() -> str | None:
    """What keeps the database from answering. Bounded by its connection timeout."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchone()
    except (DatabaseError, InterfaceError) as error:
        # The text may name hosts and users: for the log, not for whoever asks without a login.
        log.warning("database does not answer", error=str(error))
        return "The database does not answer."
    return None


CHECKS: tuple[Callable[[], str | None], ...] = (database_problem,)


def healthz(request: HttpRequest) -> JsonResponse:
    """200 {"status": "ok"}, or 503 with the reasons. Needs no login, so it tells nothing else."""
    problems = [problem for check in CHECKS if (problem := check())]
    if problems:
        return JsonResponse({"status": "unavailable", "reasons": problems}, status=503)
    return JsonResponse({"status": "ok"})
