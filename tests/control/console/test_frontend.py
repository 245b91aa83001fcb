"""The built console and Django's own static files, as a browser asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import AsyncClient
from pytest_django.fixtures import Settings

PAGE = "<!doctype html><title>Tandem</title>"


@pytest.fixture
def dist(tmp_path: Path, settings: Settings) -> Path:
    """A built console, with something beside it that is nobody's business."""
    folder = tmp_path / "dist"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "favicon.svg").write_text("<svg/>")
    (folder / "assets" / "index-B4xy.js").write_text("export {}")
    (folder / "assets" / "inter-C1z.woff2").write_bytes(b"\x00\x01")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "dist-old").mkdir()
    (tmp_path / "dist-old" / "index.html").write_text("secret")
    settings.FRONTEND_DIST = folder
    return folder


@pytest.mark.parametrize("path", ["/", "/pools", "/pools/decode?tab=log", "/fleet/", "/index.html"])
async def test_every_address_of_the_consoles_own_router_is_the_page(
    dist: Path, async_client: AsyncClient, path: str
) -> None:
    answer = await async_client.get(path)
    assert answer.status_code == 200
    assert answer.content.decode() == PAGE
    assert answer["Content-Type"] == "text/html; charset=utf-8"
    assert answer["Cache-Control"] == "no-cache"
    assert "script-src 'self'" in answer["Content-Security-Policy"]


async def test_files_named_by_their_content_may_be_kept_for_ever(dist: Path, async_client: AsyncClient) -> None:
    answer = await async_client.get("/assets/index-B4xy.js")
    assert answer.content == b"export {}"
    assert answer["Content-Type"] == "text/javascript; charset=utf-8"
    assert "immutable" in answer["Cache-Control"]


@pytest.mark.parametrize(
    ("path", "kind"), [("/favicon.svg", "image/svg+xml"), ("/assets/inter-C1z.woff2", "font/woff2")]
)
async def test_content_types_do_not_depend_on_the_machine(
    dist: Path, async_client: AsyncClient, path: str, kind: str
) -> None:
    assert (await async_client.get(path))["Content-Type"] == kind


async def test_a_file_of_an_earlier_build_is_not_answered_with_the_page(dist: Path, async_client: AsyncClient) -> None:
    answer = await async_client.get("/assets/index-OLD1.js")
    assert answer.status_code == 404
    assert b"load the page again" in answer.content


async def test_what_the_browser_has_already_is_not_sent_again(dist: Path, async_client: AsyncClient) -> None:
    first = await async_client.get("/")
    again = await async_client.get("/", headers={"if-none-match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    (dist / "index.html").write_text(PAGE + "<p>new")
    changed = await async_client.get("/", headers={"if-none-match": first["ETag"]})
    assert changed.status_code == 200
    assert changed["ETag"] != first["ETag"]


@pytest.mark.parametrize(
    "path",
    [
        "/../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/assets/../../secret",
        "/assets/%2e%2e/%2e%2e/secret",
        "//etc/passwd",
        "/%2fetc/passwd",
        "/../dist-old/index.html",
        "/..\\secret",
        "/%00",
        "/assets/%00",
        "/static/../../settings.py",
        "/static/%2e%2e/%2e%2e/config/settings.py",
        "/static//etc/passwd",
        "/static/%00",
    ],
)
async def test_nothing_outside_of_the_console_can_be_read(dist: Path, async_client: AsyncClient, path: str) -> None:
    answer = await async_client.get(path)
    assert b"secret" not in answer.content
    assert b"root:" not in answer.content
    assert answer.status_code == 404 or answer.content.decode() == PAGE


@pytest.mark.parametrize(("path", "status"), [("/" + "a" * 5000, 200), ("/static/" + "a" * 5000, 404)])
async def test_an_address_too_long_for_a_file_is_no_fault_of_ours(
    dist: Path, async_client: AsyncClient, path: str, status: int
) -> None:
    assert (await async_client.get(path)).status_code == status


async def test_a_console_that_is_not_built_says_so(
    tmp_path: Path, settings: Settings, async_client: AsyncClient
) -> None:
    settings.FRONTEND_DIST = tmp_path / "nothing"
    answer = await async_client.get("/pools")
    assert answer.status_code == 503
    assert b"not built yet" in answer.content
    assert answer["Cache-Control"] == "no-store"


async def test_only_reading_is_allowed(dist: Path, async_client: AsyncClient) -> None:
    assert (await async_client.post("/pools")).status_code == 405
    head = await async_client.head("/pools")
    assert head.status_code == 200


async def test_the_api_page_finds_its_files(async_client: AsyncClient) -> None:
    answer = await async_client.get("/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui.css")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/css; charset=utf-8"
    assert (await async_client.get("/static/no/such.css")).status_code == 404
    assert (await async_client.get("/static/drf_spectacular_sidecar/")).status_code == 404


async def test_an_unknown_endpoint_is_not_answered_with_the_page(dist: Path, async_client: AsyncClient) -> None:
    answer = await async_client.get("/api/v1/nonsense")
    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"
