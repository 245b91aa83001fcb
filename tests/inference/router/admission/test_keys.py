from __future__ import annotations

import pytest

from inference.contracts.auth import key_digest
from inference.contracts.routing import KeyTable, ServingKeyEntry
from inference.router.admission.keys import Keyring
from inference.router.errors import ApiError

NOW = 1_000.0
RING = Keyring(
    KeyTable(
        version=1,
        keys=(
            ServingKeyEntry(key_id="plain", digest=key_digest("sk-1")),
            ServingKeyEntry(key_id="dated", digest=key_digest("sk-2"), expires_at=NOW + 1),
        ),
    )
)


@pytest.mark.parametrize("header", ["Bearer sk-1", "bearer sk-1", "Bearer  sk-1 "])
def test_a_known_key_is_found_by_its_digest(header: str) -> None:
    assert RING.check(header, NOW).key_id == "plain"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "sk-1",
        "Basic sk-1",
        "Bearer",
        "Bearer ",
        "Bearer sk-9",
        "Bearer \udcff",
        f"Bearer {key_digest('sk-1')}",
    ],
)
def test_anything_else_is_refused_with_401(header: str | None) -> None:
    with pytest.raises(ApiError) as caught:
        RING.check(header, NOW)
    assert caught.value.status == 401
    assert caught.value.code == "invalid_api_key"


def test_a_key_ends_at_its_time() -> None:
    assert RING.check("Bearer sk-2", NOW).key_id == "dated"
    with pytest.raises(ApiError, match="expired"):
        RING.check("Bearer sk-2", NOW + 1)
