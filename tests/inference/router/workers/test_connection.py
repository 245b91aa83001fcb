"""What of an answer is read at once, and what waits for its turn."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from inference.router.turns import Turns
from inference.router.workers.connection import Connection

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Receiver:
    def __init__(self) -> None:
        self.told: list[object] = []

    def head(self, status: int) -> None:
        self.told.append(status)

    def body(self, data: bytes) -> None:
        self.told.append(data)

    def end(self) -> None:
        self.told.append("end")

    def lost(self, error: Exception) -> None:
        self.told.append(type(error))


class ByHand(Turns):
    """Waiting connections have their turn when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Connection] = []

    def wait_to_read(self, reader: Connection) -> None:  # type: ignore[override]
        self.waiting.append(reader)


@pytest.fixture
def turns() -> ByHand:
    return ByHand()


@pytest.fixture
def free() -> Mock:
    return Mock()


@pytest.fixture
def connection(turns: ByHand, free: Mock) -> Connection:
    made = Connection(free, Mock(), turns)
    made.connection_made(Mock(is_closing=Mock(return_value=False)))
    return made


def test_an_answer_is_read_as_it_comes_until_its_receiver_can_wait(connection: Connection, turns: ByHand) -> None:
    receiver = Receiver()
    connection.send(b"", receiver)
    connection.data_received(HEAD + b"1\r\na\r\n")
    connection.unhurried = True
    connection.data_received(b"1\r\nb\r\n")
    connection.data_received(b"1\r\nc\r\n")
    assert receiver.told == [200, b"a"]
    assert turns.waiting == [connection]
    connection.read_now()
    assert receiver.told == [200, b"a", b"bc"]


def test_the_next_call_on_a_connection_is_in_a_hurry_again(connection: Connection, turns: ByHand, free: Mock) -> None:
    connection.send(b"", Receiver())
    connection.unhurried = True
    connection.data_received(HEAD + b"0\r\n\r\n")
    connection.read_now()
    free.assert_called_once_with(connection)
    receiver = Receiver()
    connection.send(b"", receiver)
    connection.data_received(HEAD + b"0\r\n\r\n")
    assert receiver.told == [200, "end"]


def test_what_waits_when_a_connection_breaks_is_told_before_that(connection: Connection, turns: ByHand) -> None:
    receiver = Receiver()
    connection.send(b"", receiver)
    connection.unhurried = True
    connection.data_received(HEAD + b"1\r\na\r\n")
    connection.connection_lost(None)
    assert receiver.told == [200, b"a", ConnectionResetError]
    connection.read_now()  # its turn comes none the less
    assert receiver.told == [200, b"a", ConnectionResetError]


def test_what_waits_on_a_connection_that_is_given_up_is_told_to_nobody(connection: Connection, turns: ByHand) -> None:
    receiver = Receiver()
    connection.send(b"", receiver)
    connection.unhurried = True
    connection.data_received(HEAD + b"1\r\na\r\n")
    connection.abort()
    connection.read_now()
    assert receiver.told == []
