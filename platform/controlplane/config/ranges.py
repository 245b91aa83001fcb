"""What each number among the settings may be. Every variable that settings read as a number is here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings
from django.core.checks import CheckMessage, Error

_HOUR = 3600
_DAY = 24 * _HOUR

#: Settings that are not called as their variable.
_NAMES = {"TANDEM_REPORT_INTERVAL_S": "NODE_REPORT_INTERVAL_S", "TANDEM_SESSION_AGE_S": "SESSION_COOKIE_AGE"}


@dataclass(frozen=True, slots=True)
class Range:
    """number: of its check ("tandem.E<number>"), which never changes. low, high: what would become of a smaller value,
    and of a larger one."""

    number: int
    variable: str
    least: float
    most: float
    low: str
    high: str

    @property
    def setting(self) -> str:
        return _NAMES.get(self.variable, self.variable.removeprefix("TANDEM_"))

    def error(self, value: float) -> CheckMessage | None:
        if self.least <= value <= self.most:
            return None
        return Error(
            f"{self.variable} is {value:g}: {self.low if value < self.least else self.high}.",
            hint=f"It is from {self.least:,g} to {self.most:,g}.",
            id=f"tandem.E{self.number:03}",
        )


_NEVER = "no value is negative"
_AT_ONCE = "it would have failed before it began"

RANGES = (
    Range(
        *(11, "TANDEM_SWEEP_INTERVAL_S", 0.1, 300),
        *("sweeps would follow each other without a pause", "lost nodes and messages would be found far too late"),
    ),
    Range(
        *(12, "TANDEM_REPORT_INTERVAL_S", 0.1, 60),
        *("nodes would report without a pause", "what is shown would be long past"),
    ),
    Range(
        *(16, "TANDEM_NODE_LOST_AFTER_S", 1, _DAY),
        *("healthy nodes would be lost", "dead nodes would keep their workers"),
    ),
    Range(17, "TANDEM_MEASURES_INTERVAL_S", 0, _HOUR, _NEVER, "what is shown of devices would be long past"),
    Range(
        *(18, "TANDEM_LINKS_AT_ONCE", 1, 64),
        *("no link would ever be measured", "measurements would slow each other down"),
    ),
    Range(
        *(19, "TANDEM_LINK_DEADLINE_S", 1, 600),
        *("no measurement would end in time", "nodes refuse a measurement of more than ten minutes"),
    ),
    Range(
        *(20, "TANDEM_WATCHDOG_S", 1, _HOUR),
        *("a busy control worker would start again", "an idle one would not be found"),
    ),
    Range(21, "TANDEM_DRAIN_DEADLINE_S", 0, 7 * _DAY, _NEVER, "nodes refuse a drain of more than a week"),
    Range(
        *(22, "TANDEM_OPERATION_DEADLINE_S", 1, 30 * _DAY),
        *(_AT_ONCE, "one that is stuck would hold its targets for ever"),
    ),
    Range(
        *(23, "TANDEM_OPERATION_QUEUE_DEADLINE_S", 1, 30 * _DAY),
        *(_AT_ONCE, "what was asked for would begin when nobody remembers it"),
    ),
    Range(24, "TANDEM_FETCH_DEADLINE_S", 1, 30 * _DAY, _AT_ONCE, "one that is stuck would hold its model for ever"),
    Range(25, "TANDEM_ROTATION_GRACE_S", 0, 30 * _DAY, _NEVER, "rotated keys would be good for ever"),
    Range(
        *(26, "TANDEM_PASSWORD_MIN_LENGTH", 8, 128),
        *("passwords that short are guessed", "nobody could choose a password"),
    ),
    Range(
        *(27, "TANDEM_PASSWORD_KINDS", 1, 4),
        *("a password has characters of one kind at least", "there are four kinds: small, large, digits and others"),
    ),
    Range(
        *(28, "TANDEM_LOGIN_WINDOW_S", 1, _DAY),
        *("failed logins would be forgotten at once", "people would be locked out for days"),
    ),
    Range(
        *(29, "TANDEM_LOGIN_FAILURES_PER_NAME", 1, 1000),
        *("nobody could log in", "passwords could be tried by the thousand"),
    ),
    Range(
        *(30, "TANDEM_LOGIN_FAILURES_PER_ADDRESS", 1, 100_000),
        *("nobody could log in", "passwords could be tried without end"),
    ),
    Range(
        *(31, "TANDEM_OIDC_TIMEOUT_S", 0.5, 60),
        *("no provider answers so quickly", "a provider that hangs would hold every login"),
    ),
    Range(
        *(32, "TANDEM_SESSION_AGE_S", 60, 366 * _DAY),
        *("people would be logged out while they work", "a session that was stolen would be good for years"),
    ),
    Range(33, "TANDEM_API_READS_PER_MINUTE", 0, 10_000_000, _NEVER, "that is no limit, which is 0"),
    Range(34, "TANDEM_API_WRITES_PER_MINUTE", 0, 10_000_000, _NEVER, "that is no limit, which is 0"),
)


def numbers_out_of_range() -> Iterator[CheckMessage]:
    for each in RANGES:
        if error := each.error(getattr(settings, each.setting)):
            yield error
