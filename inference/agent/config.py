"""Settings of a node agent, read once from the environment.

Every field may be given as `TANDEM_AGENT_<FIELD>`, except the few that have a name shared with other processes (see
`SHARED_NAMES`). Durations are seconds of a monotonic clock; nothing here is compared with another machine's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated

import msgspec

AGENT_VERSION = "0.2.0"

#: Fields whose variable is not TANDEM_AGENT_<FIELD>.
SHARED_NAMES = {
    "cpu_slots": "TANDEM_CPU_SLOTS",
    "cpu_slot_cores": "TANDEM_CPU_SLOT_CORES",
    "worker_host": "TANDEM_WORKER_HOST",
    "address": "TANDEM_NODE_ADDRESS",
    "redis_url": "REDIS_URL",
}

Seconds = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Size = Annotated[int, msgspec.Meta(ge=0)]


class ConfigError(ValueError):
    """A setting could not be read: the text names the variable and what was expected."""


class OnStop(StrEnum):
    """What a stopping agent does with its workers. STOP: ends them. LEAVE: lets them serve; the next start adopts."""

    STOP = "stop"
    LEAVE = "leave"


class DeviceSource(StrEnum):
    """What a node offers. AUTO: its GPUs, or CPU slots where there is none."""

    AUTO = "auto"
    GPU = "gpu"
    CPU = "cpu"


@dataclass(frozen=True, slots=True)
class Settings:
    """How one agent runs.

    tick_s: pause between two looks at the processes. report_interval_s: None takes what the control plane asked for.
    debounce_s: changes this close together make one report. report_backlog: reports are held back while more than so
    many messages wait for the control plane.
    backoff_base_s, backoff_max_s, max_attempts: a dead worker is started again after base, 2 base, 4 base, ... seconds,
    and not again after `max_attempts` starts; `steady_s` of being ready forgets earlier failures.
    start_deadline_s: from launch to ready. probe_*: one status call, pause between two, and how many in a row may fail.
    suspended_s: a process kept from running so long (SIGSTOP) is replaced. switch_deadline_s: longest change of role.
    disk_floor_bytes: with less disk free no worker is started.
    stop_deadline_s: from SIGTERM to SIGKILL. log_limit_bytes: size at which a worker's log is moved on.
    watchdog_s: exit when messages waited so long for this node and none was taken. redis_timeout_s: any one call.
    join_deadline_s: how long an unreachable control plane is retried. hello_wait_s: how long a start waits for the
    answer to its hello before it goes on with what it remembers.
    worker_host: address workers bind. address: address others reach this node by. None derives both from the control
    plane's URL (loopback for a control plane on this machine).
    cpu_slots: None offers as many as cores, at least four. cpu_slot_cores: None shares the cores out evenly.
    redis_url: None takes what the control plane told at the join.
    """

    tick_s: Seconds = 0.5
    report_interval_s: Seconds | None = None
    debounce_s: Seconds = 0.1
    report_backlog: Count = 1000
    backoff_base_s: Seconds = 2.0
    backoff_max_s: Seconds = 60.0
    max_attempts: Count = 5
    steady_s: Seconds = 60.0
    start_deadline_s: Seconds = 900.0
    probe_interval_s: Seconds = 0.5
    probe_timeout_s: Seconds = 2.0
    probe_failures: Count = 10
    window_interval_s: Seconds = 1.0
    suspended_s: Seconds = 2.0
    switch_deadline_s: Seconds = 60.0
    disk_floor_bytes: Size = 500_000_000
    stop_deadline_s: Seconds = 15.0
    log_limit_bytes: Count = 20_000_000
    watchdog_s: Seconds = 60.0
    redis_timeout_s: Seconds = 2.0
    join_deadline_s: Seconds = 600.0
    hello_wait_s: Seconds = 3.0
    on_stop: OnStop = OnStop.STOP
    devices: DeviceSource = DeviceSource.AUTO
    cpu_slots: Count | None = None
    cpu_slot_cores: Count | None = None
    worker_host: str | None = None
    address: str | None = None
    redis_url: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read the settings; an empty variable counts as not given.

        Raises:
            ConfigError: a value is not of the field's kind.
        """
        given = {}
        for name in (field.name for field in fields(cls)):
            variable = SHARED_NAMES.get(name, f"TANDEM_AGENT_{name.upper()}")
            text = environment.get(variable, "")
            if not text:
                continue
            try:
                msgspec.convert({name: text}, cls, strict=False)
            except msgspec.ValidationError as error:
                raise ConfigError(f"{variable}={text!r} can't be used: {error}") from error
            given[name] = text
        return msgspec.convert(given, cls, strict=False)
