"""Who may call: serving keys, known by their digests only."""

from __future__ import annotations

import hmac

from inference.contracts.auth import key_digest
from inference.contracts.routing import DeploymentRoute, KeyTable, ServingKeyEntry
from inference.router.errors import ApiError, invalid_key


class Keyring:
    """A key table, indexed. Built once per published table."""

    def __init__(self, table: KeyTable) -> None:
        self._entries = {entry.digest: entry for entry in table.keys}

    def check(self, authorization: str | None, now: float) -> ServingKeyEntry:
        """The key of an `Authorization: Bearer` header. now: unix seconds.

        The look-up goes by SHA-256 of what was sent, so its timing tells nothing about any key; the digests are then
        compared in constant time.

        Raises:
            ApiError: 401 when the header is missing or malformed, the key unknown, revoked or expired.
        """
        scheme, _, key = (authorization or "").partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not key:
            raise invalid_key("No API key: send the header 'Authorization: Bearer sk-tandem-...'.")
        digest = key_digest(key)
        entry = self._entries.get(digest)
        if entry is None or not hmac.compare_digest(entry.digest, digest):
            raise invalid_key("Incorrect API key: it is unknown or was revoked.")
        if entry.expires_at is not None and now >= entry.expires_at:
            raise invalid_key("Incorrect API key: it has expired.")
        return entry


def may_call(key: ServingKeyEntry, deployment: DeploymentRoute) -> bool:
    return not key.models or deployment.name in key.models or deployment.model_name in key.models


def require_model(key: ServingKeyEntry, deployment: DeploymentRoute, model: str) -> None:
    """Raises `ApiError` 403 when `key` is not for this deployment."""
    if not may_call(key, deployment):
        raise ApiError(403, f"This API key may not call the model {model!r}.", code="model_not_allowed", param="model")
