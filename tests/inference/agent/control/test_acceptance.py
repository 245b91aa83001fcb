"""Holding the broker must not mean running commands on a node: what a node takes from a spec, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.agent.control.acceptance import SpecRefused, accepts
from inference.agent.engines.command import LaunchRequest
from inference.agent.engines.native import native_command
from inference.agent.state_dir import StateDir
from inference.contracts.codec import CodecError, decode, encode
from inference.contracts.specs import DeviceAssignment, EngineSettings, LinkSpec, NodeSpec, WeightsSpec, WorkerSpec
from inference.contracts.states import Role
from tests.inference.agent.node_under_test import HOSTS, NODE, worker

ENGINES = frozenset({"native"})


def spec_of(*workers: WorkerSpec, **changes: Any) -> NodeSpec:
    return NodeSpec(**{"node_id": NODE, "generation": 1, "workers": workers, **changes})


def refusal(spec: NodeSpec) -> str:
    with pytest.raises(SpecRefused) as caught:
        accepts(spec, NODE, 0, ENGINES)
    return str(caught.value)


def device(**changes: Any) -> tuple[DeviceAssignment, ...]:
    return (DeviceAssignment(**{"device_id": "cpu-0", "kind": "cpu", "index": 0, **changes}),)


def test_a_newer_spec_is_taken_and_an_older_or_equal_one_is_not() -> None:
    assert accepts(spec_of(worker("w1"), generation=5), NODE, 4, ENGINES)
    assert not accepts(spec_of(worker("w1"), generation=5), NODE, 5, ENGINES)
    assert not accepts(spec_of(worker("w1"), generation=5), NODE, 6, ENGINES)


@pytest.mark.parametrize(
    "path",
    [
        "/srv/models/SmolLM2 135M",
        "~/models/한국어",
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "models/a.b",
        "/a/--not-first",
    ],
)
def test_what_a_model_is_honestly_called_is_taken(path: str) -> None:
    assert accepts(spec_of(worker("w1", path, model_revision="refs/pr/3")), NODE, 0, ENGINES)


@pytest.mark.parametrize("device_id", ["gpu-4f0e1a2b-33cc-11aa", "mig-4f0e1a2b/1/0", "cpu-12", "GPU:0"])
def test_every_kind_of_device_can_be_named(device_id: str) -> None:
    assert accepts(spec_of(worker("w1", devices=device(device_id=device_id))), NODE, 0, ENGINES)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"engine": "bash"}, "engine 'bash' is not known to this agent (known: native)"),
        ({"engine": "/bin/sh"}, "engine '/bin/sh' is not known"),
        ({"engine": ""}, "engine '' is not known"),
        ({"worker_id": "../../etc/cron.d/x"}, "worker id '../../etc/cron.d/x' is not made of"),
        ({"worker_id": ".."}, "worker id"),
        ({"worker_id": ""}, "worker id"),
        ({"worker_id": "w\n"}, "worker id"),
        ({"worker_id": "w" * 129}, "worker id"),
        ({"incarnation": "$(reboot)"}, "incarnation '$(reboot)' is not made of"),
        ({"pool_id": "p;reboot"}, "pool id 'p;reboot'"),
        ({"deployment": "a\nb"}, "deployment"),
        ({"model_name": "\x1b[2J"}, "model name"),
        ({"model_name": "x" * 257}, "model name"),
        ({"model_path": "--trust-remote-code"}, "begins with '-'"),
        ({"model_path": "-c"}, "begins with '-'"),
        ({"model_path": ""}, "model path"),
        ({"model_path": "/models/a\x00b"}, "model path"),
        ({"model_path": "/models/a\nUSER=root"}, "model path"),
        ({"model_path": "/" + "a" * 1024}, "model path"),
        ({"model_revision": "--upload-pack=touch x"}, "revision '--upload-pack=touch x' is no name"),
        ({"model_revision": "../../secrets"}, "revision"),
        ({"settings": EngineSettings(dtype="float32; reboot")}, "dtype is one of"),
        ({"settings": EngineSettings(kv_tokens=2**40)}, "kv_tokens is at most"),
        ({"settings": EngineSettings(threads=-1)}, "threads is at least 0"),
        ({"settings": EngineSettings(block_size=0)}, "block_size is at least 1"),
        ({"settings": EngineSettings(kv_tokens=8)}, "at least one block"),
        ({"drain_deadline_s": float("inf")}, "drain deadline"),
        ({"drain_deadline_s": float("nan")}, "drain deadline"),
        ({"drain_deadline_s": -1.0}, "drain deadline"),
        ({"restart": -1}, "restart -1 is out of bounds"),
        ({"revision": 2**40}, "revision"),
        ({"memory_bytes": -5}, "memory_bytes -5"),
        ({"devices": device(device_id="gpu-a,GPU-b")}, "device id 'gpu-a,GPU-b' is not one"),
        ({"devices": device(device_id="")}, "device id"),
        ({"devices": device(kind="host")}, "device kind 'host' is not one of gpu, cpu"),
        ({"devices": device(index=-1)}, "device index -1"),
        ({"devices": device(cores=(-1,))}, "cores of device cpu-0"),
        ({"devices": device(cores=(10**9,))}, "cores of device cpu-0"),
        ({"devices": device() * 65}, "65 devices"),
    ],
)
def test_one_value_out_of_bounds_refuses_the_whole_spec_and_names_it(changes: dict[str, Any], said: str) -> None:
    hostile = msgspec.structs.replace(worker("w1"), **changes)
    assert said in refusal(spec_of(worker("good"), hostile))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"node_id": "another"}, "is for node 'another'"),
        ({"generation": -1}, "generation -1"),
        ({"workers": (worker("w1"), worker("w1"))}, "is listed twice"),
        ({"workers": tuple(worker(f"w{n}") for n in range(1025))}, "1025 workers"),
        ({"weights": (WeightsSpec(path="--config"),)}, "weights path '--config'"),
        ({"weights": (WeightsSpec(path="org/model", revision="-x"),)}, "revision"),
        ({"links": (LinkSpec(measurement_id="m", listen=False, peer_host="a b"),)}, "peer 'a b' is no host"),
        ({"links": (LinkSpec(measurement_id="m", listen=False, peer_host="-oProxyCommand=x"),)}, "is no host"),
        ({"links": (LinkSpec(measurement_id="m", listen=False, peer_port=0),)}, "peer port 0"),
        ({"links": (LinkSpec(measurement_id="m", listen=True, size_bytes=2**50),)}, "out of bounds"),
        ({"links": (LinkSpec(measurement_id="m", listen=True, deadline_s=float("inf")),)}, "a deadline of inf s"),
        ({"links": (LinkSpec(measurement_id="../m", listen=True),)}, "id '../m'"),
    ],
)
def test_what_a_node_is_asked_beside_workers_is_bounded_too(changes: dict[str, Any], said: str) -> None:
    assert said in refusal(spec_of(**changes))


def test_the_refusal_itself_is_bounded() -> None:
    assert len(refusal(spec_of(worker("w" * 100_000)))) < 400
    assert len(refusal(spec_of(worker("w1", "\x00" * 100_000)))) < 1200


@pytest.mark.parametrize(
    "planted",
    [
        {"argv": ["/bin/sh", "-c", "reboot"]},
        {"command": "reboot"},
        {"env": {"LD_PRELOAD": "/tmp/evil.so"}},
        {"settings": {"extra_args": ["--trust-remote-code"]}},
    ],
)
def test_fields_that_no_release_knows_reach_no_process(planted: dict[str, Any]) -> None:
    document = json.loads(encode(spec_of(worker("w1"))))
    document["workers"][0] |= planted
    read = decode(json.dumps(document), NodeSpec)
    assert accepts(read, NODE, 0, ENGINES)
    assert read == spec_of(worker("w1"))


@pytest.mark.parametrize(
    "planted", [{"restart": "1; reboot"}, {"devices": "all"}, {"settings": {"threads": "$(nproc)"}}, {"role": "root"}]
)
def test_a_value_of_another_type_is_no_spec(planted: dict[str, Any]) -> None:
    document = json.loads(encode(spec_of(worker("w1"))))
    document["workers"][0] |= planted
    with pytest.raises(CodecError):
        decode(json.dumps(document), NodeSpec)


@given(
    st.builds(
        WorkerSpec,
        worker_id=st.text(max_size=8),
        incarnation=st.text(max_size=8),
        deployment=st.text(max_size=8),
        pool_id=st.text(max_size=8),
        role=st.sampled_from(Role),
        desired=st.just(worker("w").desired),
        model_path=st.text(max_size=12) | st.sampled_from(["-c", "--x", "$(x)", "`x`", "a;b", "a|b"]),
        model_name=st.text(max_size=8),
        devices=st.just(()),
        engine=st.just("native"),
        model_revision=st.text(max_size=6),
    )
)
def test_no_word_of_a_spec_becomes_a_word_of_the_command(tmp_path_factory: Any, spec: WorkerSpec) -> None:
    """The command line is made of the agent's own words and the paths of its own folder."""
    try:
        accepts(spec_of(spec), NODE, 0, ENGINES)
    except SpecRefused:
        return
    state = StateDir(tmp_path_factory.getbasetemp() / "agent")
    request = LaunchRequest(
        spec=spec,
        spec_file=state.spec_file(spec.worker_id),
        announce_file=state.announce_file(spec.worker_id),
        secret_file=state.secret_file,
        hosts=HOSTS,
    )
    command = native_command(request)
    assert command.argv[1:4:2] == ("-m", "--spec")
    folder = state.root / "workers"
    for path in (command.argv[4], command.argv[6]):
        assert path == str(folder / spec.worker_id / path.rsplit("/", 1)[-1])
    assert len(command.argv) == 7
    assert spec.model_path not in command.env.values()
