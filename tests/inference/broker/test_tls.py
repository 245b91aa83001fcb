"""Claims about TLS on the way to Redis and to the router, with a certificate authority of one's own."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
import redis

from inference.agent.app import ControlQueue, make_app
from inference.agent.control.reporter import SendFailed
from inference.contracts.names import CONTROL_QUEUE
from inference.router.app import running
from inference.router.config import read_config
from inference.testing.tls import Certificates, make_certificates, tls_in_front_of
from inference.testing.valkey import ValkeyServer


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
def secure_url(broker: ValkeyServer, certificates: Certificates) -> Iterator[str]:
    with tls_in_front_of(broker.port, certificates) as port:
        yield broker.url.replace("redis://", "rediss://").replace(str(broker.port), str(port))


def send(url: str) -> None:
    queue = ControlQueue(make_app(url, "n1"), timeout_s=5.0, backlog=100)
    try:
        queue.send("report", "code")
    finally:
        queue.close()


def test_reports_reach_redis_over_tls(
    secure_url: str, broker: ValkeyServer, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    send(secure_url)

    with redis.Redis.from_url(broker.url) as queue:
        assert queue.llen(CONTROL_QUEUE) == 1
        queue.delete(CONTROL_QUEUE)


def test_a_redis_that_nobody_vouches_for_gets_no_report(secure_url: str, broker: ValkeyServer) -> None:
    with pytest.raises(SendFailed, match=r"(?i)certificate"):
        send(secure_url)
    with redis.Redis.from_url(broker.url) as queue:
        assert queue.llen(CONTROL_QUEUE) == 0


async def test_the_router_answers_over_https_and_reads_its_tables_over_tls(
    secure_url: str, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    config = read_config(
        {
            "REDIS_URL": secure_url,
            "TANDEM_CLUSTER_SECRET": "s",
            "TANDEM_DATA": str(tmp_path),
            "TANDEM_ROUTER_TLS_CERT_FILE": str(certificates.cert),
            "TANDEM_ROUTER_TLS_KEY_FILE": str(certificates.key),
        },
        port=0,
    )
    trust = ssl.create_default_context(cafile=str(certificates.ca))
    async with running(config) as router, aiohttp.ClientSession() as http:
        url = f"127.0.0.1:{router.port}/health/live"
        async with http.get(f"https://{url}", ssl=trust) as answer:
            assert answer.status == 200
        with pytest.raises(aiohttp.ClientError):
            await http.get(f"http://{url}")


def test_half_of_a_certificate_is_refused() -> None:
    with pytest.raises(ValueError, match="TLS_KEY_FILE are set together"):
        read_config({"REDIS_URL": "redis://h", "TANDEM_CLUSTER_SECRET": "s", "TANDEM_ROUTER_TLS_CERT_FILE": "c"})
