"""Claims about console and agent over HTTPS, with the very command line that `make up` uses."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from controlplane.launch.layout import Layout, layout_from_environment
from controlplane.launch.services import tandem_services
from inference.testing.tls import make_certificates
from tests.control.core.test_control_worker import running, wait_for
from tests.stack import ROOT, free_ports

_HELLO = """
import asyncio, sys
from inference.agent.control.api import HELLO_PATH, Call, post, session
async def hello():
    async with session() as http:
        await post(http, Call(sys.argv[1], HELLO_PATH, "Bearer nobody", b"{}"))
asyncio.run(hello())
"""


def test_an_agent_talks_to_a_control_plane_that_its_authority_vouches_for_and_to_no_other(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    (port,) = free_ports(1)
    plain = Layout(ROOT, tmp_path, "127.0.0.1", port, 1, 2, own_redis=True)
    layout = replace(plain, tls_cert=str(made.cert), tls_key=str(made.key))
    console = next(service for service in tandem_services(layout, None) if service.name == "console")
    environment = {
        **os.environ,
        "TANDEM_DATA": str(tmp_path),
        "DATABASE_URL": "",
        "TANDEM_SECRET_KEY": "tests",
        "TANDEM_CLUSTER_SECRET": "tests",
        "DJANGO_SETTINGS_MODULE": "controlplane.config.settings",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "platform"), str(ROOT)]),
    }

    def hello(**more: str) -> str:
        argv = [sys.executable, "-c", _HELLO, layout.console_url]
        done = subprocess.run(argv, cwd=ROOT, env={**environment, **more}, capture_output=True, text=True, check=False)
        return done.stderr

    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(console.argv, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    with running(process):
        assert wait_for(lambda: "Uvicorn running on https://" in log.read_text()), log.read_text()
        assert "CERTIFICATE_VERIFY_FAILED" in hello()
        assert "the control plane refused this node" in hello(SSL_CERT_FILE=str(made.ca))


def test_console_and_router_speak_tls_together(tmp_path: Path) -> None:
    layout = Layout(ROOT, tmp_path, "10.0.0.5", 1, 2, 3, own_redis=True, tls_cert="c", tls_key="k")
    services = {service.name: service for service in tandem_services(layout, None)}

    assert (layout.console_url, layout.router_url) == ("https://10.0.0.5:1", "https://10.0.0.5:2")
    assert services["router"].environment == {
        "TANDEM_ROUTER_TLS_CERT_FILE": "c",
        "TANDEM_ROUTER_TLS_KEY_FILE": "k",
    }
    assert layout.console_url in services["agent"].argv


def test_half_of_a_certificate_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TANDEM_TLS_CERT_FILE", str(tmp_path / "cert.pem"))
    with pytest.raises(ImproperlyConfigured, match="are set together"):
        layout_from_environment()
    monkeypatch.setenv("TANDEM_TLS_KEY_FILE", str(tmp_path / "key.pem"))
    with pytest.raises(ImproperlyConfigured, match="which is no file"):
        layout_from_environment()
