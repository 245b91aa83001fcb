"""A storm of faults against a whole Tandem: `python -m tests.chaos [--minutes 10] [--seed N]` (`make chaos`).

Prints its seed; the same one draws the same faults, loads and intents again (not the same interleaving: that is up to
the machine). Ends with 1 when anything was not as it must be, and then keeps the logs.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.storm import Storm
from tests.chaos.world import running_world


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="drawn and printed where none is given")
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="postgres")
    parser.add_argument("--keep", type=Path, default=Path("build/chaos"), help="where logs go when something is wrong")
    parser.add_argument("--keep-always", action="store_true", help="keep the logs also when all is well")
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    print(f"chaos: seed {seed}, {options.minutes:g} minutes, {options.database}", flush=True)
    wrong = storm(
        seed=seed,
        seconds=options.minutes * 60,
        database=options.database,
        keep=options.keep,
        keep_always=options.keep_always,
    )
    for each in wrong:
        print(f"WRONG {each}")
    print(f"chaos: seed {seed}: {f'{len(wrong)} things are wrong; logs in {options.keep}' if wrong else 'all is well'}")
    return 1 if wrong else 0


def storm(*, seed: int, seconds: float, database: str, keep: Path, keep_always: bool = False) -> list[str]:
    """What was wrong; then logs are kept."""
    with tempfile.TemporaryDirectory(prefix="tandem-chaos-") as folder:
        data = Path(folder)
        try:
            wrong = _storm(data, seed=seed, seconds=seconds, database=database)
        except BaseException:
            _keep_logs(data, keep)
            raise
        if wrong or keep_always:
            _keep_logs(data, keep)
        return wrong


def _storm(data: Path, *, seed: int, seconds: float, database: str) -> list[str]:
    with running_world(data, database=database) as world:
        run = Storm(world, seed)
        run.run(seconds)
        for name in reversed(list(world.keeper.kept)):
            world.keeper.stop(name)
        time.sleep(0.5)
        return [*run.wrong, *(f"engine process {left.pid} is left" for left in world.engine_processes())]


def _keep_logs(data: Path, keep: Path) -> None:
    shutil.rmtree(keep, ignore_errors=True)
    keep.mkdir(parents=True)
    shutil.copytree(data / "logs", keep / "logs")
    for log in data.glob("nodes/*/workers/*/*.log*"):
        target = keep / log.relative_to(data)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(log, target)


if __name__ == "__main__":
    sys.exit(main())
