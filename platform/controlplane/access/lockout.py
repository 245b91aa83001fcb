"""Guessing passwords is slow: so many failures per user name and per address within a window, then none for a while.

Kept in the database, so that it holds for all processes and with Redis away. Each attempt is stored as a failure before
its password is looked at, and taken back when it was right: attempts side by side can't overtake the count.

Refused attempts are not counted: the wait ends on its own, whatever an attacker does meanwhile.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import transaction

from controlplane.access.models import LoginFailure
from controlplane.audit.services import record
from controlplane.core import clock
from controlplane.core.errors import TooMany
from inference.contracts.states import Subject

log = structlog.get_logger()

_NAME_LENGTH, _ADDRESS_LENGTH = 150, 64
_MOST_READ = 10_000


@dataclass(frozen=True, slots=True)
class Lockout:
    """A name or an address that is refused until then."""

    subject: Subject
    value: str
    failures: int
    until: datetime


def attempt_begin(*, name: str, address: str) -> LoginFailure:
    """Note an attempt before its password is looked at. Not to be called inside of a transaction, which could take the
    note back.

    Raises:
        TooMany: there were too many failures; the password must not even be looked at.
    """
    attempt = LoginFailure.objects.create(name=_folded(name), address=address[:_ADDRESS_LENGTH], at=clock.now())
    waits = [_wait_s(attempt, subject) for subject in Subject]
    if (wait := max(waits)) > 0:
        attempt.delete()
        log.warning("login refused after too many failures", username=attempt.name, address=attempt.address)
        raise TooMany(
            f"There were too many failed logins; the next try is possible in {wait} s.",
            code="too_many_logins",
            retry_after_s=wait,
        )
    return attempt


def attempt_succeeded(attempt: LoginFailure) -> None:
    """Forget the failures of this name, and this attempt as one of its address; others of the address stay, or whoever
    has one password could guess all others from there."""
    LoginFailure.objects.filter(name=attempt.name).delete()


def _wait_s(attempt: LoginFailure, subject: Subject) -> int:
    """Whole seconds until so few earlier failures are in the window that one more try is allowed; 0: now."""
    limit, window = _limit(subject), timedelta(seconds=settings.LOGIN_WINDOW_S)
    same = {subject.value: getattr(attempt, subject.value)}
    earlier = LoginFailure.objects.filter(**same, at__gt=attempt.at - window, pk__lt=attempt.pk)
    decisive = earlier.order_by("-at", "-pk").values_list("at", flat=True)[limit - 1 : limit]
    return max((math.ceil((at + window - attempt.at).total_seconds()) for at in decisive), default=0)


def lockouts_now() -> list[Lockout]:
    """Who is refused now, the latest first; of very many failures the latest are looked at."""
    now, window = clock.now(), timedelta(seconds=settings.LOGIN_WINDOW_S)
    failures: dict[tuple[Subject, str], list[datetime]] = defaultdict(list)
    for failure in LoginFailure.objects.filter(at__gt=now - window).order_by("-at", "-pk")[:_MOST_READ]:
        failures[Subject.NAME, failure.name].append(failure.at)
        failures[Subject.ADDRESS, failure.address].append(failure.at)
    locked = [
        Lockout(subject, value, len(times), times[_limit(subject) - 1] + window)
        for (subject, value), times in failures.items()
        if len(times) >= _limit(subject)
    ]
    return sorted(locked, key=lambda lockout: lockout.until, reverse=True)


@transaction.atomic
def unlock(*, subject: Subject, value: str) -> int:
    """Forget the failures of a name or address; how many there were."""
    value = _folded(value) if subject is Subject.NAME else value
    forgotten, _ = LoginFailure.objects.filter(**{subject.value: value}).delete()
    record(
        action="login.unlock", target_kind="login", target_id=value, target_name=value, before={"failures": forgotten}
    )
    log.info("login unlocked", subject=subject, value=value, failures=forgotten)
    return forgotten


def failures_forget(*, now: datetime) -> None:
    """Remove what no longer counts; for the sweep."""
    LoginFailure.objects.filter(at__lte=now - timedelta(seconds=settings.LOGIN_WINDOW_S)).delete()


def _limit(subject: Subject) -> int:
    limit = settings.LOGIN_FAILURES_PER_NAME if subject is Subject.NAME else settings.LOGIN_FAILURES_PER_ADDRESS
    return int(max(1, limit))


def _folded(name: str) -> str:
    """One count for all spellings of a name."""
    return name.casefold()[:_NAME_LENGTH]
