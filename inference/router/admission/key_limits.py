"""How much one serving key may ask: requests in any minute, tokens in any minute, and requests at one time.

A request is among the live ones while its handler runs, whatever ends it (F17). It counts in the minute in which it was
let in, and so do the tokens of its prompt: as many as are presumed of it, put right once it has ended. Those of its
answer count in the minute in which it ended. So what runs can take a key beyond its tokens; then it waits until enough
of them are a minute old. What is refused, by these limits or by anything behind them, counts nowhere.

Here is the account alone; who keeps it, one process for itself or one for several, is told in `limiter.py`.
"""

from __future__ import annotations

import math

import msgspec

from inference.contracts.routing import ServingKeyEntry
from inference.router.admission.minute import Minute, Moment
from inference.router.errors import ApiError

LARGER_THAN_LIMIT = "request_larger_than_limit"


class Quota(msgspec.Struct, frozen=True):
    """What of a key its limits are; None is no limit."""

    key_id: str
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_concurrent: int | None = None

    @classmethod
    def of(cls, key: ServingKeyEntry) -> Quota:
        return cls(key.key_id, key.requests_per_minute, key.tokens_per_minute, key.max_concurrent)

    @property
    def limited(self) -> bool:
        return not (self.requests_per_minute is self.tokens_per_minute is self.max_concurrent is None)


class Rate(msgspec.Struct, frozen=True):
    """How a key stands with one of its rates: how much in any minute, how much of it at once now, seconds until it is
    all of it again."""

    limit: int
    remaining: int
    reset_s: float


class Standing(msgspec.Struct, frozen=True):
    """None: the key has no such rate."""

    requests: Rate | None = None
    tokens: Rate | None = None


class Refusal(msgspec.Struct, frozen=True):
    """Why a request may not run; as in `ApiError`."""

    status: int
    message: str
    code: str
    param: str | None = None
    retry_after_s: int | None = None

    def error(self) -> ApiError:
        return ApiError(self.status, self.message, code=self.code, param=self.param, retry_after_s=self.retry_after_s)


class Admission:
    """A request that was let in, with `prompts` prompts. What it used is told with `used` as each of these ends; where
    nothing is told, what was presumed stays."""

    __slots__ = (
        "answer_tokens",
        "in_requests",
        "in_tokens",
        "presumed",
        "prompt_tokens",
        "prompts",
        "quota",
        "refused",
    )

    def __init__(self, quota: Quota, prompts: int) -> None:
        self.quota = quota
        self.prompts = prompts
        self.prompt_tokens: int | None = None
        self.answer_tokens = 0
        self.refused = False
        self.presumed = 0  # tokens of the prompts, where they count
        self.in_requests: Moment | None = None
        self.in_tokens: Moment | None = None

    def used(self, prompt_tokens: int, answer_tokens: int) -> None:
        """By one of its prompts, and the answers to it."""
        self.prompt_tokens = (self.prompt_tokens or 0) + prompt_tokens
        self.answer_tokens += answer_tokens

    def answered_nothing(self, *, refused: bool) -> None:
        """The client got an error in place of an answer. It costs no tokens; where it was refused, nothing at all."""
        self.prompt_tokens = self.answer_tokens = 0
        self.refused = refused


class _Account:
    """Of one key."""

    __slots__ = ("live", "requests", "running", "tokens")

    def __init__(self) -> None:
        self.live: set[Admission] = set()
        self.running = 0  # prompts of the live ones
        self.requests = Minute()
        self.tokens = Minute()

    @property
    def empty(self) -> bool:
        return not (self.live or self.requests or self.tokens)


_NOTHING = _Account()


class KeyLimits:
    """retry_after_s: what a key with too many requests at one time is advised. Times are of a monotonic clock."""

    def __init__(self, retry_after_s: int) -> None:
        self._retry_after_s = retry_after_s
        self._accounts: dict[str, _Account] = {}

    def enter(self, quota: Quota, prompts: int, tokens: int, now: float) -> Admission | Refusal:
        """Let a request in whose prompts count as one request each and have about `tokens` tokens together: all of it,
        or nothing of it. Whoever is let in must `leave`."""
        account = self._accounts.get(quota.key_id, _NOTHING)
        account.requests.drop_old(now)
        account.tokens.drop_old(now)
        refusal = _too_large(quota, prompts, tokens) or self._refusal(account, quota, prompts, tokens, now)
        if refusal is not None:
            return refusal
        return self.entered(quota, prompts, tokens, now)

    def entered(self, quota: Quota, prompts: int, tokens: int, now: float) -> Admission:
        """As `enter`, of a request that was let in elsewhere, whatever the limits."""
        admission = self.resume(quota, prompts)
        account = self._accounts[quota.key_id]
        if quota.requests_per_minute is not None:
            admission.in_requests = account.requests.add(prompts, now)
        if quota.tokens_per_minute is not None:
            admission.presumed = tokens
            admission.in_tokens = account.tokens.add(tokens, now)
        return admission

    def resume(self, quota: Quota, prompts: int) -> Admission:
        """Have a request among the live ones that was let in, and counted, before."""
        admission = Admission(quota, prompts)
        account = self._accounts.get(quota.key_id)
        if account is None:
            account = self._accounts[quota.key_id] = _Account()
        account.live.add(admission)
        account.running += prompts
        return admission

    def leave(self, admission: Admission, now: float) -> None:
        """The request has ended. Leaving twice is leaving once."""
        account = self._accounts.get(admission.quota.key_id, _NOTHING)
        if admission not in account.live:
            return
        account.live.discard(admission)
        account.running -= admission.prompts
        if admission.refused and admission.in_requests is not None:
            account.requests.correct(admission.in_requests, admission.prompts, 0)
        if admission.in_tokens is not None and admission.prompt_tokens is not None:
            account.tokens.correct(admission.in_tokens, admission.presumed, admission.prompt_tokens)
        if admission.quota.tokens_per_minute is not None:
            account.tokens.add(admission.answer_tokens, now)
        if account.empty:
            del self._accounts[admission.quota.key_id]

    def standing(self, quota: Quota, now: float) -> Standing:
        account = self._accounts.get(quota.key_id, _NOTHING)
        return Standing(
            _rate(account.requests, quota.requests_per_minute, now), _rate(account.tokens, quota.tokens_per_minute, now)
        )

    def live(self, key_id: str) -> int:
        """Prompts of this key that are being answered."""
        return self._accounts.get(key_id, _NOTHING).running

    def requests(self, key_id: str) -> int:
        """Those that count against its rate; those of keys without one are not remembered."""
        return self._accounts.get(key_id, _NOTHING).requests.total

    def tokens(self, key_id: str) -> int:
        """Likewise."""
        return self._accounts.get(key_id, _NOTHING).tokens.total

    def forget_old(self, now: float) -> None:
        """Drop what no longer counts, also of keys that nobody uses any more."""
        for key_id, account in list(self._accounts.items()):
            account.requests.drop_old(now)
            account.tokens.drop_old(now)
            if account.empty:
                del self._accounts[key_id]

    def _refusal(self, account: _Account, quota: Quota, prompts: int, tokens: int, now: float) -> Refusal | None:
        if quota.max_concurrent is not None and account.running + prompts > quota.max_concurrent:
            return Refusal(
                429,
                f"This API key may have {quota.max_concurrent} requests at one time, and they are running.",
                "concurrency_limit_exceeded",
                retry_after_s=self._retry_after_s,
            )
        if quota.requests_per_minute is not None:
            wait_s = account.requests.room_in_s(prompts, quota.requests_per_minute, now)
            if wait_s > 0:
                said = f"This API key may send {quota.requests_per_minute} requests in a minute, and has"
                return _too_often(said, wait_s)
        if quota.tokens_per_minute is not None and tokens:
            wait_s = account.tokens.room_in_s(tokens, quota.tokens_per_minute, now)
            if wait_s > 0:
                left = max(0, quota.tokens_per_minute - account.tokens.total)
                said = f"This API key may use {quota.tokens_per_minute} tokens in a minute, {left} are left"
                return _too_often(f"{said}, and the prompt has about {tokens}", wait_s)
        return None


def _too_large(quota: Quota, prompts: int, tokens: int) -> Refusal | None:
    """What no waiting helps. tokens are an estimate but for prompts of token ids."""
    for limit, asked, what, may in (
        (quota.max_concurrent, prompts, "prompts", "have {} requests at one time"),
        (quota.requests_per_minute, prompts, "prompts", "send {} requests in a minute"),
        (quota.tokens_per_minute, tokens, "tokens of prompt, by estimate", "use {} in a minute"),
    ):
        if limit is not None and asked > limit:
            message = f"This request has {asked} {what}; this API key may {may.format(limit)}: send less at once."
            return Refusal(400, message, LARGER_THAN_LIMIT)
    return None


def _too_often(message: str, wait_s: float) -> Refusal:
    return Refusal(429, f"{message}.", "rate_limit_exceeded", retry_after_s=max(1, math.ceil(wait_s)))


def _rate(minute: Minute, limit: int | None, now: float) -> Rate | None:
    if limit is None:
        return None
    minute.drop_old(now)
    return Rate(limit, max(0, limit - minute.total), minute.empty_in_s(now))
