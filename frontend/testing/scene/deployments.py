"""What is served: one small deployment in good health, and a large one in the middle of everything."""

from __future__ import annotations

from frontend.testing.scene.measures import iso
from frontend.testing.scene.operations import ROLL_OUT
from frontend.testing.scene.workers import pool, worker
from inference.contracts.specs import EngineSettings
from inference.contracts.states import Role, WorkerDesired, WorkerPhase
from inference.contracts.views.pools import DeploymentView, RevisionView, RolloutView, WorkerView

SMALL = "smollm2-135m"
BIG = "qwen3-8b"


def deployments() -> list[DeploymentView]:
    return [_small(), _big()]


def _small() -> DeploymentView:
    return DeploymentView(
        name=SMALL,
        model="smollm2-135m",
        serving=True,
        status="Serving.",
        local_prefill_tokens=64,
        settings=EngineSettings(),
        created_at=iso(3600),
        deleting=False,
        revisions=(_revision(1, SMALL),),
        pools=(
            pool(SMALL, Role.PREFILL, 1, (worker(Role.PREFILL, 1, SMALL, "cpu-0"),)),
            pool(SMALL, Role.DECODE, 1, (worker(Role.DECODE, 1, SMALL, "cpu-1"),)),
        ),
    )


def _big() -> DeploymentView:
    return DeploymentView(
        name=BIG,
        model="qwen3-8b-instruct",
        serving=True,
        status="Serving with 2 of 5 workers.",
        local_prefill_tokens=256,
        settings=EngineSettings(),
        created_at=iso(86400),
        deleting=False,
        revision=2,
        revisions=(
            _revision(1, "qwen3-8b-instruct", age_s=86400),
            _revision(2, "qwen3-8b-instruct", 32768, age_s=40000, note="Room for longer chats"),
            _revision(3, "qwen3-8b-instruct", 32768, age_s=140, note="Weights of November", hub="2026-11"),
        ),
        rollout=RolloutView(
            operation_id=ROLL_OUT,
            stable=2,
            candidate=3,
            share=0.4,
            wanted=2,
            ready=1,
            total=5,
            requests=412,
            error_rate=0.0024,
            slo_miss_rate=0.061,
        ),
        pools=(
            pool(BIG, Role.PREFILL, 1, (worker(Role.PREFILL, 1, BIG, "gpu-0", "rack-2-04"), _draining())),
            pool(
                BIG,
                Role.DECODE,
                4,
                (worker(Role.DECODE, 1, BIG, "gpu-4", "rack-2-04"), _failed(), _backoff(), _switching()),
                refusals=("1 more decode worker is wanted, but no GPU with 24 GiB free is left on any ready node.",),
            ),
        ),
    )


def _failed() -> WorkerView:
    return worker(
        Role.DECODE,
        2,
        BIG,
        "gpu-2",
        "rack-2-04",
        phase=WorkerPhase.FAILED,
        reason="/models/qwen3-8b-awq is not a directory and not a hub id that can be reached.",
        attempts=5,
        running=None,
        waiting=None,
        kv_blocks_used=None,
        kv_blocks_total=None,
    )


def _backoff() -> WorkerView:
    return worker(
        Role.DECODE,
        3,
        BIG,
        "gpu-3",
        "rack-2-04",
        phase=WorkerPhase.BACKOFF,
        reason="The process ended with exit code 1: CUDA out of memory.",
        attempts=2,
        next_start_s=24.0,
        running=None,
        waiting=None,
        kv_blocks_used=None,
        kv_blocks_total=None,
    )


def _switching() -> WorkerView:
    return worker(
        Role.DECODE,
        4,
        BIG,
        "gpu-5",
        "rack-2-04",
        phase=WorkerPhase.SWITCHING,
        observed_role=Role.PREFILL,
        running=0,
        revision=3,
    )


def _draining() -> WorkerView:
    return worker(
        Role.PREFILL,
        2,
        BIG,
        "gpu-1",
        "rack-2-04",
        phase=WorkerPhase.DRAINING,
        desired=WorkerDesired.DRAIN,
        drain_left_s=212.0,
        running=1,
        handoffs=2,
    )


def _revision(
    number: int, model: str, kv_tokens: int = 16384, *, age_s: float = 3600, note: str = "", hub: str = ""
) -> RevisionView:
    return RevisionView(
        number=number,
        model=model,
        model_revision=hub,
        settings=EngineSettings(kv_tokens=kv_tokens),
        note=note,
        created_by="ada",
        created_at=iso(age_s),
    )
