"""Where a one-machine Tandem listens and keeps its files, read once from the environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from controlplane.config import env


@dataclass(frozen=True, slots=True)
class Layout:
    """host: the address everything binds. Loopback unless TANDEM_HOST says otherwise: other machines can join then.

    own_redis: False where REDIS_URL names a server that somebody else runs. tls_cert, tls_key: files with which console
    and router answer over HTTPS; empty: over HTTP.
    """

    root: Path
    data: Path
    host: str
    console_port: int
    router_port: int
    redis_port: int
    own_redis: bool
    tls_cert: str = ""
    tls_key: str = ""

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def secrets(self) -> Path:
        return self.data / "secrets"

    @property
    def default_model(self) -> Path:
        return self.data / "models" / "SmolLM2-135M-Instruct"

    @property
    def console_url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.console_port}"

    @property
    def router_url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.router_port}"

    @property
    def scheme(self) -> str:
        return "https" if self.tls_cert else "http"


def layout_from_environment() -> Layout:
    """
    Raises:
        ImproperlyConfigured: a variable is malformed.
    """
    tls_cert, tls_key = _tls_files()
    return Layout(
        root=settings.ROOT,
        data=settings.DATA_DIR,
        host=_host(),
        console_port=env.port("TANDEM_PORT", 8000),
        router_port=env.port("TANDEM_ROUTER_PORT", 8001),
        redis_port=env.port("TANDEM_REDIS_PORT", 6390),
        own_redis=env.flag("TANDEM_OWN_REDIS", not env.text("REDIS_URL")),
        tls_cert=tls_cert,
        tls_key=tls_key,
    )


def _tls_files() -> tuple[str, str]:
    cert, key = env.text("TANDEM_TLS_CERT_FILE"), env.text("TANDEM_TLS_KEY_FILE")
    if bool(cert) != bool(key):
        raise ImproperlyConfigured("TANDEM_TLS_CERT_FILE and TANDEM_TLS_KEY_FILE are set together, or neither")
    for name, path in (("TANDEM_TLS_CERT_FILE", cert), ("TANDEM_TLS_KEY_FILE", key)):
        if path and not Path(path).is_file():
            raise ImproperlyConfigured(f"{name} is {path!r}, which is no file")
    return cert, key


def _host() -> str:
    """Nodes and browsers are told this address, so it can't be a wildcard."""
    host = env.text("TANDEM_HOST", "127.0.0.1")
    if host in ("0.0.0.0", "::", "*"):  # noqa: S104
        raise ImproperlyConfigured(
            f"TANDEM_HOST is {host!r}, which nobody can call; give the address by which other machines reach this one"
        )
    return host
