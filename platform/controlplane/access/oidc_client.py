"""Talking to the identity provider: OpenID Connect's authorization code flow with PKCE, state and nonce, by Authlib.

Nothing that a browser sends is believed: who somebody is comes out of an ID token that was fetched from the provider
itself, signed by a key that the provider publishes, for this client, in answer to this login.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

import requests
import structlog
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.django_client import OAuth
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from joserfc.errors import JoseError

log = structlog.get_logger()

T = TypeVar("T")

CALLBACK = "/api/v1/session/oidc/callback"

#: Signatures that only the provider can make. "none" and those made with a shared secret are not among them.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")


class Problem(StrEnum):
    """Why nobody is logged in; the login page says it in words.

    UNREACHABLE: the provider does not answer, or not as one. REFUSED: it said no, or what came back is not the answer
    to this login. NO_ACCESS: known, but without a role here, or switched off. NAME_TAKEN: the user name belongs to a
    local account or to somebody else.
    """

    UNREACHABLE = "oidc_unreachable"
    REFUSED = "oidc_refused"
    NO_ACCESS = "oidc_no_access"
    NAME_TAKEN = "oidc_name_taken"


class LoginProblem(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Person:
    """Whom the provider vouches for. groups: None where it told none."""

    issuer: str
    subject: str
    name: str
    groups: frozenset[str] | None


def enabled() -> bool:
    return bool(settings.OIDC_ISSUER)


def redirect_to_provider(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider; what its answer has to match is kept in the session.

    Raises:
        LoginProblem: the provider does not answer.
    """
    client = _client()
    response: HttpResponse = _asked(
        Problem.UNREACHABLE, lambda: client.authorize_redirect(request, settings.PUBLIC_URL + CALLBACK)
    )
    return response


def person_in_answer(request: HttpRequest) -> Person:
    """Who came back from the provider.

    Raises:
        LoginProblem: nobody, or the answer can't be trusted.
    """
    client = _client()
    token = _asked(Problem.REFUSED, lambda: client.authorize_access_token(request, claims_options=_expected()))
    claims = dict(token.get("userinfo") or {})  # Authlib's name for the checked claims of the ID token
    if not claims.get("sub"):
        log.warning("login refused: the identity provider sent no ID token")
        raise LoginProblem(Problem.REFUSED)
    if any(wanted not in claims for wanted in _wanted_claims()):
        claims = {**_userinfo(token, claims["sub"]), **claims}
    return _person(claims)


def _client() -> Any:
    """The provider as it describes itself, checked to be the one that is meant."""
    client = _client_for(settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET)
    metadata = _asked(Problem.UNREACHABLE, client.load_server_metadata)
    if metadata.get("issuer") != settings.OIDC_ISSUER:
        log.error(
            "the identity provider has another name", configured=settings.OIDC_ISSUER, says=metadata.get("issuer")
        )
        raise LoginProblem(Problem.UNREACHABLE)
    offered = metadata.get("id_token_signing_alg_values_supported", ["RS256"])
    metadata["id_token_signing_alg_values_supported"] = [name for name in offered if name in _ALGORITHMS]
    return client


@cache
def _client_for(issuer: str, client_id: str, client_secret: str) -> Any:
    """One per process: it keeps the provider's description and keys. Keys that it does not know are fetched anew."""
    return OAuth().register(
        name="oidc",
        client_id=client_id,
        client_secret=client_secret or None,
        server_metadata_url=f"{issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={
            "scope": settings.OIDC_SCOPES,
            "code_challenge_method": "S256",
            "default_timeout": settings.OIDC_TIMEOUT_S,
            # The access token is used once, at once: one that lives for seconds only is good enough.
            "leeway": 0,
        },
    )


def _expected() -> dict[str, dict[str, object]]:
    return {
        "iss": {"essential": True, "value": settings.OIDC_ISSUER},
        "aud": {"essential": True, "value": settings.OIDC_CLIENT_ID},
    }


def _wanted_claims() -> list[str]:
    return [settings.OIDC_NAME_CLAIM, *([settings.OIDC_GROUPS_CLAIM] if settings.OIDC_ROLES else [])]


def _userinfo(token: Any, subject: str) -> dict[str, Any]:
    """What the provider tells beside the ID token; some tell groups only here."""
    client = _client()
    if "userinfo_endpoint" not in client.server_metadata:
        return {}
    told = dict(_asked(Problem.UNREACHABLE, lambda: client.userinfo(token=token)))
    if told.get("sub") != subject:
        log.warning("login refused: the identity provider told of somebody else")
        raise LoginProblem(Problem.REFUSED)
    return told


def _person(claims: dict[str, Any]) -> Person:
    name, groups = claims.get(settings.OIDC_NAME_CLAIM), claims.get(settings.OIDC_GROUPS_CLAIM)
    if not isinstance(name, str) or not name:
        log.error("the identity provider tells no user name", claim=settings.OIDC_NAME_CLAIM, told=sorted(claims))
        raise LoginProblem(Problem.REFUSED)
    listed = [groups] if isinstance(groups, str) else groups
    told = frozenset(group for group in listed if isinstance(group, str)) if isinstance(listed, list) else None
    return Person(issuer=settings.OIDC_ISSUER, subject=str(claims["sub"]), name=name, groups=told)


def _asked(otherwise: Problem, ask: Callable[[], T]) -> T:
    """What `ask` gets from the provider; whatever can go wrong on the way is one `LoginProblem`."""
    try:
        return ask()
    except requests.RequestException as error:
        log.warning("the identity provider does not answer", error=type(error).__name__)
        raise LoginProblem(Problem.UNREACHABLE) from error
    except (AuthlibBaseError, JoseError, ValueError, KeyError, TypeError, RuntimeError) as error:
        # The kind and the provider's own code only: messages may quote what was sent.
        log.warning("login refused", error=type(error).__name__, code=getattr(error, "error", ""))
        raise LoginProblem(otherwise) from error
