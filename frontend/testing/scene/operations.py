"""What operators asked for, in every state."""

from __future__ import annotations

import uuid

from frontend.testing.scene.measures import iso
from inference.contracts.states import OperationKind, OperationState, StepState
from inference.contracts.views.operations import (
    OperationPreview,
    OperationStepView,
    OperationTargetView,
    OperationView,
    PreviewMoment,
)

#: Those that other views name.
ROLL_OUT = "0b0e9a52-4d0b-4a52-9d0a-6a0e3b6f0001"
REBALANCE = "0b0e9a52-4d0b-4a52-9d0a-6a0e3b6f0002"


def operation(title: str, target: str, state: OperationState, age_s: float, **changes: object) -> OperationView:
    done = state not in (OperationState.RUNNING, OperationState.QUEUED)
    queued = state == OperationState.QUEUED
    values: dict[str, object] = {
        "id": str(uuid.uuid4()),
        "kind": OperationKind.RESIZE,
        "state": state,
        "target": target,
        "title": title,
        "requested_by": "admin",
        "reason": "",
        "before": "1 replica",
        "after": "2 replicas",
        "progress": 1.0 if done else 0.0 if queued else 0.4,
        "outcome": "All replicas are ready." if state == OperationState.SUCCEEDED else "",
        "requested_at": iso(age_s + 1),
        "started_at": None if queued else iso(age_s),
        "finished_at": iso(age_s - 18) if done else None,
        "targets": (target_of(target),),
        "cancellable": not done,
        "retryable": state in (OperationState.FAILED, OperationState.CANCELLED),
        "steps": (
            OperationStepView(at=iso(age_s), finished_at=iso(age_s), text="Asked for by admin"),
            OperationStepView(at=iso(age_s - 1), finished_at=iso(age_s - 1), text="decode-2 placed on desk (cpu-2)"),
            OperationStepView(
                at=iso(age_s - 2),
                finished_at=iso(age_s - 6.3) if done else None,
                text="decode-2 loads its weights",
                state=StepState.DONE if done else StepState.RUNNING,
            ),
        ),
    }
    return OperationView(**{**values, **changes})


def target_of(name: str) -> OperationTargetView:
    deployment, slash, role = name.partition("/")
    if not slash:
        return OperationTargetView(kind="deployment", id=name, name=name, href=f"/pools?deployment={name}")
    return OperationTargetView(
        kind="pool", id=f"{deployment}-{role}", name=name, href=f"/pools?pool={deployment}-{role}"
    )


def preview() -> OperationPreview:
    return OperationPreview(
        flip=("decode-3 on rack-2-04 gpu-3: decode to prefill",),
        start=("prefill-4 on desk cpu-2",),
        stop=("decode-2 on rack-2-04 gpu-2",),
        moments=(
            PreviewMoment(text="now", devices=5, prefill=1, decode=3),
            PreviewMoment(text="flip decode-3, drain decode-2", devices=5, prefill=1, decode=1),
            PreviewMoment(text="decode-3 ready, decode-2 gone", devices=4, prefill=2, decode=1),
            PreviewMoment(text="start prefill-4", devices=5, prefill=2, decode=1),
            PreviewMoment(text="prefill-4 ready", devices=5, prefill=3, decode=1),
        ),
        devices_max=5,
        budget=5,
        warnings=("decode falls to 1, fewer than its minimum of 2.",),
    )


def operations() -> list[OperationView]:
    return [
        operation(
            "Rebalance qwen3-8b from 1 prefill, 4 decode to 3 prefill, 2 decode",
            "qwen3-8b/prefill",
            OperationState.RUNNING,
            41,
            id=REBALANCE,
            kind=OperationKind.REBALANCE,
            before="1 prefill, 4 decode",
            after="3 prefill, 2 decode",
            reason="Long prompts since the morning",
            targets=(target_of("qwen3-8b/prefill"), target_of("qwen3-8b/decode")),
            preview=preview(),
            steps=(
                OperationStepView(at=iso(41), finished_at=iso(41), text="Asked for by ada"),
                OperationStepView(at=iso(40), finished_at=iso(33.4), text="decode-3 finishes what it has"),
                OperationStepView(
                    at=iso(33),
                    finished_at=iso(31),
                    text="decode-3 switches to prefill",
                    state=StepState.FAILED,
                    cause="Its token after the change was not the one expected; it goes on as a decode worker.",
                ),
                OperationStepView(
                    at=iso(31), finished_at=iso(31), text="prefill-4 on desk cpu-2", state=StepState.SKIPPED
                ),
                OperationStepView(at=iso(30), text="decode-4 switches to prefill", state=StepState.RUNNING),
            ),
        ),
        operation(
            "Resize decode of qwen3-8b to 6",
            "qwen3-8b/decode",
            OperationState.QUEUED,
            12,
            before="4 replicas",
            after="6 replicas",
            queued_behind=(REBALANCE,),
            steps=(),
        ),
        operation(
            "Roll out revision 3 of qwen3-8b",
            "qwen3-8b",
            OperationState.RUNNING,
            140,
            id=ROLL_OUT,
            kind=OperationKind.ROLL_OUT,
            before="revision 2",
            after="revision 3",
        ),
        operation(
            "Measure the network between 3 nodes",
            "rack-2-04",
            OperationState.SUCCEEDED,
            700,
            kind=OperationKind.MEASURE_NETWORK,
            before="",
            after="",
            outcome="6 links measured.",
            targets=(OperationTargetView(kind="node", id="rack-2-04", name="rack-2-04", href="/fleet?node=rack-2-04"),),
        ),
        operation(
            "Resize prefill of qwen3-8b to 1",
            "qwen3-8b/prefill",
            OperationState.SUCCEEDED,
            900,
            before="2 replicas",
            after="1 replica",
        ),
        operation(
            "Resize decode of qwen3-8b to 2",
            "qwen3-8b/decode",
            OperationState.SUPERSEDED,
            1500,
            outcome="A later resize took over.",
        ),
        operation(
            "Drain rack-2-05",
            "rack-2-05",
            OperationState.CANCELLED,
            2400,
            kind=OperationKind.DRAIN_NODE,
            before="active",
            after="draining",
            outcome="rack-2-05 is active again.",
            targets=(OperationTargetView(kind="node", id="rack-2-05", name="rack-2-05", href="/fleet?node=rack-2-05"),),
        ),
        operation(
            "Deploy smollm2-135m",
            "smollm2-135m",
            OperationState.SUCCEEDED,
            3600,
            kind=OperationKind.DEPLOY,
            before="",
            after="1 prefill, 1 decode",
        ),
        operation(
            "Deploy qwen3-8b",
            "qwen3-8b",
            OperationState.FAILED,
            86400,
            kind=OperationKind.DEPLOY,
            before="",
            after="1 prefill, 3 decode",
            outcome="decode-2 failed: /models/qwen3-8b-awq is not a directory.",
        ),
    ]
