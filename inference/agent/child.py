"""A short-lived process beside the workers: what it says line by line, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from inference.agent.workers.launcher import MARKER, passed_on
from inference.agent.workers.process import kill_group

#: A line of output that is longer than this ends the process: it is not ours.
LONGEST_LINE = 64 * 1024


async def run_child(
    module: str,
    arguments: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    extra: Mapping[str, str],
    on_line: Callable[[bytes], None],
) -> int:
    """Run `python -m module` until it ends; its exit code. Cancelled, it is killed with all that it started.

    folder: the agent's; a process that an agent which was killed leaves behind is found by it and ended by the next.
    environment: the agent's own, of which it gets what workers get. extra: added to that.

    Raises:
        OSError: it can't be started.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        env={**passed_on(environment), **extra, MARKER: str(folder)},
        start_new_session=True,
        limit=LONGEST_LINE,
    )
    try:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        with contextlib.suppress(ValueError):  # a line too long
            async for line in process.stdout:
                on_line(line)
        return await process.wait()
    finally:
        kill_group(process.pid)
        await asyncio.shield(process.wait())
