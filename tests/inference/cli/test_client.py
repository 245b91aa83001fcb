"""One request, sent until it is answered; whatever comes back is read or told in a sentence."""

from __future__ import annotations

import httpx2
import pytest

from inference.cli.errors import ExitCode, Refused, Unreachable
from inference.contracts.answers import OperationAnswer
from inference.contracts.bodies.operations import ReasonBody
from inference.contracts.views.access import SessionView
from inference.contracts.views.models import ModelView
from tests.inference.cli.answers import LOGIN, Script, json, problem

SIGNED_OUT = {"user": None, "csrf": "c", "oidc": None}
GONE = httpx2.ConnectError("connection refused")
MODEL = {"name": "tiny", "path": "/m", "description": "", "created_at": "2026-03-01T12:00:00Z"}


def test_a_write_that_is_sent_again_bears_the_same_idempotency_key() -> None:
    control = Script([GONE, httpx2.ReadTimeout("slow"), json(None, 503), json(SIGNED_OUT)])

    control.client().write("POST", "/keys", ReasonBody(reason="lost"), SessionView)

    assert len(control.requests) == 4
    assert len({request.headers["Idempotency-Key"] for request in control.requests}) == 1
    assert {request.content for request in control.requests} == {b'{"reason":"lost"}'}


def test_two_writes_bear_two_keys() -> None:
    control = Script([json(SIGNED_OUT)])
    client = control.client()
    for _ in range(2):
        client.write("POST", "/keys", None, SessionView)
    assert len({request.headers["Idempotency-Key"] for request in control.requests}) == 2


def test_what_is_still_being_done_is_asked_again_after_the_pause_that_the_control_plane_names() -> None:
    busy = problem(409, "still_running", "In a moment.", **{"Retry-After": "3"})
    control = Script([busy, json(SIGNED_OUT)])
    control.client().write("POST", "/keys", None, SessionView)
    assert control.pauses == [3.0]


def test_a_conflict_is_told_at_once() -> None:
    control = Script([problem(409, "operation_conflict", "Operation 7 has it.")])
    with pytest.raises(Refused, match="Operation 7 has it") as refused:
        control.client().write("PATCH", "/pools/1", None, OperationAnswer)
    assert (refused.value.exit_code, len(control.requests)) == (ExitCode.CONFLICT, 1)


def test_a_pause_longer_than_anybody_waits_is_told_instead() -> None:
    control = Script([problem(429, "rate_limited", "Wait.", **{"Retry-After": "55"})])
    with pytest.raises(Refused, match="Wait"):
        control.client().get("/models", SessionView)
    assert control.pauses == []


def test_an_absent_control_plane_is_given_up_after_the_last_attempt_and_named() -> None:
    control = Script([GONE])
    with pytest.raises(Unreachable, match="http://control can't be reached") as gone:
        control.client(attempts=3).get("/session", SessionView)
    assert (gone.value.exit_code, len(control.requests), len(control.pauses)) == (ExitCode.UNREACHABLE, 3, 2)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, ExitCode.USAGE),
        (401, ExitCode.NOT_ALLOWED),
        (403, ExitCode.NOT_ALLOWED),
        (404, ExitCode.NOT_FOUND),
        (409, ExitCode.CONFLICT),
        (412, ExitCode.CONFLICT),
        (422, ExitCode.USAGE),
        (500, ExitCode.UNREACHABLE),
    ],
)
def test_each_refusal_has_its_exit_code_and_the_sentence_of_the_api(status: int, code: ExitCode) -> None:
    with pytest.raises(Refused, match="because so") as refused:
        Script([problem(status, "c", "because so")]).client().get("/x", SessionView)
    assert refused.value.exit_code == code


@pytest.mark.parametrize(
    "stranger",
    [
        httpx2.Response(200, content=b"<html>"),
        httpx2.Response(404, content=b"<html>"),
        httpx2.Response(302, headers={"Location": "https://login.example.org"}),
        json({"user": 7}),
        json([]),
    ],
)
def test_an_answer_of_something_else_is_never_taken_for_one(stranger: httpx2.Response) -> None:
    with pytest.raises((Unreachable, Refused)) as strange:
        Script([stranger]).client().get("/session", SessionView)
    assert strange.value.exit_code == ExitCode.UNREACHABLE


def test_the_token_does_not_follow_a_redirect() -> None:
    control = Script([httpx2.Response(302, headers={"Location": "https://elsewhere"})])
    with pytest.raises(Refused, match="leads to https://elsewhere"):
        control.client().get("/session", SessionView)
    assert len(control.requests) == 1


def test_a_list_is_read_to_its_last_page_and_keeps_what_this_program_does_not_know() -> None:
    pages = [{"items": [MODEL | {"new": 1}], "next": "c"}, {"items": [MODEL | {"name": "b"}], "next": None}]
    control = Script([json(page) for page in pages])

    found = control.client().items("/models", ModelView, name=None)

    assert [model.name for model in found.view] == ["tiny", "b"]
    assert found.raw == {"items": [MODEL | {"new": 1}, MODEL | {"name": "b"}], "next": None}
    assert [request.url.params.get("cursor") for request in control.requests] == [None, "c"]


def test_no_more_pages_are_asked_for_than_are_shown() -> None:
    control = Script([json({"items": [MODEL, MODEL], "next": "more"})])
    found = control.client().items("/models", ModelView, at_most=2)
    assert (len(found.view), len(control.requests), found.raw["next"]) == (2, 1, "more")


def test_no_message_or_representation_holds_the_token() -> None:
    client = Script([GONE]).client(attempts=1)
    with pytest.raises(Unreachable) as gone:
        client.get("/session", SessionView)
    assert LOGIN.token not in f"{gone.value}{gone.value!r}{client!r}{LOGIN!r}{LOGIN}"
