from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.management import call_command

from tests.control.upgrade import database, release_0_1


@pytest.fixture
def previous_release(transactional_db: None) -> Iterator[None]:
    """The database as release 0.1.0 left it; afterwards as it is now, and empty."""
    database.drop_tables()
    try:
        release_0_1.build()
        yield
    finally:
        database.drop_tables()
        call_command("migrate", verbosity=0)
