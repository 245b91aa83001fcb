"""Nodes that have, fetch or fail to fetch weights, as the real messages tell."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

from controlplane.fleet.models import Node
from controlplane.fleet.services import node_record_report
from controlplane.operations.models import Operation
from controlplane.operations.services import operations_sweep
from inference.contracts import codec, names
from inference.contracts.reports import DeviceReport, WeightsReport
from inference.contracts.specs import NodeSpec, WeightsSpec
from tests.control.conftest import Clock, Outbox
from tests.control.fleet.messages import joined, report

PATH = "org/model"
GB = 10**9


class Nodes:
    def __init__(self, now: Clock, outbox: Outbox, capture: Callable[..., AbstractContextManager[Any]]) -> None:
        self.now = now
        self.outbox = outbox
        self._capture = capture
        self._sequence = 0

    def committing(self) -> AbstractContextManager[Any]:
        return self._capture(execute=True)

    def add(self, name: str, **hello: Any) -> UUID:
        node = joined(name=name, **hello)
        self.report(node.pk, **({"devices": hello["devices"]} if "devices" in hello else {}))
        return node.pk

    def report(
        self, node_id: UUID, *weights: WeightsReport, applied: bool = True, devices: tuple[DeviceReport, ...] = ()
    ) -> None:
        """applied: the node has taken the newest spec that was made for it."""
        node = Node.objects.get(pk=node_id)
        self._sequence += 1
        said = report(
            node,
            sequence=self._sequence,
            weights=weights,
            observed_generation=node.generation if applied else node.observed_generation,
            **({"devices": devices} if devices else {}),
        )
        with self.committing():
            node_record_report(said, received_at=self.now.advance(1))

    def wanted(self, node_id: UUID) -> tuple[WeightsSpec, ...]:
        """What the newest spec that was sent asks of it."""
        specs = [
            codec.decode(str(args[0]), NodeSpec)
            for task, args, _ in self.outbox.tasks
            if task == names.TASK_APPLY_NODE_SPEC
        ]
        mine = [spec for spec in specs if spec.node_id == str(node_id)]
        return max(mine, key=lambda spec: spec.generation).weights

    def sweep(self) -> None:
        with self.committing():
            operations_sweep(now=self.now.advance(5))

    @staticmethod
    def steps(operation: Operation) -> list[tuple[str, str]]:
        return [(step.text, step.state) for step in operation.steps.order_by("text", "id")]
