"""Everything about a router that can be set, each with its unit."""

from __future__ import annotations

import math
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TypeVar

from inference.contracts.routing_policy import Waits
from inference.process.secret import read_cluster_secret
from inference.process.tls import read_client_tls

WAITS = Waits()
ENV_PREFIX = "TANDEM_ROUTER_"
#: Number of one of several processes behind one port, and the directory of their sockets; set by who starts them.
NUMBER = ENV_PREFIX + "NUMBER"
SIBLINGS = ENV_PREFIX + "SIBLINGS"

_LARGEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The longest waits, in seconds.

    connect_s: TCP connection to a worker. reserve_s: a whole reserve call. first_event_s: call until the first token of
    the leg that reads the prompt. idle_s: between two events of a leg, and from the first token until the decode worker
    goes on. orphan_s: decode worker's next token after the prefill worker was lost without a verdict on the hand-off.
    settle_s: complete answer until the prefill leg's closing figures. release_s: a release call. body_s: the client's
    request body. keepalive_s: a client's connection without a request, and one on which the head of a request does not
    come to its end. client_write_s: a client that does not read. total_s: a whole request. stop_s: running streams when
    the router is told to stop. ledger_s: the ledger of what keys use over several router processes.
    """

    connect_s: float = WAITS.connect_s
    reserve_s: float = WAITS.reserve_s
    first_event_s: float = WAITS.first_token_s
    idle_s: float = WAITS.idle_s
    orphan_s: float = 1.0
    settle_s: float = 0.25
    release_s: float = 5.0
    body_s: float = 30.0
    keepalive_s: float = 75.0
    client_write_s: float = 30.0
    total_s: float = WAITS.total_s
    stop_s: float = 30.0
    ledger_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """max_body_bytes: largest request body. max_header_bytes: largest first line, and largest header.
    max_attempts: most dispatches of one request that may end in a fault (busy workers do not count). retry_after_s:
    what a 503 advises while nothing better is known. suspect_s: how long a worker or pair that failed is used only when
    there is no other; twice as long after each further failure, up to suspect_most_s. queue_requests: how many requests
    of a deployment may wait while all its workers are busy, half of them of one key; queue_s: and for how long each.
    prefix_blocks: how many blocks of prompts are remembered, of 256 bytes each, to know which workers have KV of
    them."""

    max_body_bytes: int = 4 * 1024 * 1024
    max_header_bytes: int = 16 * 1024
    max_attempts: int = 3
    retry_after_s: int = 2
    suspect_s: float = 5.0
    suspect_most_s: float = 60.0
    queue_requests: int = 256
    queue_s: float = 10.0
    prefix_blocks: int = 200_000


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds: how often the tables are looked at without being told, how long Redis may take to answer, how long one
    telemetry window is, how often the last use of keys is told, how old what a worker said of its load may grow before
    it is asked."""

    table_poll_s: float = 0.5
    redis_timeout_s: float = 1.0
    window_s: float = 1.0
    key_use_s: float = 5.0
    figures_s: float = 1.0


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """router_id: names this process in telemetry. data_dir: where the last good tables are kept. tls_cert, tls_key:
    files with which it answers over HTTPS; empty: over HTTP. worker_tls: how workers are called; None: in clear.
    number, siblings: of one of several processes behind its port, and the directory in which they find each other; else
    empty and None."""

    redis_url: str = field(repr=False)
    cluster_secret: str = field(repr=False)
    data_dir: Path
    router_id: str
    host: str = "127.0.0.1"
    port: int = 8080
    tls_cert: str = ""
    tls_key: str = ""
    worker_tls: ssl.SSLContext | None = field(default=None, repr=False)
    number: str = ""
    siblings: Path | None = None
    deadlines: Deadlines = Deadlines()
    limits: Limits = Limits()
    intervals: Intervals = Intervals()


class CannotListen(OSError):
    """The configured address can't be had, because of `error`."""

    def __init__(self, config: RouterConfig, error: OSError) -> None:
        remedy = f"name another with --port or {ENV_PREFIX}PORT, --host or {ENV_PREFIX}HOST"
        super().__init__(f"can't listen on {config.host}, port {config.port}: {error.strerror or error}: {remedy}")


def read_config(env: Mapping[str, str], *, host: str | None = None, port: int | None = None) -> RouterConfig:
    """The configuration from environment variables; `host` and `port` win over them.

    REDIS_URL and TANDEM_CLUSTER_SECRET_FILE (or TANDEM_CLUSTER_SECRET) are needed; TANDEM_DATA, TANDEM_ROUTER_HOST,
    TANDEM_ROUTER_PORT, TANDEM_ROUTER_ID, TANDEM_ROUTER_TLS_CERT_FILE, TANDEM_ROUTER_TLS_KEY_FILE and
    TANDEM_WORKER_TLS_CA_FILE are not. Every deadline, limit and interval can be set as TANDEM_ROUTER_<NAME>, for
    example TANDEM_ROUTER_IDLE_S=20.

    Raises:
        ValueError: a needed variable is missing, a number is none, not positive or without end, there is no such port,
            or a file holds no certificates.
        OSError: the file with the secret can't be read.
    """
    redis_url = env.get("REDIS_URL")
    if not redis_url:
        raise ValueError("REDIS_URL is not set: name the Redis server that carries the routing table")
    if bool(env.get(ENV_PREFIX + "TLS_CERT_FILE")) != bool(env.get(ENV_PREFIX + "TLS_KEY_FILE")):
        raise ValueError(f"{ENV_PREFIX}TLS_CERT_FILE and {ENV_PREFIX}TLS_KEY_FILE are set together, or neither")
    chosen_port = port if port is not None else int(_number(env, "PORT", 8080, zero_allowed=True))
    if not 0 <= chosen_port <= _LARGEST_PORT:
        raise ValueError(f"the port is {chosen_port}: name one up to {_LARGEST_PORT} with --port or {ENV_PREFIX}PORT")
    return RouterConfig(
        redis_url=redis_url,
        cluster_secret=read_cluster_secret(env),
        data_dir=Path(env.get("TANDEM_DATA", "data")),
        router_id=env.get(ENV_PREFIX + "ID") or f"{os.uname().nodename}-{chosen_port}",
        host=host or env.get(ENV_PREFIX + "HOST") or "127.0.0.1",
        port=chosen_port,
        tls_cert=env.get(ENV_PREFIX + "TLS_CERT_FILE", ""),
        tls_key=env.get(ENV_PREFIX + "TLS_KEY_FILE", ""),
        worker_tls=read_client_tls(env),
        number=env.get(NUMBER, ""),
        siblings=Path(env[SIBLINGS]) if NUMBER in env and SIBLINGS in env else None,
        deadlines=_numbers(env, Deadlines()),
        limits=_numbers(env, Limits()),
        intervals=_numbers(env, Intervals()),
    )


N = TypeVar("N", Deadlines, Limits, Intervals)


def _numbers(env: Mapping[str, str], defaults: N) -> N:
    values = {}
    for entry in fields(defaults):
        default = getattr(defaults, entry.name)
        values[entry.name] = type(default)(_number(env, entry.name.upper(), default))
    return type(defaults)(**values)


def _number(env: Mapping[str, str], name: str, default: float, *, zero_allowed: bool = False) -> float:
    text = env.get(ENV_PREFIX + name)
    if text is None:
        return default
    try:
        number = type(default)(text)
    except ValueError:
        raise ValueError(f"{ENV_PREFIX}{name} is {text!r}: a number is needed") from None
    if not 0 <= number < math.inf or (number == 0 and not zero_allowed):
        raise ValueError(f"{ENV_PREFIX}{name} is {text!r}: it must be positive and finite")
    return number
