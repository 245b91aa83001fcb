"""All stub workers, in one process: python -m tests.bench.router.stubs WORKERS

Prints the ports of WORKERS workers of each kind as JSON, and serves until its standard input is closed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys

import uvloop

from inference.contracts.states import Role
from tests.bench.router import stub_vllm
from tests.bench.router.stub_server import port_of, serve
from tests.bench.router.stub_tandem import StubWorker


async def _serve(workers: int) -> None:
    servers = {
        str(role): [await serve(StubWorker(f"{role}-{number}", role).answer) for number in range(workers)]
        for role in (Role.PREFILL, Role.DECODE)
    }
    servers["vllm"] = [await serve(stub_vllm.answer) for _ in range(2 * workers)]
    print(json.dumps({kind: [port_of(server) for server in some] for kind, some in servers.items()}), flush=True)
    gc.freeze()
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
