"""One running Tandem and one browser for all end-to-end tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.stack import Stack, running_stack

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


# Of the package, not the session: the machine has room for one stack at a time.
@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory, default_model_dir: Path) -> Iterator[Stack]:
    # Six slots: room for the default deployment and for those that tests add.
    with running_stack(tmp_path_factory.mktemp("data"), default_model_dir, {"TANDEM_CPU_SLOTS": "6"}) as running:
        yield running


# Of the package, too: while it is open its event loop counts as running, and no async test can have one of its own.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.fail("Chromium is missing: apt-get install chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=CHROMIUM_FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser, stack: Stack) -> Iterator[Page]:
    context = browser.new_context(base_url=stack.console_url, viewport={"width": 1360, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(30_000)
    yield opened
    context.close()
