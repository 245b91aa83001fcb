"""TLS between Tandem's own processes: router and agents call workers, prefill workers send KV to decode workers.

Files, one set per node: TANDEM_WORKER_TLS_CERT_FILE and TANDEM_WORKER_TLS_KEY_FILE are what the workers of a node
present; TANDEM_WORKER_TLS_CA_FILE says whom it trusts. Routers need only the last. The scheme belongs to the process,
not to the routing table: whoever has the CA file speaks TLS to every worker and never falls back, so neither a fleet
in the middle of a change nor a forged table can make it send in clear.

A certificate has to name the address that others reach its node by (TANDEM_NODE_ADDRESS; an IP address as an IP
entry). Names are checked, not the authority alone: else a certificate taken from one node would do for all of them.
That costs little, since every node has an address of its own anyway and an authority can name addresses as well as
hosts. Clients have no certificates: they prove the cluster secret, inside TLS as without it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

CERT_FILE = "TANDEM_WORKER_TLS_CERT_FILE"
KEY_FILE = "TANDEM_WORKER_TLS_KEY_FILE"
CA_FILE = "TANDEM_WORKER_TLS_CA_FILE"

#: What a caller in clear is told.
TLS_ONLY = f"this worker takes calls over TLS only: set {CA_FILE} where the call comes from"

_HANDSHAKE_RECORD = b"\x16"


@dataclass(frozen=True, slots=True)
class NodeTls:
    """What the processes of one node need. server: how its workers answer. client: how workers are called."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def read_node_tls(env: Mapping[str, str]) -> NodeTls | None:
    """The settings of a node; None: everything in clear.

    Raises:
        ValueError: only some of the three are set, or a file is none of its kind.
    """
    given = [name for name in (CERT_FILE, KEY_FILE, CA_FILE) if env.get(name)]
    if not given:
        return None
    missing = [name for name in (CERT_FILE, KEY_FILE, CA_FILE) if name not in given]
    if missing:
        raise ValueError(
            f"{' and '.join(given)} set without {' and '.join(missing)}: a node needs all three, since its workers "
            "answer, and are called, over TLS or not at all"
        )
    client = read_client_tls(env)
    assert client is not None  # noqa: S101 - CA_FILE is set
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.minimum_version = ssl.TLSVersion.TLSv1_3
    server.num_tickets = 0  # connections are kept, not resumed; an idle one stays silent
    try:
        server.load_cert_chain(env[CERT_FILE], env[KEY_FILE], password=_no_password)
    except (OSError, ValueError) as error:
        raise ValueError(f"{CERT_FILE}={env[CERT_FILE]} and {KEY_FILE}={env[KEY_FILE]}: {_said(error)}") from error
    return NodeTls(server=server, client=client)


def read_client_tls(env: Mapping[str, str]) -> ssl.SSLContext | None:
    """How workers are called; None: in clear.

    Raises:
        ValueError: the file holds no certificates.
    """
    path = env.get(CA_FILE)
    if not path:
        return None
    try:
        context = ssl.create_default_context(cafile=path)
    except OSError as error:
        raise ValueError(f"{CA_FILE}={path}: {_said(error)}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def tls_refusal(error: BaseException) -> str | None:
    """Why a worker could not be called over TLS, in words; None when `error` has nothing to do with TLS."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__  # aiohttp's own are of the same kinds, without the reasons
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the worker's certificate is refused: {cause.verify_message} (trusted are those in {CA_FILE})"
    if isinstance(cause, ssl.SSLError):
        return f"the worker does not answer in TLS, and {CA_FILE} is set: {_said(cause)}"
    return None


async def speaks_tls(sock: socket.socket) -> bool:
    """Whether the caller's first byte begins TLS. It is waited for, and stays in the socket.

    Raises:
        ConnectionError: the caller left without a word.
    """
    loop = asyncio.get_running_loop()
    spoke = asyncio.Event()
    loop.add_reader(sock, spoke.set)
    try:
        await spoke.wait()
    finally:
        loop.remove_reader(sock)
    first = sock.recv(1, socket.MSG_PEEK)
    if not first:
        raise ConnectionError("the caller left without a word")
    return first == _HANDSHAKE_RECORD


def _no_password() -> str:
    raise ValueError("the key has a password; give one without")


def _said(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not a certificate or key in PEM").replace("_", " ").lower()
    return str(getattr(error, "strerror", None) or error)
