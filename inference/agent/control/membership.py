"""This machine's membership while the agent runs, and how what the control plane says later changes it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import structlog

from inference.agent.config import Settings
from inference.agent.control.seal import Seal
from inference.agent.state_dir import Membership, StateDir
from inference.contracts.reports import NodeWelcome

log = structlog.get_logger()


class LiveMembership:
    """membership: as remembered, or as just learnt. on_broker_changed: called when the broker is to be reached in
    another way than this process does, which takes a new start."""

    def __init__(
        self, membership: Membership, *, state: StateDir, settings: Settings, on_broker_changed: Callable[[], None]
    ) -> None:
        self.now = membership
        self.seal = Seal(membership.welcome.node_key)
        #: Of a spec that came after the newest welcome; None: it says nothing of it, or none came.
        self.asked_interval_s: float | None = None
        self._state = state
        self._settings = settings
        self._on_broker_changed = on_broker_changed
        self._in_use = membership.welcome.redis_url

    @property
    def report_interval_s(self) -> float:
        """Seconds between reports: as set on this machine, else as the control plane last asked for."""
        return self._settings.report_interval_s or self.asked_interval_s or self.now.welcome.report_interval_s

    @property
    def redis_url(self) -> str:
        """The broker as this process uses it."""
        return self._settings.redis_url or self._in_use

    def learn(self, welcome: NodeWelcome) -> None:
        """Take over and remember what the control plane said."""
        self.seal.use(welcome.node_key)
        self.asked_interval_s = None
        self.now = updated(self.now, welcome)
        self._state.save_membership(self.now)
        self._state.save_secret(welcome.cluster_secret)
        if self._settings.redis_url is None and welcome.redis_url != self._in_use:
            log.warning("the broker is reached in another way from now on; the agent starts anew")
            self._on_broker_changed()


def updated(membership: Membership, welcome: NodeWelcome) -> Membership:
    """`membership` with the newest welcome; a key that was given once is never lost."""
    key = welcome.node_key or membership.welcome.node_key
    return msgspec.structs.replace(membership, welcome=msgspec.structs.replace(welcome, node_key=key))
