"""Mistakes in the deployment, each found at start under a stable id (`manage.py check` lists them).

Errors stop every management command, `migrate` among them; warnings are for what may be meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured

from controlplane.config.ranges import numbers_out_of_range
from inference.contracts.states import UserRole

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@register
def check_settings(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    return [*_secrets(), *_addresses(), *_exposure(), *numbers_out_of_range(), *_timers(), *_identity_provider()]


def require_sound_settings() -> None:
    """For processes that serve: Django runs checks before management commands only.

    Raises:
        ImproperlyConfigured: with every error that `manage.py check` would list.
    """
    errors = [message for message in check_settings(None) if message.is_serious()]
    if errors:
        raise ImproperlyConfigured("\n".join(str(message) for message in errors))


def _secrets() -> Iterator[CheckMessage]:
    if settings.SECRET_KEY == settings.NO_SECRET_KEY:
        yield Error(
            "There is no secret key for sessions.",
            hint="Set TANDEM_SECRET_KEY, or TANDEM_SECRET_KEY_FILE to a file with it; `make up` makes one.",
            id="tandem.E001",
        )
    if not settings.CLUSTER_SECRET:
        yield Error(
            "There is no cluster secret, so no node could join and no worker would trust another.",
            hint="Set TANDEM_CLUSTER_SECRET, or TANDEM_CLUSTER_SECRET_FILE to a file with it; `make up` makes one.",
            id="tandem.E002",
        )


def _addresses() -> Iterator[CheckMessage]:
    for number, variable, url, schemes in (
        (3, "TANDEM_ROUTER_URL", settings.ROUTER_URL, ("http", "https")),
        (4, "TANDEM_PUBLIC_ROUTER_URL", settings.PUBLIC_ROUTER_URL, ("http", "https")),
        (5, "TANDEM_PUBLIC_URL", settings.PUBLIC_URL, ("http", "https")),
        (6, "REDIS_URL", settings.REDIS_URL, ("redis", "rediss")),
        (7, "TANDEM_NODE_REDIS_URL", settings.NODE_REDIS_URL, ("redis", "rediss")),
    ):
        if not _is_address(url, schemes):
            yield Error(
                # A password in the address must not reach a log.
                f"{variable} is no address: {_without_password(url)!r}.",
                hint=f"It looks like {schemes[0]}://host:port.",
                id=f"tandem.E{number:03}",
            )


def _exposure() -> Iterator[CheckMessage]:
    if _is_loopback(settings.PUBLIC_URL) or not _is_address(settings.PUBLIC_URL, ("http", "https")):
        return
    if settings.DEBUG:
        yield Error(
            f"TANDEM_DEBUG is on at the public address {settings.PUBLIC_URL}: error pages would show settings.",
            hint="Unset TANDEM_DEBUG.",
            id="tandem.E008",
        )
    if not settings.PUBLIC_URL.startswith("https://"):
        yield Warning(
            f"{settings.PUBLIC_URL} is reached without TLS: passwords, keys and the cluster secret of joining nodes "
            "can be read on the way.",
            hint="Put a proxy with TLS in front and set TANDEM_PUBLIC_URL to its https address.",
            id="tandem.W001",
        )
    if _is_loopback(settings.NODE_REDIS_URL):
        yield Warning(
            "Nodes are told to reach Redis at a loopback address, which only a node on this machine can.",
            hint="Set TANDEM_NODE_REDIS_URL to the address of Redis as nodes see it.",
            id="tandem.W002",
        )


def _timers() -> Iterator[CheckMessage]:
    """Those that must fit each other; what each may be by itself is in `ranges`."""
    if settings.NODE_LOST_AFTER_S < 4 * settings.SWEEP_INTERVAL_S:
        yield Error(
            f"TANDEM_NODE_LOST_AFTER_S ({settings.NODE_LOST_AFTER_S:g}) is less than four times "
            f"TANDEM_SWEEP_INTERVAL_S ({settings.SWEEP_INTERVAL_S:g}): one late sweep would look like a pause of the "
            "control plane, and silent nodes would never be taken for lost.",
            hint="Raise the first or lower the second.",
            id="tandem.E009",
        )
    if settings.NODE_LOST_AFTER_S < 3 * settings.NODE_REPORT_INTERVAL_S:
        yield Error(
            f"TANDEM_NODE_LOST_AFTER_S ({settings.NODE_LOST_AFTER_S:g}) is less than three times "
            f"TANDEM_REPORT_INTERVAL_S ({settings.NODE_REPORT_INTERVAL_S:g}): healthy nodes would be lost at times.",
            hint="Raise the first or lower the second.",
            id="tandem.E010",
        )


def _identity_provider() -> Iterator[CheckMessage]:
    if not settings.OIDC_ISSUER:
        return
    if not _is_address(settings.OIDC_ISSUER, ("https",)) and not (
        _is_address(settings.OIDC_ISSUER, ("http",)) and _is_loopback(settings.OIDC_ISSUER)
    ):
        yield Error(
            f"TANDEM_OIDC_ISSUER is {_without_password(settings.OIDC_ISSUER)!r}: who somebody is must come over TLS.",
            hint="Give the issuer's https address, exactly as the provider names itself.",
            id="tandem.E013",
        )
    if not settings.OIDC_CLIENT_ID:
        yield Error(
            "TANDEM_OIDC_ISSUER is set, but TANDEM_OIDC_CLIENT_ID is not.",
            hint="Register Tandem at the provider; its redirect address is "
            f"{settings.PUBLIC_URL}/api/v1/session/oidc/callback.",
            id="tandem.E014",
        )
    roles = {*settings.OIDC_ROLES.values(), settings.OIDC_DEFAULT_ROLE}
    if unknown := sorted(roles - {*UserRole, "none"}) + (["none"] if "none" in settings.OIDC_ROLES.values() else []):
        yield Error(
            f"TANDEM_OIDC_ROLES or TANDEM_OIDC_DEFAULT_ROLE names {', '.join(unknown)}, which is no role.",
            hint="Roles are viewer, operator and admin; TANDEM_OIDC_DEFAULT_ROLE may be none, for no access.",
            id="tandem.E015",
        )


def _is_address(url: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a broken IPv6 address
        return False


def _is_loopback(url: str) -> bool:
    return _is_address(url, ("http", "https", "redis", "rediss")) and urlsplit(url).hostname in _LOOPBACK


def _without_password(url: str) -> str:
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://...@{tail}" if at else url
