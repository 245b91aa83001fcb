from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from inference.agent.engines.command import Command, Engine, EngineRegistry
from inference.agent.hosts import Hosts
from inference.agent.state_dir import StateDir, WorkerRecord
from inference.agent.workers.launcher import Launcher, passed_on
from inference.agent.workers.process import Exit, WorkerProcess, birth_of
from tests.inference.agent.node_under_test import is_alive, wait_for, worker

HOSTS = Hosts(advertised="127.0.0.1", bind="127.0.0.1")


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"], start_new_session=True)


def test_a_birth_is_the_same_at_every_look_and_differs_between_processes() -> None:
    with sleeper() as first, sleeper() as second:
        birth = birth_of(first.pid)
        assert birth is not None
        assert birth_of(first.pid) == birth
        assert birth_of(os.getpid()) != birth
        first.kill()
        second.kill()
    assert birth_of(first.pid) is None


def test_every_end_has_words() -> None:
    assert str(Exit(3)) == "exited with code 3"
    assert str(Exit(-9)) == "was ended by SIGKILL"
    assert str(Exit(-40)) == "was ended by signal 40"
    assert "not known" in str(Exit(None))


def test_a_zombie_is_not_alive() -> None:
    with sleeper() as process:
        process.kill()
        wait_for(lambda: birth_of(process.pid) is None)
        assert birth_of(process.pid, zombies=True) is not None
        process.wait()


def test_f13_a_reused_pid_is_neither_adopted_nor_killed() -> None:
    with sleeper() as stranger:
        birth = birth_of(stranger.pid)
        assert birth is not None
        boot, ticks = birth.split("/")
        assert WorkerProcess.adopted(stranger.pid, f"{boot}/{int(ticks) - 100}") is None
        assert WorkerProcess.adopted(stranger.pid, f"another-boot/{ticks}") is None
        earlier = WorkerProcess(stranger.pid, f"{boot}/{int(ticks) - 100}", None)
        earlier.terminate()
        earlier.kill()
        assert earlier.poll() is not None
        assert stranger.poll() is None, "a process of another birth must not be hit"
        stranger.kill()


def test_an_adopted_process_is_ended_with_its_group() -> None:
    program = "import subprocess, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True) as leader:
        assert leader.stdout is not None
        child = int(leader.stdout.readline())
        adopted = WorkerProcess.adopted(leader.pid, birth_of(leader.pid))
        assert adopted is not None
        assert adopted.poll() is None
        adopted.terminate()
        assert leader.wait(10) == -signal.SIGTERM
        wait_for(lambda: not is_alive(child))
        how = adopted.poll()
        assert how is not None
        assert how.code is None
        assert not how.fatal


def test_a_process_that_ends_at_once_still_tells_its_exit_code() -> None:
    process = WorkerProcess.child(subprocess.Popen(["sh", "-c", "exit 3"], start_new_session=True))
    how = wait_for(process.poll)
    assert how.fatal
    assert str(how) == "exited with code 3"


def test_the_record_is_written_with_the_start_and_names_the_process(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    engines = EngineRegistry({"native": Engine(lambda _: Command(argv=("sleep", "600")))})
    launcher = Launcher(state, engines, hosts=HOSTS, environment=os.environ)
    process = launcher.launch(worker("w1"), attempts=2)
    [record] = state.records()
    assert (record.pid, record.birth, record.attempts) == (process.pid, process.birth, 2)
    assert record.argv == ("sleep", "600")
    [(again, found)] = Launcher(state, engines, hosts=HOSTS, environment=os.environ).recover()
    assert again == record
    assert found is not None
    assert found.pid == process.pid
    process.end_now()
    [(_, found)] = launcher.recover()
    assert found is None


def test_an_unreadable_record_does_not_hide_the_others(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.save_record(WorkerRecord(spec=worker("good"), attempts=1, restart=0))
    broken = tmp_path / "workers" / "broken"
    broken.mkdir()
    (broken / "record.json").write_text("{half")
    assert [record.spec.worker_id for record in state.records()] == ["good"]


def test_the_environment_of_workers_is_an_allow_list() -> None:
    environment = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "HF_HOME": "/hf",
        "CUDA_HOME": "/cuda",
        "REDIS_URL": "redis://secret",
        "DATABASE_URL": "postgres://secret",
        "TANDEM_CLUSTER_SECRET": "secret",
        "TANDEM_JOIN_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    assert passed_on(environment).keys() == {"PATH", "LC_ALL", "HF_HOME", "CUDA_HOME"}


def test_secrets_and_state_are_readable_by_the_owner_alone(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "agent")
    state.save_secret("s")
    state.save_record(WorkerRecord(spec=worker("w1"), attempts=1, restart=0))
    for path in (state.root, state.secret_file, state.root / "workers" / "w1" / "record.json"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_logs_of_forgotten_workers_are_kept_for_a_while_but_not_for_ever(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    for number in range(30):
        spec = worker(f"w{number}")
        state.save_worker_spec(spec)
        state.log_file(spec.worker_id).write_text("last words")
        state.forget(spec.worker_id)
    kept = sorted((tmp_path / "workers").glob("*/worker.log"))
    assert len(kept) == 20
    assert state.log_file("w29").read_text() == "last words"
    assert not state.spec_file("w29").exists()
