"""Names of workers, for people: the role and a number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from controlplane.pools.models import Pool, Worker


def free_names(pool: Pool, workers: Iterable[Worker]) -> Iterator[str]:
    """Names that no worker of the pool has, lowest number first; each is given once. workers: all of the pool's, and
    maybe others."""
    taken = {worker.name for worker in workers if worker.pool_id == pool.pk}
    return (name for number in count(1) if (name := f"{pool.role}-{number}") not in taken)
