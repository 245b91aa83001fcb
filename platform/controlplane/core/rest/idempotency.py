"""Doing a write once, however often it is sent.

A key is claimed in a transaction of its own, so that every process sees it at once; the answer is stored in the
transaction of the write, so that both are there or neither is. A write that fails gives its key back. One whose process
died holds it until the claim is overdue; whoever takes it over then invalidates what the first may still try to store.

    claimed ──(write committed with its answer)──> answered ──(24 h)──> forgotten
       └──(failed, or overdue and taken over)──> free | claimed by another
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
import structlog
from django.db import DatabaseError, IntegrityError, InterfaceError, transaction
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.core import clock
from controlplane.core.errors import Conflict, Invalid, KeyReused, StillRunning
from controlplane.core.models import KEY_MAX, IdempotentRequest
from controlplane.core.principal import Principal
from controlplane.core.rest.api import answer
from controlplane.core.secrecy import masked

log = structlog.get_logger()

HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotency-Replayed"
KEPT = timedelta(hours=24)

#: Longer than any write takes: a claim older than this belongs to a process that died.
OVERDUE = timedelta(seconds=60)

_KEY = re.compile(rf"[\x21-\x7e]{{1,{KEY_MAX}}}")
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Named:
    """One request as its caller named it."""

    principal: str
    key: str
    digest: str


def named(request: Request, by: Principal) -> Named | None:
    """The name that `request` was given; None where it was given none.

    Raises:
        Invalid: the header is no key.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise Invalid(f"{HEADER} is 1 to {KEY_MAX} printable ASCII characters without spaces.", code="invalid_header")
    django_request = request._request
    digest = hashlib.sha256(f"{request.method} {django_request.get_full_path()}\n".encode())
    digest.update(django_request.body)
    return Named(f"{by.kind}:{by.name}", key, digest.hexdigest())


def once(name: Named, write: Callable[[], Response]) -> Response:
    """The answer of `write`, which runs in a transaction, unless this request was answered before: then that answer.

    Raises:
        KeyReused: the key came with another request.
        StillRunning: the same request is being answered right now.
        Conflict: it was answered with a secret, which is not kept.
    """
    claim = _claim(name)
    if isinstance(claim, IdempotentRequest):
        return _replay(claim)
    try:
        with transaction.atomic():
            response = write()
            if response.status_code < 400:
                _store(name, claim, response)
            else:
                transaction.set_rollback(True)
    except BaseException:
        _give_back(name, claim)
        raise
    if response.status_code >= 400:
        _give_back(name, claim)
    return response


def forget_old(*, now: datetime) -> int:
    """Remove what was claimed more than 24 hours ago; how many. For the sweep."""
    return IdempotentRequest.objects.filter(claimed_at__lt=now - KEPT).delete()[0]


def _claim(name: Named) -> uuid.UUID | IdempotentRequest:
    """A claim of our own, or the row of the same request that was answered."""
    for _ in range(_ATTEMPTS):
        now, claim = clock.now(), uuid.uuid4()
        held = IdempotentRequest.objects.filter(principal=name.principal, key=name.key).first()
        if held is not None and held.claimed_at < now - KEPT:
            held.delete()
            held = None
        if held is None:
            try:
                with transaction.atomic():
                    IdempotentRequest.objects.create(
                        principal=name.principal, key=name.key, digest=name.digest, claim=claim, claimed_at=now
                    )
                return claim
            except IntegrityError:
                continue  # somebody was quicker: look at theirs
        if held.digest != name.digest:
            raise KeyReused
        if held.status is not None:
            return held
        if held.claimed_at > now - OVERDUE:
            raise StillRunning
        overdue = IdempotentRequest.objects.filter(pk=held.pk, claim=held.claim, status__isnull=True)
        if overdue.update(claim=claim, claimed_at=now):
            return claim
    raise StillRunning


def _store(name: Named, claim: uuid.UUID, response: Response) -> None:
    """
    Raises:
        StillRunning: another process took the claim over: its write counts, and ours is rolled back.
    """
    shown = msgspec.json.encode(response.data)
    kept = msgspec.json.encode(masked(msgspec.json.decode(shown)))
    stored = IdempotentRequest.objects.filter(principal=name.principal, key=name.key, claim=claim).update(
        status=response.status_code, answer=kept.decode(), held_secret=kept != shown
    )
    if not stored:
        raise StillRunning


def _give_back(name: Named, claim: uuid.UUID) -> None:
    unanswered = IdempotentRequest.objects.filter(
        principal=name.principal, key=name.key, claim=claim, status__isnull=True
    )
    try:
        unanswered.delete()
    except (DatabaseError, InterfaceError) as error:
        log.warning("an idempotency key stays claimed until it is overdue", error=str(error))


def _replay(row: IdempotentRequest) -> Response:
    stored = msgspec.json.decode(row.answer or "null")
    if row.held_secret:
        raise Conflict(
            "This was done when it was first sent. The secret in its answer was shown then and is not kept: take "
            "that one back and make another, with a new Idempotency-Key.",
            code="secret_shown_once",
            current=stored,
        )
    response = answer(stored, int(row.status or 200))
    response[REPLAYED_HEADER] = "true"
    return response
