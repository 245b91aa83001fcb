import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.sampling import Sampling
from inference.testing.stub_engine import StubEngine
from inference.testing.stub_settings import StubSettings
from inference.transfer.tickets import TicketState, TicketTable

LEASE_S = 10.0


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Table(TicketTable):
    def __init__(self, blocks: int = 20, limit: int = 8) -> None:
        self.clock = Clock()
        self.engine = StubEngine(StubSettings(kv_blocks=blocks))
        self.expired = 0
        super().__init__(
            reserve=self.engine.reserve,
            release=self.engine.release,
            lease_s=LEASE_S,
            limit=limit,
            clock=self.clock,
            on_expired=self._count,
        )

    def _count(self) -> None:
        self.expired += 1

    def expire_now(self) -> int:
        """How many leases have run out so far."""
        self.expire_due()
        return self.expired

    def new(self, tokens: int = 16, answer: int = 16):
        return self.issue("req", [1] * tokens, Sampling(max_tokens=answer))

    @property
    def used(self) -> int:
        return self.engine.load().kv_blocks_used


@pytest.fixture
def table() -> Table:
    return Table()


def code_of(call) -> ErrorCode:
    with pytest.raises(TandemError) as refused:
        call()
    return refused.value.code


def test_a_ticket_holds_blocks_for_prompt_and_answer(table):
    table.new(tokens=30, answer=20)
    assert table.used == 4


def test_reservation_is_all_or_nothing(table):
    table.new(tokens=200, answer=100)
    assert code_of(lambda: table.new(tokens=20, answer=1)) is ErrorCode.KV_FULL
    assert (table.used, len(table)) == (19, 1)


def test_what_could_never_fit_is_refused_for_good(table):
    assert code_of(lambda: table.new(tokens=320, answer=1)) is ErrorCode.CONTEXT_LENGTH_EXCEEDED


def test_the_number_of_tickets_is_bounded():
    table = Table(limit=2)
    table.new(), table.new()
    assert code_of(table.new) is ErrorCode.QUEUE_FULL
    assert table.used == 4


def test_an_expired_ticket_is_refused_and_frees_its_blocks(table):
    ticket = table.new()
    table.clock.now += LEASE_S
    assert code_of(lambda: table.open(ticket.ticket_id)) is ErrorCode.TICKET_EXPIRED
    assert (ticket.state, table.used) == (TicketState.EXPIRED, 0)
    assert table.expire_now() == 1, "each lease that ran out counts once, whoever noticed"


def test_expiry_needs_nobody_to_ask(table):
    ticket = table.new()
    table.clock.now += LEASE_S
    assert (table.expire_now(), table.used) == (1, 0)
    assert ticket.settled.is_set()
    assert table.expire_now() == 1


def test_a_renewed_lease_lasts_from_the_renewal_on(table):
    ticket = table.new()
    table.clock.now += LEASE_S - 1
    table.renew(ticket)
    table.clock.now += LEASE_S - 1
    assert table.find(ticket.ticket_id) is ticket


def test_an_open_call_holds_the_lease_and_leaves_a_whole_one(table):
    ticket = table.new()
    with table.held(ticket):
        table.clock.now += 5 * LEASE_S
        assert table.expire_now() == 0
    table.clock.now += LEASE_S - 1
    assert table.expire_now() == 0
    table.clock.now += 1
    assert table.expire_now() == 1


def test_an_answer_being_written_does_not_expire(table):
    ticket = table.new()
    table.answer(ticket, after=TicketState.RESERVED)
    table.clock.now += 100 * LEASE_S
    assert table.expire_now() == 0


def test_a_ticket_is_filled_once(table):
    ticket = table.new()
    table.open(ticket.ticket_id)
    assert code_of(lambda: table.open(ticket.ticket_id)) is ErrorCode.TICKET_UNKNOWN
    assert ticket.state is TicketState.FILLING


def test_a_ticket_is_answered_once(table):
    ticket = table.new()
    table.answer(ticket, after=TicketState.RESERVED)
    assert code_of(lambda: table.answer(ticket, after=TicketState.RESERVED)) is ErrorCode.TICKET_UNKNOWN


def test_kv_that_is_not_committed_is_not_answered_from(table):
    ticket = table.new()
    table.open(ticket.ticket_id)
    assert code_of(lambda: table.answer(ticket, after=TicketState.COMMITTED)) is ErrorCode.TICKET_UNKNOWN


def test_a_used_ticket_and_one_never_issued_are_unknown(table):
    ticket = table.new()
    table.answer(ticket, after=TicketState.RESERVED)
    table.close(ticket)
    assert table.used == 0
    assert code_of(lambda: table.find(ticket.ticket_id)) is ErrorCode.TICKET_UNKNOWN
    assert code_of(lambda: table.find("0" * 32)) is ErrorCode.TICKET_UNKNOWN
    assert table.remembers(ticket.ticket_id)
    assert not table.remembers("0" * 32)


def test_later_calls_hear_why_a_ticket_ended(table):
    ticket = table.new()
    table.abort(ticket, TandemError(ErrorCode.CHECKSUM_MISMATCH, "damaged"))
    assert code_of(lambda: table.find(ticket.ticket_id)) is ErrorCode.CHECKSUM_MISMATCH
    assert table.used == 0


def test_a_second_end_changes_nothing(table):
    ticket = table.new()
    other = table.new()
    table.close(ticket)
    table.abort(ticket, TandemError(ErrorCode.CANCELLED, "late"))
    assert (ticket.state, ticket.ended, len(table)) == (TicketState.CLOSED, None, 1)
    assert table.find(other.ticket_id) is other


def test_who_waits_is_told_of_an_end_from_elsewhere(table):
    told = []
    ticket = table.new()
    ticket.on_end = told.append
    table.abort_all(TandemError(ErrorCode.ENGINE_FAILED, "stopping"))
    assert [error.code for error in told] == [ErrorCode.ENGINE_FAILED]
    assert ticket.settled.is_set()


def test_ended_tickets_are_not_remembered_without_bound(table):
    for _ in range(1100):
        table.close(table.new())
    assert len(table._over) == 1024
