from __future__ import annotations

import msgspec

from inference.contracts import codec
from inference.contracts.abilities import LLGUIDANCE, Abilities, in_common
from inference.contracts.routing import DeploymentRoute

SMALL = Abilities(vocab_size=100, max_answers=8, chat=True, tools=False, schemas=LLGUIDANCE)
LARGE = Abilities(vocab_size=200, max_answers=4, chat=False, tools=True, schemas=LLGUIDANCE)


def test_what_several_workers_can_do_is_what_each_of_them_can() -> None:
    assert in_common([SMALL, LARGE]) == Abilities(
        vocab_size=100, max_answers=4, chat=False, tools=False, schemas=LLGUIDANCE
    )


def test_what_is_not_known_of_one_is_told_by_the_others() -> None:
    assert in_common([None, SMALL, Abilities(tools=False, schemas=LLGUIDANCE)]) == SMALL
    assert in_common([None, None]) == in_common([]) == Abilities()


def test_workers_that_follow_schemas_by_different_libraries_are_asked_themselves() -> None:
    assert in_common([SMALL, msgspec.structs.replace(LARGE, schemas="xgrammar")]).schemas is None
    assert in_common([SMALL, Abilities()]).schemas is None


def test_a_table_of_an_earlier_release_says_nothing_of_them() -> None:
    known = DeploymentRoute(
        name="m",
        model_name="m",
        created=1,
        context_length=10,
        local_prefill_tokens=1,
        default_max_tokens=1,
        workers=(),
        abilities=SMALL,
    )
    fields = codec.decode(codec.encode(known), dict)
    assert codec.decode(codec.encode(fields), DeploymentRoute) == known
    del fields["abilities"]
    assert codec.decode(codec.encode(fields), DeploymentRoute).abilities == Abilities()
