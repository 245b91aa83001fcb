from __future__ import annotations

from pathlib import Path

import pytest

from inference.router.config import read_config

ENV = {"REDIS_URL": "redis://:pw@127.0.0.1:1/0", "TANDEM_CLUSTER_SECRET": "s3cret"}


def test_arguments_win_over_the_environment() -> None:
    env = {**ENV, "TANDEM_ROUTER_HOST": "192.0.2.7", "TANDEM_ROUTER_PORT": "7000", "TANDEM_DATA": "/d"}
    config = read_config(env)
    assert (config.host, config.port, config.data_dir) == ("192.0.2.7", 7000, Path("/d"))
    assert read_config(env, host="::1", port=0).port == 0


def test_the_default_is_loopback() -> None:
    assert read_config(ENV).host == "127.0.0.1"


def test_every_deadline_limit_and_interval_can_be_set() -> None:
    env = {**ENV, "TANDEM_ROUTER_IDLE_S": "1.5", "TANDEM_ROUTER_MAX_ATTEMPTS": "5", "TANDEM_ROUTER_WINDOW_S": "2"}
    config = read_config(env)
    assert (config.deadlines.idle_s, config.limits.max_attempts, config.intervals.window_s) == (1.5, 5, 2.0)


def test_the_secret_may_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from-file\n")
    env = {"REDIS_URL": "redis://x", "TANDEM_CLUSTER_SECRET_FILE": str(tmp_path / "secret")}
    assert read_config(env).cluster_secret == "from-file"


def test_secrets_are_not_printed() -> None:
    shown = repr(read_config(ENV))
    assert "s3cret" not in shown
    assert "pw" not in shown


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"REDIS_URL": ""}, "REDIS_URL"),
        ({"TANDEM_CLUSTER_SECRET": ""}, "TANDEM_CLUSTER_SECRET"),
        ({"TANDEM_ROUTER_IDLE_S": "soon"}, "TANDEM_ROUTER_IDLE_S"),
        ({"TANDEM_ROUTER_IDLE_S": "0"}, "TANDEM_ROUTER_IDLE_S"),
        ({"TANDEM_ROUTER_IDLE_S": "nan"}, "TANDEM_ROUTER_IDLE_S"),
        ({"TANDEM_ROUTER_IDLE_S": "inf"}, "TANDEM_ROUTER_IDLE_S"),
        ({"TANDEM_ROUTER_PORT": "x"}, "TANDEM_ROUTER_PORT"),
        ({"TANDEM_ROUTER_PORT": "70000"}, "TANDEM_ROUTER_PORT"),
    ],
)
def test_what_is_missing_or_wrong_is_named(env: dict[str, str], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        read_config({**ENV, **env})
