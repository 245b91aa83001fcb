"""Builds the native engine of a spec. Torch is imported here and not earlier: see `claim_devices`."""

from __future__ import annotations

from inference.contracts.specs import WorkerSpec
from inference.engine.interface import Engine
from inference.worker.devices import compute_threads, gpu_uuids


def native_engine(spec: WorkerSpec) -> Engine:
    from inference.engine.native import NativeEngine

    return NativeEngine(
        spec.model_path,
        spec.model_name,
        spec.role,
        spec.settings,
        device="cuda:0" if gpu_uuids(spec) else "cpu",
        threads=compute_threads(spec),
        revision=spec.model_revision,
    )
