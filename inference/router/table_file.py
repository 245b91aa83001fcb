"""The last good tables in a file, for a router that starts while Redis is away."""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog

from inference.contracts import codec
from inference.contracts.routing import KeyTable, RoutingTable
from inference.process.files import write_atomically

CACHE_FILE = "router-tables.json"
_log = structlog.get_logger()


class Cached(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file."""

    routing: RoutingTable | None = None
    keys: KeyTable | None = None


class TableFile:
    """In `data_dir`. What can't be read or written is told in the log, and serving goes on without."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / CACHE_FILE

    def read(self) -> Cached:
        try:
            return codec.decode(self._path.read_bytes(), Cached)
        except FileNotFoundError:
            pass
        except (OSError, codec.CodecError) as error:
            _log.error("cached tables not readable", file=str(self._path), error=str(error))
        return Cached()

    def write(self, cached: Cached) -> None:
        """It names keys (as digests) and addresses, so only its owner may read it."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path, codec.encode(cached))
        except OSError as error:
            _log.error("tables not cached", file=str(self._path), error=str(error))
