"""Small things that people type and read."""

from __future__ import annotations

import pytest
import typer

from inference.cli.durations import moment, seconds
from inference.cli.errors import BadValue, NotThere
from inference.cli.find import _one
from inference.cli.labels import relabelled
from inference.cli.output import shown
from inference.cli.settings import engine_settings
from inference.cli.sizes import count, share, size
from inference.contracts.specs import EngineSettings
from inference.contracts.states import KVTransport


@pytest.mark.parametrize(
    ("text", "length"), [("90", 90.0), ("90s", 90.0), ("1.5m", 90.0), ("2h", 7200.0), ("1d", 86400.0), (" 5m ", 300.0)]
)
def test_lengths_of_time(text: str, length: float) -> None:
    assert seconds(text) == length


@pytest.mark.parametrize("text", ["", "0", "-1", "1w", "nan", "inf", "1e9", "31d", "m", "٣"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        seconds(text)


def test_moments() -> None:
    assert moment("2026-03-01T12:00:05.123456Z") == "2026-03-01 12:00:05Z"
    assert moment(None) == "never"


def test_one_of_a_thing_is_no_plural() -> None:
    assert [count(number, "node") for number in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]


def test_what_is_not_known_is_shown_as_such_never_as_zero() -> None:
    assert (shown(None), shown(0), shown(()), shown(""), shown(False)) == ("?", "0", "-", "-", "no")
    assert (size(None), share(None, 4), share(1, None), share(1, 0)) == (None, None, None, None)


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert shown("a\x1b[31mb\x07") == "a�[31mb�"


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (80 * 2**30, "80.0 GiB"), (2**51, "2048 TiB")]
)
def test_sizes(amount: int, text: str) -> None:
    assert size(amount) == text


def test_labels_are_added_replaced_by_key_and_removed() -> None:
    assert relabelled(["fast", "rack=r6"], ["rack=r7", "new"]) == ("fast", "new", "rack=r7")
    assert relabelled(["fast", "rack=r6"], ["fast-", "rack-"]) == ()
    assert relabelled(["a=b-"], ["c=d-"]) == ("a=b-", "c=d-")


def test_settings_keep_what_is_not_given() -> None:
    base = EngineSettings(kv_tokens=4096)
    assert engine_settings(["max_model_len=100"], base) == EngineSettings(kv_tokens=4096, max_model_len=100)
    assert engine_settings(["max_model_len=none"]).max_model_len is None
    assert engine_settings(["kv_transports=nixl,tcp"]).kv_transports == (KVTransport.NIXL, KVTransport.TCP)
    assert engine_settings(["kv_by_layer=true"]).kv_by_layer
    assert engine_settings(["kv_transports=none", "prefix_cache=false"]) == EngineSettings(
        kv_transports=(), prefix_cache=False
    )


@pytest.mark.parametrize("given", ["kv_token=1", "kv_tokens", "kv_tokens=many", "=1", "kv_transports=post"])
def test_settings_that_are_none_are_refused(given: str) -> None:
    with pytest.raises(BadValue, match="--set"):
        engine_settings([given])


IDS = {"alpha": "aaaa-1", "beta": "aaaa-2", "gamma": "bbbb-1"}


def find(wanted: str) -> str:
    return _one("thing", wanted, list(IDS), str, lambda name: IDS[name])


def test_a_name_an_id_or_the_beginning_of_one_will_do() -> None:
    assert (find("alpha"), find("aaaa-2"), find("bbbb")) == ("alpha", "beta", "gamma")


def test_several_are_named_and_none_is_guessed() -> None:
    with pytest.raises(BadValue, match="2 things are called 'aaaa': say which of aaaa-1, aaaa-2"):
        find("aaaa")
    with pytest.raises(NotThere, match="There is no thing 'bb'"):
        find("bb")


def test_a_slip_of_the_finger_is_answered_with_what_was_meant() -> None:
    with pytest.raises(NotThere, match="Did you mean gamma"):
        find("gama")
