"""Servers and processes go away while answers are written: answers end whole, and everything catches up by itself."""

from __future__ import annotations

import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import psutil
import pytest

from tests.answers import Answer
from tests.postgres_server import PostgresServer
from tests.rest import Operator, Refused, wait_for
from tests.stack import MODEL, Stack

pytestmark = pytest.mark.chaos

CATCH_UP_S = 120.0


def health(stack: Stack) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(f"{stack.console_url}/healthz", timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def only(processes: list[psutil.Process]) -> psutil.Process:
    assert len(processes) == 1, [process.cmdline() for process in processes]
    return processes[0]


def worker_process(stack: Stack, operator: Operator, role: str) -> psutil.Process:
    worker = only_ready(operator, role)
    return only(stack.find("inference.worker", worker["id"]))


def only_ready(operator: Operator, role: str) -> dict[str, str]:
    ready = [worker for worker in operator.pool(MODEL, role)["workers"] if worker["phase"] == "ready"]
    assert len(ready) == 1
    return ready[0]


@pytest.fixture(autouse=True)
def one_of_each(stack: Stack, operator: Operator) -> Iterator[None]:
    """Each test begins and ends with one ready worker of each role."""

    def as_it_was() -> bool:
        return all(operator.pool(MODEL, role)["ready"] == 1 for role in ("prefill", "decode"))

    wait_for(as_it_was, CATCH_UP_S)
    yield
    wait_for(as_it_was, CATCH_UP_S)


def test_redis_is_killed_while_streams_run(stack: Stack, operator: Operator) -> None:
    running = Answer(stack, tokens=100).start()
    server = only(stack.find(f"127.0.0.1:{stack.redis_port}"))
    server.kill()
    fresh = Answer(stack, tokens=5).start()
    assert fresh.is_whole()
    assert running.is_whole()
    wait_for(lambda: health(stack)[0] == 200, CATCH_UP_S)
    for replicas in (2, 1):
        operation = wait_for(lambda replicas=replicas: operator.resize(MODEL, "decode", replicas), CATCH_UP_S)
        assert operator.wait_for_operation(operation)["state"] == "succeeded"


def test_redis_is_frozen_while_a_resize_is_asked_for(stack: Stack, operator: Operator) -> None:
    running = Answer(stack, tokens=100).start()
    server = only(stack.find(f"127.0.0.1:{stack.redis_port}"))
    server.send_signal(signal.SIGSTOP)
    try:
        operation = operator.resize(MODEL, "decode", 2)
        time.sleep(5)
    finally:
        server.send_signal(signal.SIGCONT)
    assert running.is_whole()
    assert operator.wait_for_operation(operation, CATCH_UP_S)["state"] == "succeeded"
    assert operator.wait_for_operation(operator.resize(MODEL, "decode", 1))["state"] == "succeeded"


def test_the_database_is_stopped_while_streams_run(stack: Stack, operator: Operator, postgres: PostgresServer) -> None:
    running = Answer(stack, tokens=100).start()
    postgres.stop()
    try:
        status, said = health(stack)
        assert status == 503
        assert "database" in json.dumps(said)
        assert Answer(stack, tokens=5).start().is_whole()
        assert running.is_whole()
        with pytest.raises(Refused) as refused:
            operator.get("/deployments")
        assert refused.value.status == 503
    finally:
        postgres.start()
    wait_for(lambda: health(stack)[0] == 200, CATCH_UP_S)
    for replicas in (2, 1):
        operation = wait_for(lambda replicas=replicas: operator.resize(MODEL, "decode", replicas), CATCH_UP_S)
        assert operator.wait_for_operation(operation)["state"] == "succeeded"


def test_a_killed_agent_comes_back_and_adopts_its_workers(stack: Stack, operator: Operator) -> None:
    before = {process.pid for process in stack.find("-m inference.worker")}
    running = Answer(stack, tokens=100).start()
    only(stack.find("-m inference.agent")).kill()
    assert Answer(stack, tokens=5).start().is_whole()
    assert running.is_whole()
    wait_for(lambda: stack.find("-m inference.agent"), CATCH_UP_S)
    operation = wait_for(lambda: operator.resize(MODEL, "decode", 2), CATCH_UP_S)
    assert operator.wait_for_operation(operation)["state"] == "succeeded"
    assert before < {process.pid for process in stack.find("-m inference.worker")}
    assert operator.wait_for_operation(operator.resize(MODEL, "decode", 1))["state"] == "succeeded"


def test_a_killed_decode_worker_is_started_again(stack: Stack, operator: Operator) -> None:
    killed = worker_process(stack, operator, "decode")
    killed.kill()
    wait_for(lambda: operator.pool(MODEL, "decode")["ready"] == 0, 30, every_s=0.1)
    wait_for(lambda: operator.pool(MODEL, "decode")["ready"] == 1, CATCH_UP_S)
    assert worker_process(stack, operator, "decode").pid != killed.pid
    wait_for(lambda: Answer(stack, tokens=5).start().is_whole(), CATCH_UP_S)


def test_a_model_that_is_none_fails_alone_with_its_last_words(stack: Stack, operator: Operator) -> None:
    operator.post("/models", name="nothing", path="/nowhere/at-all")
    operator.post("/deployments", name="broken", model="nothing", prefill=1, decode=1)

    def failed() -> object:
        workers = operator.pool("broken", "decode")["workers"]
        return next((worker for worker in workers if worker["phase"] == "failed"), None)

    worker = wait_for(failed, CATCH_UP_S)
    assert "/nowhere/at-all" in worker["reason"]
    assert any("/nowhere/at-all" in line for line in worker["log_tail"])
    deploy = next(each for each in operator.items("/operations") if each["target"] == "broken")
    assert operator.wait_for_operation(deploy["id"])["state"] == "failed"
    assert Answer(stack, tokens=5).start().is_whole()
    removal = operator.delete("/deployments/broken")["operation"]["id"]
    assert operator.wait_for_operation(removal)["state"] == "succeeded"
