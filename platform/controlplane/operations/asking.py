"""What a request says of the operation that it asks for."""

from __future__ import annotations

from rest_framework.request import Request

from controlplane.core.errors import Invalid
from controlplane.operations.workflows import OnConflict


def on_conflict(request: Request) -> OnConflict:
    """`?on_conflict=refuse` (as without it) or `?on_conflict=queue`.

    Raises:
        Invalid: it is something else.
    """
    asked = request.query_params.get("on_conflict", OnConflict.REFUSE)
    if asked not in set(OnConflict):
        raise Invalid(
            f"on_conflict is {' or '.join(OnConflict)}, not {asked[:100]!r}.",
            code="invalid_parameter",
            field="on_conflict",
        )
    return OnConflict(asked)
