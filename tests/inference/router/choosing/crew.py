"""Workers, what is known of them, and who of them is chosen: as tests of choices write it."""

from __future__ import annotations

import random
from collections.abc import Mapping

from inference.contracts.reports import Address
from inference.contracts.routing import DeploymentRoute, WorkerRoute
from inference.contracts.states import Role
from inference.router.choosing.ask import Ask, Barred
from inference.router.choosing.pick_decode import pick_decode
from inference.router.choosing.pick_prefill import NOTHING_TRAVELS, Handoff, pick_prefill
from inference.router.choosing.roster import roster_of
from inference.router.choosing.standing import Standing, WorkerKey

HERE = Address(host="127.0.0.1", port=1)


def worker(
    name: str, role: Role, *, fingerprint: str = "fp", transfer: bool = True, in_sight: bool = True
) -> WorkerRoute:
    return WorkerRoute(
        worker_id=name,
        incarnation="1",
        pool_id="p",
        node_id="n",
        role=role,
        http=HERE,
        transfer=HERE if transfer and role is Role.DECODE else None,
        fingerprint=fingerprint,
        in_sight=in_sight,
    )


def deployment(*workers: WorkerRoute) -> DeploymentRoute:
    return DeploymentRoute(
        name="chat",
        model_name="m",
        created=0,
        context_length=None,
        local_prefill_tokens=0,
        default_max_tokens=8,
        workers=workers,
    )


def by_key(standings: Mapping[str, Standing]) -> dict[WorkerKey, Standing]:
    return {(name, "1"): standing for name, standing in standings.items()}


def barred(suspects: set[str] | None = None, excluded: set[str] | None = None) -> Barred:
    return Barred({(name, "1") for name in suspects or ()}, {(name, "1") for name in excluded or ()})


def kv(tokens: int, total: int | None = None, **more: int) -> Standing:
    return Standing(kv_tokens=tokens, kv_tokens_total=total, **more)


def paced(standing: Standing, *, reading: float | None = None, writing: float | None = None) -> Standing:
    standing.reading.add(reading or 0.0, 1)
    standing.writing.add(writing or 0.0, 1, 1)
    return standing


def answering(
    workers: list[WorkerRoute],
    standings: Mapping[str, Standing] | None = None,
    ask: Ask = Ask(10),  # noqa: B008 - frozen
    seed: int = 1,
    **sets: set[str],
) -> str | None:
    roster = roster_of(deployment(*workers))
    chosen = pick_decode(roster, by_key(standings or {}), ask, barred(**sets), random.Random(seed))
    return None if chosen is None else chosen.worker_id


def prefilling(
    workers: list[WorkerRoute],
    standings: Mapping[str, Standing] | None = None,
    ask: Ask = Ask(100),  # noqa: B008 - frozen
    seed: int = 1,
    handoff: Handoff = NOTHING_TRAVELS,
    **sets: set[str],
) -> str | None:
    roster = roster_of(deployment(*workers, D1))
    chosen = pick_prefill(roster, D1, by_key(standings or {}), ask, barred(**sets), random.Random(seed), handoff)
    return None if chosen is None else chosen.worker_id


P, Q = worker("p", Role.PREFILL), worker("q", Role.PREFILL)
D1, D2 = worker("d1", Role.DECODE), worker("d2", Role.DECODE)
