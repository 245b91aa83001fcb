"""What every request to the serving API passes first: the key, the body, the model, the limits of the key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from inference.contracts.routing import DeploymentRoute, ServingKeyEntry
from inference.router.admission.key_limits import Admission, Quota, Refusal
from inference.router.admission.key_use import KeyUse
from inference.router.admission.keys import require_model
from inference.router.admission.limiter import Limiter
from inference.router.config import RouterConfig
from inference.router.errors import ApiError, BodyRefused, model_not_found, unavailable
from inference.router.table import TableKeeper
from inference.router.web.edge import note_standing


class Door:
    """Each step raises `ApiError` where a request may not pass. `stopping`: set when the router takes no new ones."""

    def __init__(self, config: RouterConfig, tables: TableKeeper, limiter: Limiter, key_use: KeyUse) -> None:
        self._config = config
        self._tables = tables
        self._limiter = limiter
        self._key_use = key_use
        self.stopping = False

    def key_of(self, request: web.Request) -> ServingKeyEntry:
        if self._tables.keyring is None:
            raise unavailable("No key table is known yet.", self._config.limits.retry_after_s)
        key = self._tables.keyring.check(request.headers.get("Authorization"), time.time())
        self._key_use.note(key.key_id)
        return key

    async def body_of(self, request: web.Request) -> bytes:
        if self.stopping:
            raise unavailable("The router is stopping.", self._config.limits.retry_after_s)
        try:
            async with asyncio.timeout(self._config.deadlines.body_s):
                return await request.read()
        except TimeoutError:
            raise BodyRefused(408, "The request body did not arrive in time.", code="request_timeout") from None
        except web.HTTPRequestEntityTooLarge:
            limit = self._config.limits.max_body_bytes
            raise BodyRefused(
                413, f"The request body is larger than {limit} bytes.", code="request_too_large"
            ) from None
        except web.RequestPayloadError:
            text = "The request body is not what its Content-Encoding or Transfer-Encoding says."
            raise BodyRefused(400, text, code="malformed_request") from None

    def deployment_of(self, key: ServingKeyEntry, model: str) -> DeploymentRoute:
        deployment = self._tables.find(model)
        if deployment is None:
            raise model_not_found(model)
        require_model(key, deployment, model)
        return deployment

    @asynccontextmanager
    async def admitted(
        self, request: web.Request, key: ServingKeyEntry, prompts: int = 1, tokens: int = 0
    ) -> AsyncIterator[Admission]:
        """Let a request run inside the block. Each of its prompts counts as one; all are let in, or none. tokens: about
        so many do they have."""
        admission, standing = await self._limiter.enter(Quota.of(key), prompts, tokens)
        note_standing(request, standing)
        if isinstance(admission, Refusal):
            raise admission.error()
        try:
            yield admission
        except ApiError as error:
            admission.answered_nothing(refused=error.refused)
            raise
        finally:
            self._limiter.leave(admission)
