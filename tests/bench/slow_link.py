"""A link of a given bandwidth, in a thread of its own: a TCP relay that lets so many bytes a second pass."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from types import TracebackType

from inference.contracts.reports import Address

_PIECE_BYTES = 64 * 1024
#: A real link queues little; a big socket buffer would hide a slow one.
_QUEUE_BYTES = 256 * 1024


class SlowLink:
    """Relays to `target`; what callers send passes at `bytes_per_s`, shared by all of them, answers pass at once."""

    def __init__(self, target: Address, bytes_per_s: float) -> None:
        self._target = target
        self._bytes_per_s = bytes_per_s
        self._free_at = 0.0
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _QUEUE_BYTES)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self._selector = selectors.DefaultSelector()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._relay, name="slow-link", daemon=True)

    @property
    def address(self) -> Address:
        return Address(host="127.0.0.1", port=self._listener.getsockname()[1])

    def __enter__(self) -> SlowLink:
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(5)
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _relay(self) -> None:
        while not self._stop.is_set():
            for key, _ in self._selector.select(0.1):
                if key.data is None:
                    self._accept()
                else:
                    self._pass_on(key.fileobj, *key.data)

    def _accept(self) -> None:
        caller, _ = self._listener.accept()
        onward = socket.create_connection((self._target.host, self._target.port))
        onward.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(caller, selectors.EVENT_READ, (onward, True))
        self._selector.register(onward, selectors.EVENT_READ, (caller, False))

    def _pass_on(self, source: socket.socket, sink: socket.socket, slow: bool) -> None:
        try:
            piece = source.recv(_PIECE_BYTES)
            if piece:
                if slow:
                    self._wait(len(piece))
                sink.sendall(piece)
                return
        except OSError:
            pass
        for end in (source, sink):
            self._selector.unregister(end)
            end.close()

    def _wait(self, size: int) -> None:
        now = time.monotonic()
        self._free_at = max(self._free_at, now) + size / self._bytes_per_s
        if self._free_at > now + 0.001:  # sleeps are no finer than that
            time.sleep(self._free_at - now)
