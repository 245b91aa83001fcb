import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address
from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.contracts.states import KVTransport, Role
from inference.contracts.worker import PairReport
from inference.router.telling.metrics import Metrics
from inference.router.workers.pairs import AGAIN_S, PAIRS_MAX, Pairs

GOOD = PairReport(transport=KVTransport.SHARED_MEMORY, bytes=100, bytes_per_s=2e9, latency_s=0.001)
BAD = PairReport(problems=("Block sizes differ: 16 on the prefill worker, 32 on the decode worker.",))


def worker(name: str, role: Role, *, incarnation: str = "1", fingerprint: str = "kv-a") -> WorkerRoute:
    return WorkerRoute(
        worker_id=name, incarnation=incarnation, pool_id="pool", node_id="node", role=role,
        http=Address(host="127.0.0.1", port=1), fingerprint=fingerprint,
        transfer=Address(host="127.0.0.1", port=2) if role is Role.DECODE else None,
    )  # fmt: skip


class Asked:
    """A routing table of one deployment, and prefill workers that answer as they are told."""

    def __init__(self, *workers: WorkerRoute) -> None:
        self.workers = workers
        self.answer: PairReport | TandemError = GOOD
        self.asked: list[str] = []
        self.now = 0.0
        self.pairs = Pairs(self.deployments, self.ask, lambda: self.now)

    def deployments(self) -> list[DeploymentRoute]:
        return [
            DeploymentRoute(
                name="chat", model_name="chat", created=0, context_length=None, local_prefill_tokens=16,
                default_max_tokens=16, workers=self.workers,
            )
        ]  # fmt: skip

    async def ask(self, prefill, order):
        self.asked.append(prefill.worker_id)
        if isinstance(self.answer, TandemError):
            raise self.answer
        return self.answer


async def test_each_pair_is_tried_once():
    it = Asked(worker("p1", Role.PREFILL), worker("p2", Role.PREFILL), worker("d1", Role.DECODE))
    for _ in range(3):
        await it.pairs.try_new()
    assert it.asked == ["p1", "p2"]
    assert set(it.pairs.known().values()) == {GOOD}


async def test_a_new_process_is_a_new_pair():
    it = Asked(worker("p", Role.PREFILL), worker("d", Role.DECODE))
    await it.pairs.try_new()
    it.workers = (it.workers[0], worker("d", Role.DECODE, incarnation="2"))
    await it.pairs.try_new()
    assert len(it.asked) == 2
    assert len(it.pairs.known()) == 1


async def test_workers_that_left_are_forgotten():
    it = Asked(worker("p", Role.PREFILL), worker("d", Role.DECODE))
    await it.pairs.try_new()
    it.workers = it.workers[:1]
    assert it.pairs.known() == {}


@pytest.mark.parametrize("answer", [BAD, TandemError(ErrorCode.NOT_READY, "it loads")])
async def test_what_does_not_work_is_tried_again_later(answer):
    it = Asked(worker("p", Role.PREFILL), worker("d", Role.DECODE))
    it.answer = answer
    await it.pairs.try_new()
    it.now += AGAIN_S - 1
    await it.pairs.try_new()
    assert len(it.asked) == 1
    it.now, it.answer = it.now + 1, GOOD
    await it.pairs.try_new()
    it.now += 10 * AGAIN_S
    await it.pairs.try_new()
    assert len(it.asked) == 2
    assert set(it.pairs.known().values()) == {GOOD}


async def test_workers_whose_kv_differs_are_no_pair():
    it = Asked(worker("p", Role.PREFILL), worker("d", Role.DECODE, fingerprint="kv-b"))
    await it.pairs.try_new()
    assert it.asked == []


async def test_a_large_pool_is_tried_in_part():
    many = [worker(f"p{n}", Role.PREFILL) for n in range(20)] + [worker(f"d{n}", Role.DECODE) for n in range(20)]
    it = Asked(*many)
    await it.pairs.try_new()
    assert len(it.asked) == PAIRS_MAX


@pytest.mark.parametrize(("answer", "usable", "transport"), [(GOOD, 1.0, "shared_memory"), (BAD, 0.0, "none")])
async def test_the_metrics_name_the_transport_of_each_pair_and_whether_it_works(answer, usable, transport):
    it = Asked(worker("p", Role.PREFILL), worker("d", Role.DECODE))
    it.answer = answer
    await it.pairs.try_new()
    text = Metrics(dict, dict, lambda: None, it.pairs.known).expose().decode()
    labels = f'decode_worker="d",deployment="chat",prefill_worker="p",transport="{transport}"'
    assert f"tandem_router_pair_usable{{{labels}}} {usable}" in text
    assert (f"tandem_router_pair_bytes_per_second{{{labels}}} 2e+09" in text) == bool(usable)
