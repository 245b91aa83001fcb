"""A worker process for the agent's tests: speaks the agent's side of the worker protocol and nothing else.

Started as `python stub_process.py --spec FILE --announce FILE`. `model_path` of the spec is its script, words separated
by ";": ok | oom | oom-times=N | fatal | silent | stuck | deaf | family | loads. While a file of one of these names lies
in its folder it behaves accordingly: hang, stuck, busy, loading, refuse-switch, hang-switch, crash-switch.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from inference.contracts import names
from inference.contracts.auth import PURPOSE_WORKER_HTTP, is_bearer
from inference.contracts.codec import decode, encode
from inference.contracts.errors import ErrorCode
from inference.contracts.generation import WorkerError
from inference.contracts.reports import Address, WorkerLoad
from inference.contracts.specs import WorkerSpec
from inference.contracts.timings import Counter, Window
from inference.contracts.worker import ProcessAnnouncement, RoleOrder, WindowBatch, WorkerStatus


class Stub:
    def __init__(self, spec: WorkerSpec, folder: Path) -> None:
        self.spec = spec
        self.folder = folder
        self.words = spec.model_path.split(";")
        self.draining = False
        self.role = spec.role

    def is_now(self, state: str) -> bool:
        return state in self.words or (self.folder / state).exists()

    def status(self) -> WorkerStatus:
        busy = 1 if self.is_now("busy") else 0
        return WorkerStatus(
            worker_id=self.spec.worker_id,
            incarnation=self.spec.incarnation,
            role=self.role,
            ready=not self.is_now("loading"),
            draining=self.draining,
            healthy=not self.is_now("stuck"),
            failure=None,
            fatal=False,
            transfer=Address(host="10.9.9.9", port=4242),
            fingerprint="stub",
            context_length=128,
            load=WorkerLoad(running=busy, waiting=0, waiting_tokens=0, kv_blocks_used=busy, kv_blocks_total=10),
        )

    def switch(self, order: RoleOrder) -> str | None:
        """Why not; None when it is done."""
        while self.is_now("hang-switch"):
            time.sleep(0.05)
        if self.is_now("crash-switch"):
            os._exit(137)
        if self.is_now("refuse-switch"):
            return "no token came out"
        say(f"becomes {order.role} of {order.pool_id}")
        self.role = order.role
        return None

    def windows(self) -> WindowBatch:
        window = Window(second=-1, source=f"worker:{self.spec.worker_id}", deployment=self.spec.deployment)
        window.count(Counter.OUTPUT_TOKENS, 3)
        return WindowBatch(windows=(window,))


def handler(stub: Stub) -> type[BaseHTTPRequestHandler]:
    secret = Path(os.environ["TANDEM_CLUSTER_SECRET_FILE"]).read_text()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            while stub.is_now("hang"):
                time.sleep(0.05)
            if not is_bearer(self.headers.get("Authorization"), secret, PURPOSE_WORKER_HTTP):
                return self.send_error(401)
            code, body = 200, b"{}"
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            match self.path:
                case names.WORKER_STATUS:
                    body = encode(stub.status())
                case names.WORKER_WINDOWS:
                    body = encode(stub.windows())
                case names.WORKER_DRAIN:
                    stub.draining = True
                case names.WORKER_UNDRAIN:
                    stub.draining = False
                case names.WORKER_ROLE:
                    code, body = role_answer(stub, decode(sent, RoleOrder))
            try:
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def role_answer(stub: Stub, order: RoleOrder) -> tuple[int, bytes]:
    refused = stub.switch(order)
    if refused is None:
        return 200, encode(stub.status())
    return 409, encode(WorkerError(code=ErrorCode.SWITCH_REFUSED, message=refused))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", type=Path)
    parser.add_argument("--announce", type=Path)
    options = parser.parse_args()
    spec = decode(options.spec.read_bytes(), WorkerSpec)
    stub = Stub(spec, options.spec.parent)
    say(f"stub {spec.worker_id} incarnation {spec.incarnation} starts")
    if "deaf" in stub.words:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "fatal" in stub.words:
        say("no such model: /nowhere")
        sys.exit(3)
    for word in stub.words:
        if word == "oom" or (word.startswith("oom-times=") and _starts(stub.folder) <= int(word.split("=")[1])):
            say("\x1b[31mRuntimeError: out of memory\x1b[0m")
            sys.exit(1)
    if "family" in stub.words:
        pids = stub.folder / "family-pids"
        subprocess.run(["sh", "-c", f"sleep 600 & echo $! > {pids}.new; sleep 601 & echo $! >> {pids}.new"], check=True)
        child = subprocess.Popen(["sh", "-c", "sleep 602 & wait"])
        with pids.with_suffix(".new").open("a") as file:
            file.write(f"{child.pid}\n")
        pids.with_suffix(".new").replace(pids)
    while "silent" in stub.words:
        time.sleep(1)
    server = ThreadingHTTPServer((os.environ["TANDEM_WORKER_HOST"], 0), handler(stub))
    server.daemon_threads = True
    said = ProcessAnnouncement(
        worker_id=spec.worker_id,
        incarnation=spec.incarnation,
        pid=os.getpid(),
        http=Address(host="10.9.9.9", port=server.server_address[1]),
        transfer=None,
    )
    temporary = options.announce.with_suffix(".new")
    temporary.write_bytes(encode(said))
    temporary.replace(options.announce)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        signal.pause()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _starts(folder: Path) -> int:
    """How often a stub was started in this folder, this time included."""
    counter = folder / "starts"
    starts = int(counter.read_text()) + 1 if counter.exists() else 1
    counter.write_text(str(starts))
    return starts


if __name__ == "__main__":
    main()
