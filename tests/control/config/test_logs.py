from __future__ import annotations

import json
import logging
import logging.config
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
import structlog

from controlplane.config.logs import configure_structlog, logging_config


@pytest.fixture
def written() -> StringIO:
    return StringIO()


@pytest.fixture
def handler(request: pytest.FixtureRequest, written: StringIO) -> Iterator[None]:
    """One more handler at the root, made from the product's configuration; `request.param`: as JSON or as lines."""
    config = logging_config("INFO", as_json=request.param)
    build: Any = logging.config.DictConfigurator(config)
    handler = logging.StreamHandler(written)
    handler.setFormatter(build.configure_formatter(config["formatters"]["lines"]))
    logging.getLogger().addHandler(handler)
    before = structlog.get_config()
    configure_structlog()  # a test of another process's command may have had it its own way
    yield
    structlog.configure(**before)
    logging.getLogger().removeHandler(handler)
    structlog.contextvars.clear_contextvars()


@pytest.mark.parametrize("handler", [True], indirect=True)
def test_ours_and_the_libraries_lines_look_alike_and_carry_the_request_id(handler: None, written: StringIO) -> None:
    structlog.contextvars.bind_contextvars(request_id="r1")
    structlog.get_logger("ours").warning("node lost", node="n1")
    logging.getLogger("theirs").warning("took %d ms", 7)

    ours, theirs = (json.loads(line) for line in written.getvalue().splitlines())
    assert (ours["event"], ours["node"], ours["logger"]) == ("node lost", "n1", "ours")
    assert (theirs["event"], theirs["logger"]) == ("took 7 ms", "theirs")
    assert ours["request_id"] == theirs["request_id"] == "r1"
    assert ours.keys() - {"node"} == theirs.keys()


@pytest.mark.parametrize("handler", [True, False], indirect=True)
def test_a_traceback_does_not_show_local_variables(handler: None, written: StringIO) -> None:
    password = "hunter2"
    try:
        raise ValueError(len(password))
    except ValueError:
        structlog.get_logger("ours").exception("failed")

    assert "ValueError" in written.getvalue()
    assert "hunter2" not in written.getvalue()


@pytest.mark.parametrize("handler", [False], indirect=True)
def test_what_somebody_else_chose_can_not_begin_a_line_or_steer_a_terminal(handler: None, written: StringIO) -> None:
    structlog.get_logger("ours").info("login refused", username="ada\n[info] login accepted \x1b[2J 한글")

    (line,) = written.getvalue().splitlines()
    assert "\x1b" not in line
    assert "ada\\n" in line.replace("\\\\", "\\")
    assert "한글" in line
