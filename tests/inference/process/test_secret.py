"""Where the cluster secret comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference.process.secret import read_cluster_secret


def test_the_file_wins_over_the_variable(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("from the file\n")
    env = {"TANDEM_CLUSTER_SECRET": "from the variable"}
    assert read_cluster_secret(env) == "from the variable"
    assert read_cluster_secret({**env, "TANDEM_CLUSTER_SECRET_FILE": str(file)}) == "from the file"


def test_without_one_the_text_says_what_to_set(tmp_path: Path) -> None:
    empty = tmp_path / "secret"
    empty.write_text("\n")
    for env in ({}, {"TANDEM_CLUSTER_SECRET": " "}, {"TANDEM_CLUSTER_SECRET_FILE": str(empty)}):
        with pytest.raises(ValueError, match="set TANDEM_CLUSTER_SECRET_FILE"):
            read_cluster_secret(env)


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent"):
        read_cluster_secret({"TANDEM_CLUSTER_SECRET_FILE": str(tmp_path / "absent"), "TANDEM_CLUSTER_SECRET": "x"})
