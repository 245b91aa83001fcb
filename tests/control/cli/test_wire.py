"""What the client sends and reads is what the API reads and answers: the client must not import the API's own types."""

from __future__ import annotations

import inspect
from types import ModuleType

import msgspec
import pytest

from controlplane.access import apis as key_apis
from controlplane.access import presenters, session_apis, token_apis, user_apis
from controlplane.catalog import apis as model_apis
from controlplane.core import listing, problems
from controlplane.fleet import apis as node_apis
from controlplane.fleet import join_apis
from controlplane.operations import apis as operation_apis
from controlplane.pools.apis import bodies
from controlplane.pools.rollout import policy
from inference.cli import wire

MODULES: tuple[ModuleType, ...] = (
    *(key_apis, presenters, session_apis, token_apis, user_apis, model_apis, listing, problems),
    *(node_apis, join_apis, operation_apis, bodies, policy),
)
OURS = {
    name: kind
    for name, kind in vars(wire).items()
    if inspect.isclass(kind) and kind.__module__ == wire.__name__ and name != "Struct"
}


def theirs(name: str) -> type:
    found = {getattr(module, name) for module in MODULES if hasattr(module, name)}
    assert len(found) == 1, f"the API has no type {name}"
    return found.pop()


@pytest.mark.parametrize("name", sorted(OURS))
def test_the_two_agree(name: str) -> None:
    ours = {field.name: field for field in msgspec.structs.fields(OURS[name])}
    api = {field.name: field for field in msgspec.structs.fields(theirs(name))}

    assert set(ours) <= set(api)
    if name.endswith("Body"):
        assert {each for each, field in api.items() if field.required} == {
            each for each, field in ours.items() if field.required
        }
    else:
        assert all(api[each].required or not field.required for each, field in ours.items())


def test_a_policy_that_is_not_given_is_that_of_the_api() -> None:
    assert msgspec.to_builtins(wire.RolloutPolicy()) == msgspec.to_builtins(policy.RolloutPolicy())
