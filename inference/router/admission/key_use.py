"""When each serving key was last used, told to the control plane every few seconds through one hash in Redis.

Best effort: serving never waits for it. While Redis is away the last use of each key is kept and sent later; of several
routers the one that writes last wins, and the control plane keeps the later moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from inference.contracts import names

#: How long the last use of a key that is no more waits to be told.
_KEPT_S = 600
_log = structlog.get_logger()


class KeyUse:
    """every_s: seconds between two writes. clock: unix seconds."""

    def __init__(self, redis: Redis, every_s: float, clock: Callable[[], float]) -> None:
        self._redis = redis
        self._every_s = every_s
        self._clock = clock
        self._unsent: dict[str, int] = {}

    def note(self, key_id: str) -> None:
        """The key was used now."""
        self._unsent[key_id] = int(self._clock())

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await asyncio.sleep(self._every_s)
            await self.write()

    async def write(self) -> None:
        """Send what is not sent yet; it stays where that fails."""
        sending = dict(self._unsent)
        if not sending:
            return
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for key_id, second in sending.items():
                    pipe.hset(names.KEY_USE_KEY, key_id, str(second))
                await pipe.execute()
        except (RedisError, OSError, TimeoutError) as error:
            _log.debug("use of keys not sent, kept for later", keys=len(sending), error=str(error))
            return
        for key_id, second in sending.items():
            if self._unsent.get(key_id) == second:
                del self._unsent[key_id]

    def forget_all_but(self, keys: Collection[str]) -> None:
        """Let go of other keys that were last used long ago, which Redis won't take."""
        long_ago = self._clock() - _KEPT_S
        self._unsent = {key: second for key, second in self._unsent.items() if key in keys or second > long_ago}
