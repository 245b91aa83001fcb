"""The catalogue: a small model, a large one, and one that nobody has read yet."""

from __future__ import annotations

from frontend.testing.scene.measures import iso
from inference.contracts.models import KvLayers, ModelShape
from inference.contracts.states import ModelSource
from inference.contracts.views.models import ModelView


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
