"""Logins, keys, tokens, people and the audit: secrets are shown once, and one's own token never."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import msgspec
import pytest

from controlplane.access.models import ManagementToken, ServingKey
from inference.cli.login import login_path
from inference.contracts.states import UserRole
from tests.control.cli.conftest import Tandem, token
from tests.control.pools.world import World

pytestmark = pytest.mark.django_db(transaction=True)

NO_ENVIRONMENT = {"TANDEM_URL": "", "TANDEM_TOKEN": ""}
PASSWORD = "correct horse battery"


def test_a_login_is_checked_kept_for_its_owner_and_forgotten(tandem: Tandem) -> None:
    said = tandem.ok(f"login --url {tandem.url}/", stdin=f"{tandem.secret}\n", **NO_ENVIRONMENT)
    assert "as token cli (admin)" in said
    path = login_path()
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert tandem.ok("whoami -q", **NO_ENVIRONMENT) == "token cli\n"
    assert "csrf" not in tandem.json("whoami", **NO_ENVIRONMENT)
    tandem.ok("logout", **NO_ENVIRONMENT)
    assert "Not logged in" in tandem.refused("whoami", 3, **NO_ENVIRONMENT)


def test_a_token_that_does_not_count_is_not_kept(tandem: Tandem) -> None:
    unknown = "tdm-" + "x" * 43
    assert "unknown, expired or revoked" in tandem.refused(f"login --url {tandem.url} --token {unknown}", 3)
    assert "no management token" in tandem.refused(f"login --url {tandem.url}", 3, stdin="hunter2\n")
    assert "can't be reached" in tandem.refused("login --url http://127.0.0.1:1 --token tdm-x", 6)
    assert "nothing came" in tandem.refused(f"login --url {tandem.url}", 2, stdin="")
    assert not login_path().exists()


def test_a_revoked_token_and_a_role_that_does_not_suffice(chat: World, tandem: Tandem) -> None:
    viewer = token(UserRole.VIEWER, "looks")
    assert tandem.ok("pools list -q", TANDEM_TOKEN=viewer)
    assert "needs the role operator" in tandem.refused("pools resize m --decode 1", 3, TANDEM_TOKEN=viewer)
    tandem.ok("tokens revoke looks")
    assert "revoked" in tandem.refused("pools list", 3, TANDEM_TOKEN=viewer)


def test_who_may_see_one_deployment_only_sees_that(chat: World, tandem: Tandem) -> None:
    chat.deploy(unified=1, name="other")
    narrow = token(UserRole.OPERATOR, "narrow", only=["m"])
    assert tandem.ok("deployments list -q", TANDEM_TOKEN=narrow) == "m\n"
    tandem.ok("pools resize m --decode 1", TANDEM_TOKEN=narrow)


def test_a_serving_key_is_shown_once_and_lives_its_life(tandem: Tandem) -> None:
    raw = tandem.ok("keys create ci --rpm 60 --days 30 -q").strip()
    assert raw.startswith("sk-tandem-")
    assert raw not in tandem.ok("keys list")
    assert "120 requests and any tokens a minute, any at one time" in tandem.ok("keys change ci --rpm 120")
    assert "120 requests and 9000 tokens a minute" in tandem.ok("keys change ci --tpm 9000")
    assert "class high" in tandem.ok("keys change ci --class high")
    assert "Invalid value for '--class'" in tandem.refused("keys change ci --class urgent", 2)
    assert "any requests and any tokens a minute" in tandem.ok("keys change ci --no-limits --name robots")
    rotated = tandem.ok("keys rotate robots --grace 1h")
    assert raw not in rotated
    assert "sk-tandem-" in rotated
    tandem.ok("keys revoke robots")
    assert tandem.json("keys list")["items"] == []
    assert [key["name"] for key in tandem.json("keys list --all")["items"]] == ["robots"]
    assert "There is no serving key 'robots'" in tandem.refused("keys revoke robots", 4)


def test_a_trial_makes_no_key(tandem: Tandem) -> None:
    said = tandem("keys create ci --dry-run")
    assert "***" in said.stdout
    assert "nothing was done" in said.stderr
    assert not ServingKey.objects.exists()


def test_keys_of_the_same_name_are_told_apart(tandem: Tandem) -> None:
    for _ in range(2):
        tandem.ok("keys create ci")
    assert "2 serving keys are called 'ci'" in tandem.refused("keys revoke ci", 2)
    one = str(ServingKey.objects.first().pk)
    tandem.ok(f"keys revoke {one[:8]}")
    tandem.ok("keys revoke ci")


def test_tokens_are_made_rotated_and_listed(tandem: Tandem) -> None:
    raw = tandem.ok("tokens create ci --role operator --days 90 -q").strip()
    assert tandem.ok("whoami -q", TANDEM_TOKEN=raw) == "token ci\n"
    again = tandem.ok("tokens rotate ci --grace 1s -q").strip()
    assert again.startswith("tdm-")
    assert set(tandem.ok("tokens list -q").split()) == {"ci", "cli"}
    assert ManagementToken.objects.count() == 2


def test_people_come_change_and_go(tandem: Tandem) -> None:
    tandem.ok("users create grace --role viewer --grant m=operator", stdin=f"{PASSWORD}\n")
    assert "m=operator" in tandem.ok("users list")
    assert "grace is operator and inactive" in tandem.ok("users change grace --role operator --inactive --no-grants")
    assert tandem.json("users show grace")["active"] is False
    tandem.ok("users password grace", stdin="another long secret\n")
    tandem.ok("users delete grace --yes")
    assert tandem.json("users list")["items"] == []
    assert "DEPLOYMENT=ROLE" in tandem.refused("users create x --grant m=king", 2, stdin=f"{PASSWORD}\n")
    assert tandem.json("users lockouts")["items"] == []
    assert "0 failed logins of grace" in tandem.ok("users unlock grace")
    assert not any(PASSWORD in said for said in tandem.said)


def test_the_audit_is_searched_and_exported(tandem: Tandem, tmp_path: Path) -> None:
    tandem.ok("keys create ci")
    assert "key.create" in tandem.ok("audit search --action key. --actor 'token cli'")
    assert tandem.json("audit search --text nothing-like-it")["items"] == []
    (header, *rows) = csv.reader(io.StringIO(tandem.ok("audit export --action key.")))
    assert ("action" in header, len(rows)) == (True, 1)
    out = tmp_path / "audit.jsonl"
    tandem.ok(f"audit export --format jsonl --out {out}")
    assert msgspec.json.decode(out.read_bytes().splitlines()[-1])["action"] == "key.create"
    assert "is there already" in tandem.refused(f"audit export --out {out}", 2)
    assert "time like" in tandem.refused("audit search --since yesterday", 2)
