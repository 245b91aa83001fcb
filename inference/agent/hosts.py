"""The addresses of a node: where its workers listen and how they are reached."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

_WILDCARDS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


class NoAddress(RuntimeError):
    """This machine has no address that could be told to others; the text says what to set."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """advertised: how other machines reach this one. bind: what workers listen on."""

    advertised: str
    bind: str

    @property
    def local(self) -> str:
        """What reaches, from this machine, whatever listens on `bind`."""
        return _WILDCARDS.get(self.bind, self.bind)


def choose_hosts(*, url: str, address: str | None, worker_host: str | None, remembered: str | None) -> Hosts:
    """Addresses of this node. Given ones (address, worker_host) win.

    Otherwise both are the address from which this machine reaches the control plane at `url`: loopback for one on the
    same machine, so that nothing listens to the outside unless the fleet has an outside; `remembered` when the network
    is down just now.

    Raises:
        NoAddress: nothing given, nothing remembered, and no route to the control plane.
    """
    given = address or (worker_host if worker_host not in _WILDCARDS else None)
    advertised = given or own_address_towards(urlsplit(url).hostname or "") or remembered
    if advertised is None:
        raise NoAddress(f"no own address towards {url} is found; set TANDEM_NODE_ADDRESS")
    return Hosts(advertised=advertised, bind=worker_host or advertised)


def own_address_towards(host: str) -> str | None:
    """The local address that packets to `host` leave from, or None. Nothing is sent: a datagram socket only picks a
    route."""
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except (OSError, UnicodeError):
        return None
