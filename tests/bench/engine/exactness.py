"""What must be exact: the same tokens by every way of serving, and no block left behind however a hand-off ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

from tests.bench.engine.run import Run
from tests.bench.machine import ROOT
from tests.bench.rows import Row, missing

_LIMIT_S = 240.0
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

#: Each ends hand-offs at random and asserts that nothing stays; the number is that of ends in it.
_LEAKS = {
    "test_a_thousand_aborts_kills_and_cuts_leave_no_block_behind": 1000,
    "test_killed_prefill_processes_leave_no_block_behind": 12,
}
_LEAK_TESTS = "tests/inference/transfer/test_leaks.py"


def rows(run: Run) -> list[Row]:
    run.peers.close()
    return [*_equality(run), _leaks()]


def _equality(run: Run) -> list[Row]:
    print("exactness: a hundred prompts, four ways", flush=True)
    name, limits = "token equality with generate, fp32, mixed batches", {"target": 1.0, "judged": "share"}
    done = _python("-m", "tests.bench.engine.equality", str(run.model))
    if done.returncode != 0:
        return [missing(name, last_line(done.stderr), **limits)]
    counted = json.loads(done.stdout)
    return [
        Row(
            name=f"{name}: {way}",
            unit="answers",
            value=equal,
            compared_with=f"of {counted['of']} prompts",
            ratio=equal / counted["of"],
            **limits,
        )
        for way, equal in counted["equal"].items()
    ]


def _leaks() -> Row:
    print("exactness: hand-offs that end at random", flush=True)
    name, limits = "KV blocks left after aborts, kills and link cuts at random", {"target": 0, "judged": "count"}
    done = _python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", _LEAK_TESTS, "-k", " or ".join(_LEAKS))
    if done.returncode != 0:
        return missing(name, f"{_LEAK_TESTS} failed: {last_line(done.stdout)}", better="at most", **limits)
    ends = ends_in(done.stdout)
    return Row(name=f"{name}: {ends:,} ends", unit="blocks", value=0, ratio=0, better="at most", **limits)


def ends_in(printed: str) -> int:
    """Hand-offs that ended in the tests that passed, by pytest's own list of them."""
    return sum(
        ends * len(re.findall(rf"^PASSED \S*::{test}\b", printed, re.MULTILINE)) for test, ends in _LEAKS.items()
    )


def last_line(printed: str) -> str:
    return printed.strip().splitlines()[-1] if printed.strip() else "it said nothing"


def _python(*arguments: str) -> subprocess.CompletedProcess[Any]:
    try:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, **_ONE_THREAD},
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(arguments, 1, "", f"took longer than {_LIMIT_S:g} s")
