"""A router with a certificate speaks TLS, and nothing else, on its port."""

from __future__ import annotations

import dataclasses
import ssl
from pathlib import Path

import aiohttp
import pytest

from inference.router.app import running
from inference.testing.tls import make_certificates
from tests.inference.router.conftest import KEY, MODEL, SHORT, Bench


async def test_requests_are_answered_over_tls_and_not_in_clear(bench: Bench, tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    bench.pair()
    await bench.start()
    config = dataclasses.replace(
        bench.router.config, tls_cert=str(made.cert), tls_key=str(made.key), data_dir=tmp_path / "data"
    )
    body = {"model": MODEL, "messages": [{"role": "user", "content": SHORT}]}
    trusting = ssl.create_default_context(cafile=made.ca)
    async with running(config) as router, aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as client:
        address = f"127.0.0.1:{router.port}/v1/chat/completions"
        async with client.post(f"https://{address}", json=body, ssl=trusting) as answer:
            assert (answer.status, (await answer.json())["model"]) == (200, MODEL)
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await client.post(f"https://{address}", json=body)
        with pytest.raises(aiohttp.ClientError):
            await client.post(f"http://{address}", json=body)
