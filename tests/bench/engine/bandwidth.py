"""How fast this machine reads memory: the floor under a step of one answer, which reads every weight once.

python -m tests.bench.engine.bandwidth THREADS    prints bytes per second
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

#: Far more than any cache holds.
_BYTES = 2**30
_TRIES = 5


def measured(threads: int) -> float:
    """Bytes per second with so many threads, in a process of its own, so that its threads are gone afterwards."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.engine.bandwidth", str(threads)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )
    return float(done.stdout)


def best(threads: int) -> float:
    """The fastest of a few ways to read: which one it is differs between processors."""
    import torch

    torch.set_num_threads(threads)
    numbers = torch.ones(_BYTES // 4)
    rows, vector = numbers.view(-1, 4096), torch.ones(4096)
    ways: list[Callable[[], object]] = [
        numbers.sum,
        lambda: torch.dot(numbers, numbers),
        lambda: torch.mv(rows, vector),
    ]
    return _BYTES / min(_seconds(way) for way in ways)


def _seconds(way: Callable[[], object]) -> float:
    times = []
    for _ in range(_TRIES):
        began = time.perf_counter()
        way()
        times.append(time.perf_counter() - began)
    return min(times)


if __name__ == "__main__":
    print(best(int(sys.argv[1])))
