"""A person logs in, chats, and resizes decode while a stream runs: the first slice, seen through a browser."""

from __future__ import annotations

import re
import signal

import pytest
from playwright.sync_api import Page, expect

from tests.answers import LONG_PROMPT, Answer
from tests.stack import Stack

pytestmark = pytest.mark.e2e

READY_MS = 120_000


def sign_in(page: Page, stack: Stack, path: str = "/") -> None:
    page.goto(path)
    page.get_by_test_id("login-username").fill("admin")
    page.get_by_test_id("login-password").fill(stack.admin_password)
    page.get_by_test_id("login-submit").click()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()


def resize(page: Page, role: str, replicas: int) -> None:
    pool = page.get_by_test_id(f"pool-{role}")
    pool.get_by_test_id(f"replicas-{role}").fill(str(replicas))
    pool.get_by_role("button", name=f"Resize {role}", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_test_id("resize-after")).to_have_text(str(replicas))
    dialog.get_by_test_id("resize-confirm").click()
    expect(dialog).to_be_hidden()


def test_a_wrong_password_is_refused_in_words(page: Page) -> None:
    page.goto("/")
    page.get_by_test_id("login-username").fill("admin")
    page.get_by_test_id("login-password").fill("not the password")
    page.get_by_test_id("login-submit").click()
    expect(page.get_by_role("alert")).to_contain_text("password")
    expect(page.get_by_role("navigation", name="Main")).to_be_hidden()


def test_an_answer_streams_in_the_playground_with_its_stages(page: Page, stack: Stack) -> None:
    sign_in(page, stack, "/playground")
    page.get_by_test_id("playground-input").fill(LONG_PROMPT)
    page.get_by_test_id("playground-send").click()
    answer = page.get_by_test_id("answer").last
    expect(answer).to_have_attribute("data-state", "streaming")
    expect(answer.get_by_test_id("answer-text")).not_to_be_empty()
    expect(answer).to_have_attribute("data-state", "done", timeout=READY_MS)
    facts = answer.get_by_test_id("answer-facts")
    expect(facts).to_contain_text("TTFT")
    expect(facts).to_contain_text("TPOT")
    expect(facts).to_contain_text("prefill-1")
    expect(facts).to_contain_text("decode-1")
    segments = answer.get_by_test_id("waterfall-segment")
    seconds = [float(segment.get_attribute("data-seconds") or "nan") for segment in segments.all()]
    total = float(answer.get_by_test_id("waterfall").get_attribute("data-total") or "nan")
    assert len(seconds) >= 3
    assert sum(seconds) == pytest.approx(total, abs=1e-6)


def test_stop_ends_an_answer_and_frees_its_worker(page: Page, stack: Stack) -> None:
    sign_in(page, stack, "/playground")
    page.get_by_test_id("playground-input").fill("Write a very long story about two riders on one bike.")
    page.get_by_test_id("playground-send").click()
    answer = page.get_by_test_id("answer").last
    expect(answer.get_by_test_id("answer-text")).not_to_be_empty()
    page.get_by_test_id("playground-stop").click()
    expect(answer).to_have_attribute("data-state", "stopped")
    page.get_by_role("link", name="Pools").click()
    for role in ("prefill", "decode"):
        expect(page.get_by_test_id(f"pool-{role}").get_by_test_id("worker-running")).to_have_text("0", timeout=20_000)


def test_decode_is_resized_to_two_and_back_while_a_stream_runs(page: Page, stack: Stack) -> None:
    sign_in(page, stack, "/pools")
    decode = page.get_by_test_id("pool-decode")
    ready = decode.locator("[data-testid=worker-row][data-phase=ready]")
    expect(ready).to_have_count(1)

    resize(page, "decode", 2)
    operation = page.get_by_test_id("operation").first
    expect(operation).to_have_attribute("data-state", "succeeded", timeout=READY_MS)
    expect(ready).to_have_count(2)
    expect(page.locator("[data-testid=worker-row][data-phase=ready]")).to_have_count(3)

    answers = [Answer(stack, tokens=120).start() for _ in range(2)]
    resize(page, "decode", 1)
    expect(ready).to_have_count(1, timeout=READY_MS)
    assert all(answer.is_whole() for answer in answers)
    expect(decode.get_by_test_id("worker-row")).to_have_count(1, timeout=READY_MS)
    expect(page.get_by_test_id("operation").first).to_have_attribute("data-state", "succeeded", timeout=READY_MS)


def test_the_overview_shows_live_latencies(page: Page, stack: Stack) -> None:
    sign_in(page, stack)
    expect(page.get_by_test_id("connection").filter(visible=True)).to_have_attribute("data-phase", "live")
    assert Answer(stack, tokens=8).start().is_whole()
    expect(page.get_by_role("img", name=re.compile(r"TTFT: p50 \d"))).to_be_visible(timeout=15_000)
    assert Answer(stack, tokens=8).start().is_whole()
    page.get_by_role("link", name="Pools").click()
    for role, figure in (("prefill", "pool-ttft"), ("decode", "pool-tpot")):
        row = page.get_by_test_id(f"pool-{role}").get_by_test_id(figure)
        expect(row).to_contain_text(re.compile(r"\d m?s"), timeout=15_000)


def test_the_console_says_when_it_is_stale_and_catches_up_by_itself(page: Page, stack: Stack) -> None:
    sign_in(page, stack, "/pools")
    connection = page.get_by_test_id("connection").filter(visible=True)
    expect(connection).to_have_attribute("data-phase", "live")
    (redis,) = stack.find(f"127.0.0.1:{stack.redis_port}")
    redis.send_signal(signal.SIGSTOP)
    try:
        expect(page.get_by_test_id("connection-banner")).to_be_visible(timeout=30_000)
        expect(connection).not_to_have_attribute("data-phase", "live")
    finally:
        redis.send_signal(signal.SIGCONT)
    expect(connection).to_have_attribute("data-phase", "live", timeout=60_000)
    expect(page.get_by_test_id("connection-banner")).to_be_hidden()


def test_the_fleet_shows_this_machine_and_who_holds_its_devices(page: Page, stack: Stack) -> None:
    sign_in(page, stack, "/fleet")
    node = page.get_by_test_id("node")
    expect(node).to_have_count(1)
    expect(node).to_contain_text("local")
    expect(node.locator("[data-testid=device][data-free]")).not_to_have_count(0)
    expect(node).to_contain_text("prefill-1")


def test_a_rebalance_is_previewed_then_confirmed_and_flips_a_worker(page: Page, stack: Stack) -> None:
    sign_in(page, stack, "/pools")
    resize(page, "decode", 2)
    expect(page.locator("[data-testid=worker-row][data-phase=ready]")).to_have_count(3, timeout=READY_MS)
    expect(page.get_by_test_id("operation").first).to_have_attribute("data-state", "succeeded", timeout=READY_MS)

    page.get_by_role("button", name="Rebalance", exact=True).click()
    dialog = page.get_by_test_id("rebalance-dialog").get_by_role("dialog")
    dialog.get_by_role("button", name="One prefill worker more").click()
    expect(dialog.get_by_test_id("rebalance-decode")).to_have_text("1")
    expect(dialog.get_by_test_id("preview-flip")).to_contain_text("decode to prefill")
    expect(dialog.get_by_test_id("preview-devices")).to_contain_text("3 devices")
    dialog.get_by_label("Reason").fill("Long prompts")
    dialog.get_by_test_id("operate-confirm").click()
    expect(dialog).to_be_hidden()
    prefill = page.get_by_test_id("pool-prefill").locator("[data-testid=worker-row][data-phase=ready]")
    expect(prefill).to_have_count(2, timeout=READY_MS)
    expect(page.get_by_test_id("operation").first).to_have_attribute("data-state", "succeeded", timeout=READY_MS)

    page.get_by_role("link", name="Operations").click()
    row = page.get_by_test_id("operation-row").filter(has_text="Rebalance").first
    expect(row).to_contain_text("Long prompts")
    row.click()
    detail = page.get_by_test_id("operation-detail")
    expect(detail).to_have_attribute("data-state", "succeeded")
    expect(detail.get_by_test_id("step")).not_to_have_count(0)
    expect(detail.get_by_test_id("preview-flip")).to_be_visible()


def test_an_operation_is_cancelled_and_what_was_wanted_before_is_wanted_again(page: Page, stack: Stack) -> None:
    sign_in(page, stack, "/pools")
    pool = page.get_by_test_id("pool-decode")
    before = pool.get_by_test_id("replicas-decode").input_value()
    resize(page, "decode", int(before) + 2)
    page.get_by_test_id("operation").first.get_by_role("link", name="Details").click()
    detail = page.get_by_test_id("operation-detail")
    detail.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_test_id("cancel-dialog").get_by_role("dialog")
    dialog.get_by_label("Reason").fill("The wrong pool")
    dialog.get_by_test_id("operate-confirm").click()
    expect(detail).to_have_attribute("data-state", "cancelled")
    page.goto("/pools")
    expect(pool.get_by_test_id("replicas-decode")).to_have_value(before)
    expect(pool.get_by_test_id("worker-row")).to_have_count(int(before), timeout=READY_MS)


def test_a_node_is_cordoned_with_a_reason_and_uncordoned(page: Page, stack: Stack) -> None:
    sign_in(page, stack, "/fleet")
    node = page.get_by_test_id("node")
    for action, desired in (("Cordon", "cordoned"), ("Uncordon", "active")):
        node.get_by_role("button", name="More about local").click()
        page.get_by_role("menuitem", name=action, exact=True).click()
        dialog = page.get_by_test_id(f"{action.lower()}-dialog").get_by_role("dialog")
        dialog.get_by_label("Reason").fill("Memory test")
        dialog.get_by_test_id("operate-confirm").click()
        expect(dialog).to_be_hidden()
        expect(node).to_have_attribute("data-desired", desired)
    page.get_by_role("link", name="Audit").click()
    entry = page.get_by_test_id("audit-row").filter(has_text="active → cordoned").first
    expect(entry).to_contain_text("Memory test")
