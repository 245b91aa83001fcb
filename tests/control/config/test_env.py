from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from controlplane.config import env

NAME = "TANDEM_TEST_VALUE"


@pytest.mark.parametrize("value", ["many", "nan", "inf", "-1", "1e999"])
def test_a_number_is_finite_and_never_negative(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(NAME, value)

    with pytest.raises(ImproperlyConfigured, match=NAME):
        env.number(NAME, 1.0)


@pytest.mark.parametrize(("value", "read"), [("", 5.0), ("0", 0.0), ("2.5", 2.5)])
def test_a_number_that_is_not_set_has_its_default(monkeypatch: pytest.MonkeyPatch, value: str, read: float) -> None:
    monkeypatch.setenv(NAME, value)

    assert env.number(NAME, 5.0) == read


def test_a_secret_is_read_from_the_file_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "secret"))

    assert env.secret(NAME) == "s3cret"


def test_a_secret_file_that_is_not_there_is_no_empty_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "nothing"))

    with pytest.raises(ImproperlyConfigured, match="not a readable file"):
        env.secret(NAME)


def test_pairs_are_read_with_equal_signs_in_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of a directory have names like these."""
    monkeypatch.setenv(NAME, "cn=ops=operator, admins = admin")

    assert env.pairs(NAME) == {"cn=ops": "operator", "admins": "admin"}


@pytest.mark.parametrize("value", ["ops", "=admin", "ops=", "ops=admin,x"])
def test_what_is_no_pair_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(NAME, value)

    with pytest.raises(ImproperlyConfigured, match="group=role"):
        env.pairs(NAME)
