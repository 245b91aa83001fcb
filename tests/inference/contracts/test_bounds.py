from __future__ import annotations

import pytest

from inference.contracts.bounds import settings_fault
from inference.contracts.specs import EngineSettings
from inference.contracts.states import KVTransport


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"dtype": "int8"}, "dtype"),
        ({"kv_tokens": 0}, "kv_tokens"),
        ({"kv_tokens": 8, "block_size": 16}, "kv_tokens"),
        ({"prefill_chunk_tokens": -1}, "prefill_chunk_tokens"),
        ({"threads": 2**31}, "threads"),
        ({"max_model_len": 0}, "max_model_len"),
        ({"itl_target_s": -0.1}, "itl_target_s"),
        ({"itl_target_s": float("nan")}, "itl_target_s"),
        ({"kv_streams": 0}, "kv_streams"),
        ({"kv_streams": 17}, "kv_streams"),
        ({"kv_wire_dtype": "float8"}, "kv_wire_dtype"),
        ({"kv_transports": (KVTransport.TCP, KVTransport.TCP)}, "kv_transports"),
    ],
)
def test_a_value_that_no_engine_can_run_with_is_told_by_its_field(settings: dict[str, object], field: str) -> None:
    fault = settings_fault(EngineSettings(**settings))
    assert fault is not None
    assert fault.field == field
    assert field in fault.message


@pytest.mark.parametrize(
    "settings", [{}, {"max_model_len": None}, {"kv_transports": ()}, {"kv_wire_dtype": "bfloat16"}, {"threads": 1}]
)
def test_what_may_be_right_has_no_fault(settings: dict[str, object]) -> None:
    assert settings_fault(EngineSettings(**settings)) is None
