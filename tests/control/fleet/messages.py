"""What an agent would send, with everything but what a test is about."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.fleet.joining import join_token_create, node_join
from controlplane.fleet.models import Node
from inference.contracts.reports import DeviceReport, NodeHello, NodeReport
from inference.contracts.states import DeviceKind

GIB = 2**30


def slot(index: int = 0, **changes: Any) -> DeviceReport:
    device = DeviceReport(
        device_id=f"cpu-{index}",
        kind=DeviceKind.CPU,
        index=index,
        name="2 cores",
        memory_total=8 * GIB,
        memory_used=2 * GIB,
        utilization=0.5,
        cores=(2 * index, 2 * index + 1),
    )
    return msgspec.structs.replace(device, **changes)


def hello(**changes: Any) -> NodeHello:
    greeting = NodeHello(
        hostname="alpha",
        address="10.0.0.1",
        agent_version="0.1.0",
        devices=(slot(0), slot(1)),
        cpu_cores=4,
        memory_total=16 * GIB,
    )
    return msgspec.structs.replace(greeting, **changes)


def joined(**changes: Any) -> Node:
    """A node that joined and has not reported yet."""
    token = join_token_create(created_by="ada").raw
    welcome = node_join(token=token, hello=hello(**changes), remote_address="192.0.2.7")
    return Node.objects.get(pk=welcome.node_id)


def report(node: Node, **changes: Any) -> NodeReport:
    said = NodeReport(
        node_id=str(node.pk),
        boot_id="boot-a",
        sequence=1,
        observed_generation=0,
        hostname=node.hostname,
        address=node.address,
        agent_version="0.1.0",
        devices=(slot(0), slot(1)),
        workers=(),
        cpu_cores=4,
        memory_total=16 * GIB,
        memory_used=4 * GIB,
    )
    return msgspec.structs.replace(said, **changes)
