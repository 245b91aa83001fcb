"""A make-believe fleet, in the contracts' own types, lively enough to look at."""

from __future__ import annotations

import math
import random
import uuid
from datetime import UTC, datetime, timedelta

from inference.contracts.frames import DeploymentFrame, PoolFrame, Quantiles, TelemetryFrame
from inference.contracts.models import KvLayers, ModelShape
from inference.contracts.specs import EngineSettings
from inference.contracts.states import (
    DeviceKind,
    ModelSource,
    NodeDesired,
    NodePhase,
    OperationKind,
    OperationState,
    Role,
    StepState,
    WorkerDesired,
    WorkerPhase,
)
from inference.contracts.views.fleet import DeviceView, NodeView
from inference.contracts.views.models import ModelView
from inference.contracts.views.operations import (
    OperationPreview,
    OperationStepView,
    OperationTargetView,
    OperationView,
    PreviewMoment,
)
from inference.contracts.views.pools import DeploymentView, PoolView, RevisionView, RolloutView, WorkerView

GIB = 1024**3
BLOCKS = 1024


def iso(ago_s: float = 0) -> str:
    return (datetime.now(UTC) - timedelta(seconds=ago_s)).isoformat()


def worker(role: Role, number: int, deployment: str, device: str, node: str = "desk", **changes: object) -> WorkerView:
    values: dict[str, object] = {
        "id": str(uuid.uuid4()),
        "name": f"{role}-{number}",
        "pool_id": f"{deployment}-{role}",
        "node_id": node,
        "node_name": node,
        "role": role,
        "desired": WorkerDesired.RUN,
        "phase": WorkerPhase.READY,
        "reason": "",
        "attempts": 1,
        "next_start_s": None,
        "drain_left_s": None,
        "device_ids": (device,),
        "running": random.randint(0, 5),
        "waiting": 0,
        "kv_blocks_used": random.randint(100, 700),
        "kv_blocks_total": BLOCKS,
        "handoffs": 0,
        "fingerprint": "5f1c",
        "log_tail": (
            "2026-10-31 14:02:01 [info] loading weights path=/models/smollm2",
            "2026-10-31 14:02:04 [info] weights loaded seconds=2.9 dtype=float32",
            "2026-10-31 14:02:04 [info] KV arena ready blocks=1024 block_size=16",
            "2026-10-31 14:02:05 [info] first token generated, ready",
        ),
        "created_at": iso(3000),
        "phase_since": iso(random.randint(100, 2900)),
    }
    return WorkerView(**{**values, **changes})


def pool(deployment: str, role: Role, replicas: int, workers: tuple[WorkerView, ...], **changes: object) -> PoolView:
    values: dict[str, object] = {
        "id": f"{deployment}-{role}",
        "deployment": deployment,
        "role": role,
        "replicas": replicas,
        "ready": sum(one.phase == WorkerPhase.READY for one in workers),
        "generation": 3,
        "min_replicas": 0,
        "max_replicas": 64,
        "refusals": (),
        "workers": workers,
    }
    return PoolView(**{**values, **changes})


#: Ids that several views name.
ROLL_OUT = "0b0e9a52-4d0b-4a52-9d0a-6a0e3b6f0001"
REBALANCE = "0b0e9a52-4d0b-4a52-9d0a-6a0e3b6f0002"


def revision(
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


def deployments() -> list[DeploymentView]:
    small = "smollm2-135m"
    big = "qwen3-8b"
    failed = worker(
        Role.DECODE,
        2,
        big,
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
    backoff = worker(
        Role.DECODE,
        3,
        big,
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
    switching = worker(
        Role.DECODE,
        4,
        big,
        "gpu-5",
        "rack-2-04",
        phase=WorkerPhase.SWITCHING,
        observed_role=Role.PREFILL,
        running=0,
        revision=3,
    )
    drain = worker(
        Role.PREFILL,
        2,
        big,
        "gpu-1",
        "rack-2-04",
        phase=WorkerPhase.DRAINING,
        desired=WorkerDesired.DRAIN,
        drain_left_s=212.0,
        running=1,
        handoffs=2,
    )
    return [
        DeploymentView(
            name=small,
            model="smollm2-135m",
            serving=True,
            status="Serving.",
            local_prefill_tokens=64,
            settings=EngineSettings(),
            created_at=iso(3600),
            deleting=False,
            revisions=(revision(1, small),),
            pools=(
                pool(small, Role.PREFILL, 1, (worker(Role.PREFILL, 1, small, "cpu-0"),)),
                pool(small, Role.DECODE, 1, (worker(Role.DECODE, 1, small, "cpu-1"),)),
            ),
        ),
        DeploymentView(
            name=big,
            model="qwen3-8b-instruct",
            serving=True,
            status="Serving with 2 of 5 workers.",
            local_prefill_tokens=256,
            settings=EngineSettings(),
            created_at=iso(86400),
            deleting=False,
            revision=2,
            revisions=(
                revision(1, "qwen3-8b-instruct", age_s=86400),
                revision(2, "qwen3-8b-instruct", 32768, age_s=40000, note="Room for longer chats"),
                revision(3, "qwen3-8b-instruct", 32768, age_s=140, note="Weights of November", hub="2026-11"),
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
                pool(big, Role.PREFILL, 1, (worker(Role.PREFILL, 1, big, "gpu-0", "rack-2-04"), drain)),
                pool(
                    big,
                    Role.DECODE,
                    4,
                    (worker(Role.DECODE, 1, big, "gpu-4", "rack-2-04"), failed, backoff, switching),
                    refusals=(
                        "1 more decode worker is wanted, but no GPU with 24 GiB free is left on any ready node.",
                    ),
                ),
            ),
        ),
    ]


def nodes(current: list[DeploymentView]) -> list[NodeView]:
    holders = {
        (one.node_id, device): one.id
        for deployment in current
        for group in deployment.pools
        for one in group.workers
        for device in one.device_ids
    }
    cpu = tuple(
        DeviceView(
            device_id=f"cpu-{index}",
            kind=DeviceKind.CPU,
            index=index,
            name="AMD EPYC 7B13",
            memory_total=6 * GIB,
            memory_used=int((0.2 + 0.15 * (index < 2)) * 6 * GIB),
            utilization=random.random() * 0.7 if index < 2 else 0.0,
            temperature_c=None,
            power_w=None,
            cores=(2 * index, 2 * index + 1),
            worker_id=holders.get(("desk", f"cpu-{index}")),
        )
        for index in range(4)
    )
    gpu = tuple(
        DeviceView(
            device_id=f"gpu-{index}",
            kind=DeviceKind.GPU,
            index=index,
            name="NVIDIA L4",
            id=10 + index,
            labels=("fast",) if index == 0 else (),
            maintenance=index == 6,
            maintenance_note="Fan is loud" if index == 6 else "",
            reserved_for="qwen3-8b" if index == 4 else "",
            fault="It fell off the bus; the machine has to be restarted." if index == 7 else "",
            xid=79 if index == 7 else None,
            ecc_uncorrected=0 if index < 6 else None,
            nvlink_peers=(f"gpu-{index ^ 1}",) if index < 6 else (),
            pcie_gen=4,
            pcie_width=16,
            power_limit_w=72.0,
            memory_bandwidth_use=random.random() * 0.8 if index < 5 else None,
            sm_use=random.random() * 0.7 if index < 5 else None,
            memory_total=24 * GIB,
            memory_used=int((0.93 if index == 4 else 0.6) * 24 * GIB) if index < 5 else None,
            utilization=random.random() if index < 5 else None,
            temperature_c=58.0 + index,
            power_w=61.0 + 2 * index,
            cores=(),
            worker_id=holders.get(("rack-2-04", f"gpu-{index}")),
        )
        for index in range(8)
    )
    mig = tuple(
        DeviceView(
            id=30 + index,
            device_id=f"mig-{index}",
            kind=DeviceKind.GPU,
            index=index,
            name="NVIDIA H100 1g.10gb",
            parent="gpu-0",
            memory_total=10 * GIB,
            memory_used=0,
            utilization=None,
            temperature_c=41.0,
            power_w=None,
            cores=(),
            worker_id=None,
        )
        for index in range(3)
    )
    return [
        _node("desk", "10.0.0.4", 8, 24, cpu, NodePhase.READY, labels=("office",)),
        _node(
            "rack-2-04",
            "10.0.2.14",
            64,
            512,
            gpu,
            NodePhase.READY,
            labels=("rack=r2", "switch=s1"),
            desired=NodeDesired.DRAINING,
            cordon_reason="New power supply at noon",
            workers=6,
        ),
        _node("rack-2-05", "10.0.2.15", 64, 512, (), NodePhase.LOST, labels=("rack=r2",)),
        _node(
            "rack-3-01",
            "10.0.3.11",
            96,
            1024,
            mig,
            NodePhase.READY,
            labels=("rack=r3",),
            desired=NodeDesired.CORDONED,
            cordon_reason="Memory test",
            clock_offset_s=-41.2,
            warnings=("Its clock is 41 s behind ours. Nothing depends on it, but its logs tell it.",),
        ),
        _node("old-1", "10.0.9.9", 16, 64, (), NodePhase.LOST, desired=NodeDesired.RETIRED),
    ]


def _node(
    name: str,
    address: str,
    cores: int,
    gib: int,
    devices: tuple[DeviceView, ...],
    phase: NodePhase,
    **changes: object,
) -> NodeView:
    lost = phase == NodePhase.LOST
    values: dict[str, object] = {
        "id": name,
        "name": name,
        "hostname": f"{name}.lab",
        "address": address,
        "phase": phase,
        "agent_version": "0.1.0",
        "cpu_cores": cores,
        "memory_total": gib * GIB,
        "memory_used": None if lost else int(0.41 * gib * GIB),
        "generation": 12,
        "observed_generation": 12,
        "joined_at": iso(90000),
        "last_report_at": iso(740 if lost else 1),
        "devices": devices,
        "clock_offset_s": None if lost else 0.02,
        "driver": "550.90.07" if devices and devices[0].kind == DeviceKind.GPU else "",
        "interfaces": (f"eth0 {address}", "ib0 192.168.7.4"),
        "engines": {"native": "0.1.0"},
        "disk_total": 1800 * GIB,
        "disk_free": 640 * GIB,
    }
    return NodeView(**{**values, **changes})


def models() -> list[ModelView]:
    return [
        ModelView(
            name="smollm2-135m",
            path="/var/lib/tandem/models/smollm2-135m-instruct",
            description="SmolLM2 135M Instruct, the default",
            created_at=iso(90000),
            licence="apache-2.0",
            shape=ModelShape(
                architecture="llama",
                context_length=8192,
                parameters=134_515_008,
                active_parameters=134_515_008,
                dtype="bfloat16",
                weights_bytes={"BF16": 269_030_016},
                kv=(KvLayers(layers=30, heads=3, head_elements=128),),
                engines={"native": ""},
            ),
            shape_from="its files here",
            kv_bytes_per_token=23040,
            kv_bytes_of_context=23040 * 8192,
        ),
        ModelView(
            name="qwen3-8b-instruct",
            path="Qwen/Qwen3-8B",
            description="",
            created_at=iso(80000),
            source=ModelSource.HUB,
            revision="2026-11",
            licence="apache-2.0",
            shape=ModelShape(
                architecture="qwen3",
                context_length=40960,
                parameters=8_190_735_360,
                active_parameters=8_190_735_360,
                dtype="bfloat16",
                weights_bytes={"BF16": 16_381_470_720},
                kv=(KvLayers(layers=36, heads=8, head_elements=256),),
                engines={"native": ""},
            ),
            shape_from="node rack-2-04",
            kv_bytes_per_token=147456,
            kv_bytes_of_context=147456 * 40960,
        ),
        ModelView(
            name="mystery",
            path="https://weights.lab/mystery-v2.tar",
            description="Nobody has read its files yet",
            created_at=iso(500),
            source=ModelSource.WEB,
        ),
    ]


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


def frame(second: int, current: list[DeploymentView]) -> TelemetryFrame:
    return TelemetryFrame(second=second, deployments=tuple(_deployment_frame(second, one) for one in current))


def _deployment_frame(second: int, deployment: DeploymentView) -> DeploymentFrame:
    quiet = second % 300 < 45
    wave = 0.5 + 0.4 * math.sin(second / 37) + random.random() * 0.15
    burst = 1.0 + 2.5 * math.exp(-(((second % 170) - 85) ** 2) / 300)
    decode = max(1, sum(group.ready for group in deployment.pools if group.role == Role.DECODE))
    load = 0.0 if quiet else wave * burst
    return DeploymentFrame(
        deployment=deployment.name,
        ttft=_quantiles(quiet, 0.085 * burst + 0.03 * wave, 2.4),
        tpot=_quantiles(quiet, (0.021 + 0.006 * wave) / math.sqrt(decode), 1.5),
        itl=_quantiles(quiet, 0.020 + 0.004 * wave, 2.2),
        first_gap=_quantiles(quiet, 0.034 + 0.01 * wave * burst, 2.0),
        e2e=_quantiles(quiet, 1.8, 2.0),
        in_flight=round(6 * load),
        received=round(3 * load),
        completed=round(3 * load),
        failed=int(not quiet and random.random() < 0.01),
        rejected=0,
        cancelled=0,
        handoffs=round(2 * load),
        handoff_failures=0,
        local_prefills=round(load),
        prompt_tokens=round(900 * load),
        output_tokens=round(150 * load),
        pools=tuple(_pool_frame(group, load, quiet) for group in deployment.pools),
    )


def _pool_frame(group: PoolView, load: float, quiet: bool) -> PoolFrame:
    prefill = group.role == Role.PREFILL
    return PoolFrame(
        pool_id=group.id,
        role=group.role,
        running=round(min(2.0, load)) if prefill else round(5 * load),
        waiting=round(max(0.0, 2.2 * load - 1.2)) if prefill else 0,
        waiting_tokens=round(max(0.0, 2.2 * load - 1.2)) * 512 if prefill else 0,
        kv_blocks_used=round(BLOCKS * min(0.97, 0.08 + 0.22 * load)),
        kv_blocks_total=BLOCKS,
        ttft=_quantiles(quiet or not prefill, 0.085 + 0.03 * load, 2.4),
        tpot=_quantiles(quiet or prefill, 0.021 + 0.006 * load, 1.5),
        itl=_quantiles(quiet or prefill, 0.020 + 0.004 * load, 2.2),
        queue=_quantiles(quiet, 0.01 * load + 1e-4, 2.0),
        transfer=_quantiles(quiet or not prefill, 0.012, 1.8),
        transfer_bytes=round(2 * load) * 512 * 23040,
        output_tokens=round(150 * load),
    )


def _quantiles(none: bool, p50: float, spread: float) -> Quantiles:
    if none:
        return Quantiles(count=0, p50=None, p95=None, p99=None)
    noisy = p50 * random.uniform(0.95, 1.05)
    return Quantiles(count=30, p50=noisy, p95=noisy * spread * 0.8, p99=noisy * spread * random.uniform(1.0, 1.15))
