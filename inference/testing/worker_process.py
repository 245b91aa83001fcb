"""Worker processes of their own, for tests: started as an agent starts them, killed as the world kills them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from inference.contracts.codec import decode, encode
from inference.contracts.reports import Address
from inference.contracts.specs import WorkerSpec
from inference.contracts.worker import ProcessAnnouncement, WorkerStatus
from inference.testing.worker_client import WorkerClient

STUB_MODULE = "inference.testing.stub_worker"


@dataclass(eq=False)
class WorkerProcess:
    """A running worker. `http` and `transfer` are known once it announced itself."""

    spec: WorkerSpec
    process: asyncio.subprocess.Process
    announce_file: Path
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    async def announced(self, within_s: float = 20) -> ProcessAnnouncement:
        async with asyncio.timeout(within_s):
            while not self.announce_file.exists():
                if self.process.returncode is not None:
                    raise RuntimeError(f"exited with {self.process.returncode}: {self.log}")
                await asyncio.sleep(0.02)
        return decode(self.announce_file.read_bytes(), ProcessAnnouncement)

    async def ready(self, client: WorkerClient, within_s: float = 60) -> Address:
        """Where to call it, once it serves."""
        http = (await self.announced()).http
        async with asyncio.timeout(within_s):
            while not (await self.status(client)).ready:
                await asyncio.sleep(0.05)
        return http

    async def status(self, client: WorkerClient) -> WorkerStatus:
        return await client.status((await self.announced()).http)

    async def ended(self, within_s: float = 20) -> int:
        """Its exit code."""
        async with asyncio.timeout(within_s):
            return await self.process.wait()


@contextlib.asynccontextmanager
async def worker_process(
    spec: WorkerSpec,
    folder: Path,
    *,
    secret: str,
    module: str = STUB_MODULE,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[WorkerProcess]:
    """Start `module` with `spec`; its files lie in `folder`. Killed when the block is left."""
    spec_file, announce_file, log_file = (folder / f"{spec.worker_id}.{end}" for end in ("spec", "announce", "log"))
    spec_file.write_bytes(encode(spec))
    with log_file.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", module, "--spec", str(spec_file), "--announce", str(announce_file)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "TANDEM_CLUSTER_SECRET": secret, **(environment or {})},
            start_new_session=True,
        )
    try:
        yield WorkerProcess(spec, process, announce_file, log_file)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
