"""Claims about what REST reads."""

from __future__ import annotations

import pytest

from inference.contracts import codec
from inference.contracts.bodies import access, fleet, models, operations, pools
from inference.contracts.bodies.access import KeyChangeBody
from inference.contracts.bodies.body import Body
from inference.contracts.bodies.pools import DeploymentBody, DeploymentChangeBody, PoolBody

MODULES = (access, fleet, models, operations, pools)
BODIES = sorted(
    (
        kind
        for module in MODULES
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    ),
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
def test_every_body_refuses_what_it_does_not_know(kind: type[Body]) -> None:
    assert issubclass(kind, Body)
    assert kind.__struct_config__.forbid_unknown_fields


def test_what_has_its_default_is_not_sent() -> None:
    assert codec.encode(DeploymentBody(name="chat", model="smol")) == b'{"name":"chat","model":"smol"}'
    assert codec.encode(PoolBody(generation=3, replicas=0)) == b'{"generation":3,"replicas":0}'


def test_what_is_taken_away_is_sent() -> None:
    assert codec.encode(KeyChangeBody(models=[], max_concurrent=None)) == b'{"models":[],"max_concurrent":null}'
    assert codec.encode(DeploymentChangeBody(slo_ttft_s=None)) == b'{"slo_ttft_s":null}'
