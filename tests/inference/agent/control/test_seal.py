from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from inference.agent import tasks
from inference.agent.control.acceptance import SpecRefused
from inference.agent.control.inbox import Inbox
from inference.agent.control.seal import Seal, WrongCode
from inference.contracts.auth import sign_message
from inference.contracts.codec import encode_text
from inference.contracts.names import TASK_APPLY_NODE_SPEC, TASK_RECORD_NODE_REPORT, TASK_SEND_LOG
from inference.contracts.specs import LogRequest, NodeSpec

KEY = "k" * 64


def test_a_message_with_its_code_passes_and_any_other_is_refused_and_counted() -> None:
    seal = Seal(KEY)
    seal.check(TASK_APPLY_NODE_SPEC, "spec", sign_message(KEY, TASK_APPLY_NODE_SPEC, "spec"))
    wrong = {
        "none at all": "",
        "of another message": sign_message(KEY, TASK_APPLY_NODE_SPEC, "another"),
        "of another task": sign_message(KEY, TASK_SEND_LOG, "spec"),
        "of another key": sign_message("x", TASK_APPLY_NODE_SPEC, "spec"),
        "no text": "\udcff",
    }
    for code in wrong.values():
        with pytest.raises(WrongCode):
            seal.check(TASK_APPLY_NODE_SPEC, "spec", code)
    assert seal.refused == len(wrong)


def test_a_node_of_the_previous_release_takes_messages_until_it_has_a_key_and_then_never_again() -> None:
    seal = Seal("")
    seal.check(TASK_APPLY_NODE_SPEC, "spec", "")
    assert seal.code(TASK_RECORD_NODE_REPORT, "report") == ""
    seal.use(KEY)
    with pytest.raises(WrongCode, match="carries no authentication code"):
        seal.check(TASK_APPLY_NODE_SPEC, "spec", "")
    assert seal.code(TASK_RECORD_NODE_REPORT, "report") == sign_message(KEY, TASK_RECORD_NODE_REPORT, "report")
    seal.use("")
    assert seal.has_key, "an empty key never replaces one"


class Agent:
    """The tasks of an agent without a broker."""

    def __init__(self, key: str) -> None:
        self.seal = Seal(key)
        self.specs: list[NodeSpec] = []
        self.requests: list[LogRequest] = []
        self.inbox = Inbox(seal=self.seal, submit=self._submit, send_log=self.requests.append)
        self.app = Celery(set_as_current=False, fixups=[])
        tasks.register(self.app, self.inbox)

    def _submit(self, spec: NodeSpec) -> bool:
        if spec.node_id != "n":
            raise SpecRefused("not this node's")
        self.specs.append(spec)
        return True

    def receive(self, task: str, *args: Any) -> None:
        self.app.tasks[task](*args)


def spec(generation: int, node: str = "n") -> str:
    return encode_text(NodeSpec(node_id=node, generation=generation, workers=()))


def test_only_a_spec_with_its_code_is_submitted_and_nothing_that_arrives_breaks_the_consumer() -> None:
    agent = Agent(KEY)
    agent.receive(TASK_APPLY_NODE_SPEC, spec(1), sign_message(KEY, TASK_APPLY_NODE_SPEC, spec(1)))
    agent.receive(TASK_APPLY_NODE_SPEC, spec(2))
    agent.receive(TASK_APPLY_NODE_SPEC, spec(3), sign_message(KEY, TASK_APPLY_NODE_SPEC, spec(1)))
    agent.receive(TASK_APPLY_NODE_SPEC, "no json", sign_message(KEY, TASK_APPLY_NODE_SPEC, "no json"))
    other = spec(4, node="another")
    agent.receive(TASK_APPLY_NODE_SPEC, other, sign_message(KEY, TASK_APPLY_NODE_SPEC, other))
    assert [taken.generation for taken in agent.specs] == [1]
    assert agent.seal.refused == 2
    assert agent.inbox.taken == 5, "whatever comes of a message, the consumer took it"


def test_a_log_is_sent_only_to_whoever_proves_to_be_the_control_plane() -> None:
    request = encode_text(LogRequest(request_id="r", worker_id="w"))
    code = sign_message(KEY, TASK_SEND_LOG, request)
    agent = Agent(KEY)
    agent.receive(TASK_SEND_LOG, request, code)
    agent.receive(TASK_SEND_LOG, request, "0" * 64)
    agent.receive(TASK_SEND_LOG, request)
    assert [sent.worker_id for sent in agent.requests] == ["w"]
    keyless = Agent("")
    keyless.receive(TASK_SEND_LOG, request, "")
    assert keyless.requests == [], "without a key nobody can prove that"


def test_the_agents_own_files_hold_the_key_for_the_owner_only(tmp_path: Path) -> None:
    from inference.agent.state_dir import Membership, StateDir
    from inference.contracts.reports import NodeWelcome

    state = StateDir(tmp_path)
    welcome = NodeWelcome(node_id="n", name="n", redis_url="r", cluster_secret="s", report_interval_s=1.0, node_key=KEY)
    state.save_membership(Membership(url="u", address="a", welcome=welcome))
    assert state.membership is not None
    assert state.membership.welcome.node_key == KEY
    assert (tmp_path / "agent.json").stat().st_mode & 0o077 == 0
