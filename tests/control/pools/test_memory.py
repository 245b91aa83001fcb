from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controlplane.catalog.models import Model
from controlplane.core.errors import Invalid
from controlplane.fleet.models import Device
from controlplane.pools.seeing import snapshot
from inference.contracts.models import ModelShape
from inference.contracts.specs import EngineSettings
from inference.contracts.states import DeviceKind
from inference.planning.model.shape import model_shape
from tests.control.pools.world import World
from tests.inference.planning.model import known_models as known

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

GB = 10**9
WEIGHTS = 2 * 8_030_261_248
KV = 16_384 * 131_072


def know(shape: ModelShape) -> None:
    Model.objects.update(shape=msgspec.to_builtins(shape))


def deploy(world: World, *sizes: int | None, **more: Any) -> None:
    """One unified worker on a node that has GPUs with so much memory."""
    world.node("a", slots=len(sizes), kind=DeviceKind.GPU)
    for device, size in zip(Device.objects.order_by("index"), sizes, strict=True):
        Device.objects.filter(pk=device.pk).update(memory_total=size, name="G")
    world.deploy(unified=1, **more)


def test_a_model_that_fits_no_gpu_is_refused_with_what_it_needs(world: World) -> None:
    know(model_shape(known.LLAMA_3_1_8B))

    with pytest.raises(
        Invalid, match=r"unified needs 1 free device of at least 20.2 GB: 2 devices, 2 with less memory"
    ):
        deploy(world, 16 * GB, 16 * GB)


def test_it_goes_to_the_gpu_that_has_room(world: World) -> None:
    know(model_shape(known.LLAMA_3_1_8B))
    deploy(world, 16 * GB, 24 * GB)

    held = Device.objects.get(allocation__isnull=False)
    assert held.memory_total == 24 * GB


def test_a_smaller_arena_needs_less(world: World) -> None:
    know(model_shape(known.LLAMA_3_1_8B))
    deploy(world, 19 * GB, settings=EngineSettings(kv_tokens=1024))

    [pool] = snapshot(world.deployment()).pools
    assert pool.bytes_needed == WEIGHTS + 1024 * 131_072 + 2 * GB


def test_a_node_is_told_what_a_start_takes_at_least(world: World) -> None:
    know(model_shape(known.LLAMA_3_1_8B))
    deploy(world, 80 * GB)

    assert world.specs[-1].workers[0].memory_bytes == WEIGHTS + KV


@pytest.mark.parametrize("size", [1, None])
def test_an_unknown_model_is_tried(world: World, size: int | None) -> None:
    know(ModelShape(architecture="hyena"))
    deploy(world, size)

    [pool] = snapshot(world.deployment()).pools
    assert pool.bytes_needed is None
    assert world.specs[-1].workers[0].memory_bytes is None


def test_a_device_of_unknown_memory_is_tried(world: World) -> None:
    know(model_shape(known.LLAMA_3_1_8B))
    deploy(world, None)

    assert world.free_devices() == 0


def test_cpu_slots_may_use_more_than_their_share(world: World) -> None:
    know(model_shape(known.SMOLLM2_135M))
    world.node("a", slots=1)
    Device.objects.update(memory_total=GB)
    world.deploy(unified=1)

    [pool] = snapshot(world.deployment()).pools
    assert pool.bytes_needed is None
    assert pool.bytes_shared is not None
    assert pool.bytes_shared > GB
    weights, embedding_again, arena, process = 4 * 134_515_008, 4 * 49_152 * 576, 16_384 * 46_080, 7 * 10**8
    assert world.specs[-1].workers[0].memory_bytes == weights + embedding_again + arena + process


def test_a_model_that_the_engine_can_not_serve_is_refused_before_anything_starts(world: World) -> None:
    know(model_shape(known.GEMMA_2_9B))

    with pytest.raises(Invalid, match="The native engine can't serve tiny: it caps attention scores") as refused:
        deploy(world, 80 * GB)
    assert (refused.value.code, refused.value.field) == ("not_supported", "model")


def test_a_deployment_takes_the_revision_of_its_model_unless_it_names_one(world: World) -> None:
    Model.objects.update(revision="v1")
    deploy(world, 80 * GB, None)
    world.deploy(unified=1, name="other", model_revision="v2")

    specs = {worker.deployment: worker.model_revision for worker in world.specs[-1].workers}
    assert specs == {"m": "v1", "other": "v2"}
