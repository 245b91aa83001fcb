from __future__ import annotations

import json
from pathlib import Path

import pytest

from inference.agent.weights.source import Source, source_of
from inference.agent.weights.store import NotHere, NotUsable, WeightsStore, check, size_of
from inference.testing.fake_hub import write_model
from tests.inference.agent.node_under_test import worker

URL = "https://models.example/llama.tar"


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("/models/llama", Source.DIRECTORY),
        ("./llama", Source.DIRECTORY),
        ("~/llama", Source.DIRECTORY),
        ("meta-llama/Llama-3.1-8B", Source.HUB),
        ("gpt2", Source.HUB),
        ("https://store.example/llama.tar", Source.WEB),
        ("http://store.example/llama/", Source.WEB),
        ("s3://bucket/llama", Source.UNKNOWN),
    ],
)
def test_what_a_path_names(path: str, source: Source) -> None:
    assert source_of(path) is source


def test_a_directory_that_is_there_wins_over_a_hub_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert source_of("org/name") is Source.DIRECTORY


def test_a_model_has_a_configuration_and_all_the_weights_that_its_index_names(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    assert check(model) == size_of(model) > 200_000
    (model / "model-2-of-2.safetensors").unlink()
    with pytest.raises(NotUsable, match=r"lacks model-2-of-2\.safetensors"):
        check(model)
    (model / "model.safetensors.index.json").write_text("{")
    with pytest.raises(NotUsable, match="can't be read"):
        check(model)
    (model / "model.safetensors.index.json").unlink()
    assert check(model), "one file needs no index"
    (model / "model-1-of-2.safetensors").unlink()
    with pytest.raises(NotUsable, match="pickled weights are not read"):
        check(model)
    (model / "config.json").unlink()
    with pytest.raises(NotUsable, match=r"has no config\.json"):
        check(model)
    with pytest.raises(NotUsable, match="is not a directory on this node"):
        check(tmp_path / "none")


def test_what_was_fetched_is_found_by_source_and_revision(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path / "weights")
    store.root.mkdir()
    published = store.publish(write_model(tmp_path / "m"), "org/name", "v1")
    assert store.find("org/name", "v1") == published
    assert store.find("org/name", "") is None
    assert store.find("org/other", "v1") is None
    assert store.stored() == (published,)
    assert published.size_bytes == size_of(store.folder("org/name", "v1"))


def test_a_fetched_model_that_lost_files_does_not_count_and_is_replaced(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path / "weights")
    store.root.mkdir()
    store.publish(write_model(tmp_path / "m"), "org/name", "")
    (store.folder("org/name", "") / "model-1-of-2.safetensors").unlink()
    assert store.find("org/name", "") is None
    store.publish(write_model(tmp_path / "again"), "org/name", "")
    assert store.find("org/name", "") is not None


@pytest.mark.parametrize("path", ["../../etc", "https://x/../../..", "a/b c;d", "https://x/" + "n" * 500])
def test_no_source_leads_out_of_the_folder(tmp_path: Path, path: str) -> None:
    folder = WeightsStore(tmp_path).folder(path, "")
    assert folder.parent == tmp_path
    assert len(folder.name) < 100


def test_a_worker_loads_the_copy_on_this_machine_where_there_is_one(tmp_path: Path) -> None:
    store = WeightsStore(tmp_path / "weights")
    store.root.mkdir()
    assert store.local_path(worker("w", "/models/llama")) == "/models/llama"
    assert store.local_path(worker("w", "org/name")) == "org/name", "the engine fetches a hub id by itself"
    with pytest.raises(NotHere, match="are not on this node yet"):
        store.local_path(worker("w", URL))
    store.publish(write_model(tmp_path / "m"), URL, "")
    store.publish(write_model(tmp_path / "n"), "org/name", "")
    assert store.local_path(worker("w", URL)) == str(store.folder(URL, ""))
    assert store.local_path(worker("w", "org/name")) == str(store.folder("org/name", ""))
    assert store.local_path(worker("w", "org/name", model_revision="v2")) == "org/name"


def test_the_index_may_name_nothing_outside(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": ["not", "a", "map"]}))
    with pytest.raises(NotUsable, match="can't be read"):
        check(model)
