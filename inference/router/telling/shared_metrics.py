"""The metrics of all router processes behind one port, whichever of them is asked.

Each process answers its siblings on a socket in a directory that only their user may enter. A series names its process,
so one that was started again begins anew by itself, as any counter of a new process, and sums stay those of what lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import aiohttp
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from inference.router.telling.metrics import Metrics

_ANSWERS_WITHIN_S = 1.0
_PATH = "/metrics"
_log = structlog.get_logger()


class SharedMetrics:
    """own: of this process. directory: of the siblings' sockets; None: it is alone. number: of this process."""

    def __init__(self, own: Metrics, directory: Path | None, number: str) -> None:
        self._own = own
        self._directory = directory
        self._number = number
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Answer siblings, where there are any."""
        if self._directory is None:
            return
        app = web.Application()
        app.add_routes([web.get(_PATH, self._answer)])
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        socket = self._directory / self._number
        socket.unlink(missing_ok=True)  # left by one that was killed
        await web.UnixSite(self._runner, str(socket)).start()

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def expose(self) -> bytes:
        """What Prometheus reads: of this process, or of all that answer."""
        if self._directory is None:
            return self._own.expose()
        numbers = sorted(path.name for path in self._directory.iterdir() if path.name.isdigit())
        texts = await asyncio.gather(*(self._text(number) for number in numbers))
        return together({number: text for number, text in zip(numbers, texts, strict=True) if text is not None})

    async def _answer(self, request: web.Request) -> web.Response:
        return web.Response(body=self._own.expose())

    async def _text(self, number: str) -> str | None:
        """None: that process does not answer, or is gone."""
        if number == self._number:
            return self._own.expose().decode()
        connector = aiohttp.UnixConnector(str((self._directory or Path()) / number))
        timeout = aiohttp.ClientTimeout(total=_ANSWERS_WITHIN_S)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.get(f"http://sibling{_PATH}") as answer,
            ):
                return await answer.text()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            _log.debug("a sibling's metrics are left out", number=number, error=str(error))
            return None


def together(texts: dict[str, str]) -> bytes:
    """texts: expositions by process. One exposition, in which every series names its process."""
    families: dict[str, Metric] = {}
    for number, text in texts.items():
        for family in text_string_to_metric_families(text):
            whole = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            whole.samples += [_of(number, sample) for sample in family.samples]
    registry = CollectorRegistry()
    registry.register(_Known(families.values()))
    return generate_latest(registry)


def _of(number: str, sample: Sample) -> Sample:
    return sample._replace(labels={**sample.labels, "process": number})


class _Known(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterator[Metric]:
        yield from self._families
