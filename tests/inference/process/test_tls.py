"""Claims about the settings of TLS between workers and those who call them."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from inference.process.tls import CA_FILE, CERT_FILE, KEY_FILE, read_client_tls, read_node_tls, speaks_tls
from inference.testing.tls import Certificates, make_certificates


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path)


def test_without_files_everything_is_in_clear() -> None:
    assert read_node_tls({CERT_FILE: ""}) is None
    assert read_client_tls({}) is None


def test_a_router_needs_the_authority_only(certificates: Certificates) -> None:
    assert read_client_tls({CA_FILE: str(certificates.ca)}) is not None


@pytest.mark.parametrize("missing", [CERT_FILE, KEY_FILE, CA_FILE])
def test_a_node_with_some_of_the_three_is_refused_naming_the_other(certificates: Certificates, missing: str) -> None:
    given = {name: path for name, path in certificates.of_node.items() if name != missing}
    with pytest.raises(ValueError, match=f"set without {missing}: a node needs all three"):
        read_node_tls(given)


@pytest.mark.parametrize("variable", [CERT_FILE, KEY_FILE, CA_FILE])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_that_can_not_be_used_is_named(
    certificates: Certificates, tmp_path: Path, variable: str, content: str | None
) -> None:
    path = tmp_path / "other.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=f"{variable}={path}"):
        read_node_tls(certificates.of_node | {variable: str(path)})


@pytest.mark.parametrize(("first", "secure"), [(b"\x16\x03\x01", True), (b"GET / HTTP/1.1", False), (b"TKV\0", False)])
async def test_tls_is_known_by_its_first_byte_which_stays_to_be_read(first: bytes, secure: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.sendall(first)
        async with asyncio.timeout(5):
            assert await speaks_tls(ours) is secure
        assert ours.recv(100) == first


async def test_a_caller_that_leaves_without_a_word_is_told_apart() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        ours.setblocking(False)
        theirs.close()
        with pytest.raises(ConnectionError):
            await speaks_tls(ours)
