"""The catalogue: what is in it, where it fits, and where its weights are."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from controlplane.operations.models import Operation
from tests.control.cli.conftest import Tandem
from tests.control.pools.world import World

pytestmark = pytest.mark.django_db(transaction=True)

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}


def test_a_model_comes_is_changed_and_goes(world: World, tandem: Tandem, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_bytes(msgspec.json.encode(CONFIG))
    tandem.ok(f"models add other --path /models/other --description mine --config {config}")
    assert tandem.ok("models list -q").split() == ["other", "tiny"]
    said = tandem.ok("models show other")
    assert "llama" in said
    assert "8192" in said
    tandem.ok("models change other --licence apache-2.0")
    assert tandem.json("models show other")["licence"] == "apache-2.0"
    tandem.ok("models delete other --yes")
    assert tandem.refused("models show other", 4)


def test_what_is_not_known_of_a_model_is_shown_as_such(world: World, tandem: Tandem) -> None:
    row = next(line for line in tandem.ok("models list").splitlines() if line.startswith("tiny"))
    assert "?" in row


def test_a_model_in_use_is_not_deleted_and_a_name_is_given_once(chat: World, tandem: Tandem) -> None:
    assert "m" in tandem.refused("models delete tiny --yes", 5)
    assert tandem.refused("models add tiny --path /x", 5)
    assert "config.json" in tandem.refused("models add x --path /x --config /nonexistent", 2)


def test_where_a_model_fits(chat: World, tandem: Tandem, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_bytes(msgspec.json.encode(CONFIG))
    tandem.ok(f"models change tiny --config {config}")
    assert "NEEDED" in tandem.ok("models fit tiny --kv-tokens 1024")
    assert tandem.json("models fit tiny --kv-tokens 1024")["devices"][0]["count"] == 8
    assert "dtype" in tandem.refused("models fit tiny --dtype float3", 2)


def test_weights_are_fetched_onto_nodes_by_name(chat: World, tandem: Tandem) -> None:
    tandem.ok("models add hub --path some/model")
    tandem.ok("models fetch hub a b --reason soon")
    assert Operation.objects.get(kind="fetch_weights").reason == "soon"
    assert tandem.ok("models weights hub -q").split() == ["a", "b"]
    assert "Name the nodes" in tandem.refused("models fetch hub", 2)
