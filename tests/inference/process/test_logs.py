"""What a process logs, and what it does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import os, structlog
from inference.process.logs import configure_logging
configure_logging(os.environ)
log = structlog.get_logger()
def fail(cluster_secret):
    raise RuntimeError("broke")
with structlog.contextvars.bound_contextvars(request_id="req-7"):
    log.info("answered", tokens=3)
    try:
        fail("do-not-" + "tell")
    except RuntimeError:
        log.exception("failed")
"""


def logged(**env: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    return done.stderr.splitlines()


@pytest.mark.parametrize("env", [{}, {"TANDEM_LOG_JSON": "1"}])
def test_every_line_of_a_request_names_it_and_tracebacks_show_no_variables(env: dict[str, str]) -> None:
    lines = logged(**env)
    assert all("req-7" in line for line in lines if "answered" in line or "failed" in line)
    assert "RuntimeError: broke" in "\n".join(lines)
    assert "do-not-tell" not in "\n".join(lines)


def test_json_lines_are_json_and_the_level_can_be_set() -> None:
    (line,) = logged(TANDEM_LOG_JSON="1", TANDEM_LOG_LEVEL="error")
    assert json.loads(line)["event"] == "failed"


def test_a_process_whose_log_can_not_be_written_goes_on() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM + "print('went on')"],
            cwd=ROOT, env={}, stderr=full, stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.stdout == "went on\n"
