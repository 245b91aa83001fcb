"""Memory of a step is there for the next one."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest

#: Page faults while large tensors are made and freed in a thread, as the engine's is, before and after.
STEPS = """
import json, resource, sys, threading
import torch
from inference.engine.heap import settle_heap

def faults(count):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(count):
        held = [torch.zeros(3 * 2**20) for _ in range(8)]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def run():
    found["plain"] = faults(20)
    settle_heap()
    faults(2)
    found["settled"] = faults(20)

torch.set_num_threads(1)
found = {}
thread = threading.Thread(target=run)
thread.start()
thread.join()
json.dump(found, sys.stdout)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_the_large_tensors_of_a_step_are_not_asked_of_the_system_again() -> None:
    run = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(run.stdout)

    assert found["plain"] > 10_000
    assert found["settled"] < found["plain"] / 10
