"""Claims about one `up` at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.core.data_lock import Running, only_one
from tests.stack import start_stack

_HOLD = (
    "import sys; from pathlib import Path; from controlplane.core.data_lock import only_one\n"
    "with only_one(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
)


def test_a_data_folder_has_one_up_until_it_ends_however_it_ends(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", _HOLD, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="platform") as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(Running, match="running already"), only_one(tmp_path):
            pass
        other.kill()
    with only_one(tmp_path):
        pass


def test_a_second_up_stops_nothing_of_the_first(tmp_path: Path) -> None:
    with only_one(tmp_path), subprocess.Popen(["sleep", "60"]) as child:
        (tmp_path / "run.json").write_text(f"[[{child.pid}, 0]]")
        second = start_stack(tmp_path, tmp_path)
        assert second.process.wait(30) == 1
        assert "Tandem is running already" in second.output
        assert (tmp_path / "run.json").exists()
        child.kill()
