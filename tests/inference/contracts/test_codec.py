"""Messages survive the wire, newer peers are understood, nonsense is refused with its place."""

from __future__ import annotations

import msgspec
import msgspec.inspect
import pytest

from inference.contracts import codec
from inference.contracts.generation import Finished, GenerateRequest, StreamEvent, TokenDelta, WorkerTimings
from inference.contracts.histogram import Histogram
from inference.contracts.prompts import Prompt, TextPrompt
from inference.contracts.reports import NodeReport
from inference.contracts.routing import KeyTable, RoutingTable
from inference.contracts.specs import EngineSettings, NodeSpec, WorkerSpec
from inference.contracts.states import FinishReason, PrefillPath, Role, WorkerDesired
from inference.contracts.timings import Counter, Gauge, Latency, Window

SPEC = NodeSpec(
    node_id="n1",
    generation=3,
    workers=(
        WorkerSpec(
            worker_id="w1",
            incarnation="i1",
            deployment="d",
            pool_id="p",
            role=Role.DECODE,
            desired=WorkerDesired.DRAIN,
            model_path="/models/a",
            model_name="a",
            devices=(),
            settings=EngineSettings(kv_tokens=4096),
        ),
    ),
)


def test_a_message_survives_the_wire() -> None:
    assert codec.decode(codec.encode(SPEC), NodeSpec) == SPEC
    assert codec.decode(codec.encode_text(SPEC), NodeSpec) == SPEC


def test_a_window_survives_the_wire_with_its_buckets() -> None:
    window = Window(second=1, source="router:1", deployment="d")
    window.observe(Latency.TTFT, 0.25)
    window.count(Counter.RECEIVED, 3)
    window.gauges[Gauge.IN_FLIGHT] = 2
    assert codec.decode(codec.encode(window), Window) == window


@pytest.mark.parametrize(
    "event",
    [
        TokenDelta(token_ids=(1, 2), text="é"),
        Finished(
            reason=FinishReason.STOP,
            text="",
            prompt_tokens=4,
            cached_tokens=0,
            completion_tokens=2,
            timings=WorkerTimings(queue_s=0.1),
        ),
    ],
)
def test_stream_events_are_told_apart_by_their_tag(event: StreamEvent) -> None:
    assert codec.decode(codec.encode(event), StreamEvent) == event


def test_fields_of_a_newer_peer_are_ignored() -> None:
    data = b'{"request_id":"r","ticket_id":"t","path":"local","invented_later":[1,2]}'
    expected = GenerateRequest(request_id="r", ticket_id="t", path=PrefillPath.LOCAL)
    assert codec.decode(data, GenerateRequest) == expected


@pytest.mark.parametrize("kind", [NodeSpec, NodeReport, RoutingTable, KeyTable])
def test_no_message_between_releases_refuses_a_field_that_a_newer_one_has(kind: type[msgspec.Struct]) -> None:
    """At any depth: routers and agents run on while the control plane is upgraded."""
    strict = [each.__name__ for each in structs_of(kind) if each.__struct_config__.forbid_unknown_fields]
    assert strict == []
    assert len(structs_of(kind)) > 1


def structs_of(kind: type[msgspec.Struct]) -> set[type[msgspec.Struct]]:
    """`kind` and all structs that it is made of."""
    found: set[type[msgspec.Struct]] = set()
    waiting: list[object] = [msgspec.inspect.type_info(kind)]
    while waiting:
        each = waiting.pop()
        if isinstance(each, msgspec.inspect.StructType):
            if each.cls not in found:
                found.add(each.cls)
                waiting.extend(field.type for field in each.fields)
        elif isinstance(each, msgspec.inspect.Type):
            for name in each.__struct_fields__:
                inner = getattr(each, name)
                waiting.extend(inner if isinstance(inner, tuple) else (inner,))
    return found


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "GenerateRequest"),
        (b"\xff", "GenerateRequest"),
        (b'{"request_id":"r","ticket_id":"t"}', "path"),
        (b'{"request_id":1,"ticket_id":"t","path":"local"}', "$.request_id"),
        (b'{"request_id":"r","ticket_id":"t","path":"sideways"}', "$.path"),
    ],
)
def test_nonsense_is_refused_with_the_field_at_fault(data: bytes, said: str) -> None:
    with pytest.raises(codec.CodecError, match="not a valid GenerateRequest") as caught:
        codec.decode(data, GenerateRequest)
    assert said in str(caught.value)


def test_a_report_without_its_order_is_refused() -> None:
    with pytest.raises(codec.CodecError, match="boot_id"):
        codec.decode(b'{"node_id":"n"}', NodeReport)


def test_a_text_prompt_is_no_chat_prompt() -> None:
    encoded = codec.encode(TextPrompt(text="hi"))
    assert msgspec.json.decode(encoded)["type"] == "text"
    assert codec.decode(encoded, Prompt) == TextPrompt(text="hi")


def test_an_empty_histogram_is_written_as_empty() -> None:
    assert codec.encode(Histogram()) == b'{"counts":{}}'
