"""A worker process around a stub engine: `python -m inference.testing.stub_worker --spec FILE --announce FILE`.

The same command line, environment and server as `inference.worker`. The spec's engine is "stub", or "native" where a
stub stands in for that; its model path is "stub" for defaults, or names a JSON file with `StubSettings`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from inference.contracts.codec import CodecError, decode
from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.specs import WorkerSpec
from inference.testing.stub_embedder import stub_engine_of
from inference.testing.stub_engine import StubEngine
from inference.testing.stub_settings import StubSettings
from inference.worker.main import main


def stub_engine(spec: WorkerSpec) -> StubEngine:
    """Raises `TandemError(INVALID_REQUEST)` when the model path is neither "stub" nor a file with settings."""
    settings = StubSettings()
    if spec.model_path != "stub":
        try:
            settings = decode(Path(spec.model_path).read_bytes(), StubSettings)
        except (OSError, CodecError) as error:
            raise TandemError(ErrorCode.INVALID_REQUEST, f"no stub settings at {spec.model_path}: {error}") from error
    return stub_engine_of(settings, spec.model_name)


if __name__ == "__main__":
    code = main(engines={"stub": stub_engine, "native": stub_engine})
    sys.stderr.flush()
    os._exit(code)
