from __future__ import annotations

from pathlib import Path

import redis

from inference.agent.control.log_reply import KEPT_S, log_reply, send_log_reply
from inference.agent.state_dir import StateDir
from inference.contracts.codec import decode
from inference.contracts.names import log_reply_key
from inference.contracts.reports import LogReply
from inference.contracts.specs import LogRequest
from inference.contracts.states import LogRun
from inference.testing.valkey import ValkeyServer


def state_with_log(folder: Path) -> StateDir:
    state = StateDir(folder / "agent")
    log = state.log_file("w1")
    log.parent.mkdir(parents=True)
    log.write_text("one\ntwo\n\x1b[31mthree\n")
    return state


def ask(state: StateDir, worker_id: str, **changes: object) -> LogReply:
    return log_reply(state, LogRequest(request_id="r", worker_id=worker_id, **changes))  # type: ignore[arg-type]


def test_the_last_lines_are_read_and_safe_to_show(tmp_path: Path) -> None:
    state = state_with_log(tmp_path)
    assert ask(state, "w1").lines == ("one", "two", "three")
    assert ask(state, "w1", lines=2).lines == ("two", "three")
    assert ask(state, "w1", lines=-5).lines == ("three",)


def test_a_log_that_is_not_here_is_told_and_no_path_is_followed(tmp_path: Path) -> None:
    state = state_with_log(tmp_path)
    assert ask(state, "w2").error == "this node holds no log of the current run of worker w2"
    assert ask(state, "w1", run=LogRun.PREVIOUS).error == "this node holds no log of the previous run of worker w1"
    for worker_id in ("../w1", "/etc/passwd", "", "w1/.."):
        assert ask(state, worker_id).error == f"{worker_id!r} can't be a worker's id"


def test_the_answer_comes_in_one_piece_and_expires(tmp_path: Path) -> None:
    state = state_with_log(tmp_path)
    with ValkeyServer(tmp_path / "valkey") as server, redis.Redis.from_url(server.url) as broker:
        send_log_reply(broker, state, LogRequest(request_id="r", worker_id="w1"))
        [piece] = broker.lrange(log_reply_key("r"), 0, -1)
        assert decode(piece, LogReply) == LogReply(lines=("one", "two", "three"))
        assert 0 < broker.ttl(log_reply_key("r")) <= KEPT_S
        server.stop()
        send_log_reply(broker, state, LogRequest(request_id="r", worker_id="w1"))  # whoever waited asks again
