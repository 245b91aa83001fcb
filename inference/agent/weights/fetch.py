"""Fetches the weights of one model, in a process of its own, so that the agent waits for no network and no disk.

    python -m inference.agent.weights.fetch --root FOLDER --path PATH [--revision REVISION]

Says on standard output how big it is once that is known, and at the end whether it is there: a `WeightsReport` a line.
What came before an interruption is used by the next try.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from inference.agent.weights.failed import FetchFailed
from inference.agent.weights.source import Source, source_of
from inference.agent.weights.store import NotUsable, StoredModel, WeightsStore, size_of
from inference.contracts.codec import encode_text
from inference.contracts.models import ModelShape
from inference.contracts.reports import WeightsReport
from inference.contracts.states import FetchState
from inference.process.logs import configure_logging

#: Left free on the disk, for logs and whatever else the machine does.
SPARE_BYTES = 1024**3


def fetch(store: WeightsStore, path: str, revision: str, on_size: Callable[[int], None]) -> StoredModel:
    """Bring the model into `store`. on_size: told how many bytes it will have.

    Raises:
        FetchFailed: what is wrong with the source, the network or the disk.
    """
    partial = store.partial(path, revision)
    partial.mkdir(mode=0o700, parents=True, exist_ok=True)

    def plan(size_bytes: int, on_disk_bytes: int) -> None:
        on_size(size_bytes)
        _require_space(partial, on_disk_bytes)

    match source_of(path):  # each with a library of its own, which takes a second to load
        case Source.HUB:
            from inference.agent.weights import hub

            content = hub.fetch(path, revision, partial, plan)
        case Source.WEB:
            from inference.agent.weights import web

            content = web.fetch(path, partial, plan)
        case _:
            raise FetchFailed(
                f"{path.partition('://')[0]}:// can't be fetched by this agent; give the https address of the "
                "object store"
            )
    try:
        model = store.publish(content, path, revision)
    except NotUsable as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise FetchFailed(f"what was fetched is no model: {error}") from error
    shutil.rmtree(partial, ignore_errors=True)
    return model


def _require_space(partial: Path, needed: int) -> None:
    """needed: bytes on disk in the end, those that are there already included."""
    missing = needed - size_of(partial)
    free = shutil.disk_usage(partial).free - SPARE_BYTES
    if missing > free:
        raise FetchFailed(
            f"it needs {missing / 1e9:.1f} GB more on the disk of {partial.parent}, where {max(0, free) / 1e9:.1f} GB "
            f"may be used"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m inference.agent.weights.fetch")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--path", required=True)
    parser.add_argument("--revision", default="")
    options = parser.parse_args(arguments)
    configure_logging(os.environ)

    def say(
        state: FetchState, size_bytes: int | None = None, reason: str = "", shape: ModelShape | None = None
    ) -> None:
        report = WeightsReport(
            path=options.path,
            revision=options.revision,
            state=state,
            size_bytes=size_bytes,
            reason=reason,
            shape=shape,
        )
        sys.stdout.write(encode_text(report) + "\n")
        sys.stdout.flush()

    store = WeightsStore(options.root)
    store.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with store.lock_file(options.path, options.revision).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            model = fetch(store, options.path, options.revision, lambda size: say(FetchState.FETCHING, size))
    except FetchFailed as error:
        with contextlib.suppress(OSError):  # what has come is kept for the next try; an empty folder is not
            store.partial(options.path, options.revision).rmdir()
        say(FetchState.FAILED, reason=str(error))
        return 1
    except OSError as error:
        say(FetchState.FAILED, reason=f"the disk or the network failed: {error}")
        return 1
    say(FetchState.PRESENT, model.size_bytes, shape=model.shape)
    return 0


if __name__ == "__main__":
    sys.exit(main())
