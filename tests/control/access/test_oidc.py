"""Login through an identity provider: a real one on a real port, with real signatures."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from controlplane.access import users
from controlplane.access.models import OidcIdentity
from controlplane.access.principals import role_of
from controlplane.audit.models import AuditEntry
from tests.control.access.people import ADMIN, OPERATOR, PASSWORD, VIEWER, person
from tests.control.access.provider import CLIENT_ID, CLIENT_SECRET, Provider, running_provider, signing_key

START = "/api/v1/session/oidc"
CALLBACK = "/api/v1/session/oidc/callback"

pytestmark = pytest.mark.django_db


@pytest.fixture
def provider(settings: Settings) -> Iterator[Provider]:
    with running_provider() as running:
        settings.OIDC_ISSUER = running.url
        settings.OIDC_CLIENT_ID = CLIENT_ID
        settings.OIDC_CLIENT_SECRET = CLIENT_SECRET
        settings.OIDC_NAME = "Company login"
        settings.OIDC_TIMEOUT_S = 5.0
        yield running


@pytest.fixture
def browser() -> Client:
    return Client()


def way_back(browser: Client, start: str = START) -> str:
    """Go to the provider, log in there, and be sent back: path and query of the callback."""
    left = browser.get(start)
    assert left.status_code == 302, left.content
    back = urlsplit(requests.get(left["Location"], allow_redirects=False, timeout=5).headers["Location"])
    assert f"{back.scheme}://{back.netloc}{back.path}" == f"http://127.0.0.1:8000{CALLBACK}"
    return f"{back.path}?{back.query}"


def log_in(browser: Client, start: str = START) -> str:
    """Where a whole login ends."""
    return browser.get(way_back(browser, start))["Location"]


def who(browser: Client) -> dict[str, object] | None:
    return browser.get("/api/v1/session").json()["user"]


def test_the_login_page_learns_what_to_offer(browser: Client, provider: Provider, settings: Settings) -> None:
    assert browser.get("/api/v1/session").json()["oidc"] == {"name": "Company login", "url": START}
    settings.OIDC_ISSUER = ""

    assert browser.get("/api/v1/session").json()["oidc"] is None
    assert browser.get(START).status_code == browser.get(CALLBACK).status_code == 404


def test_a_first_login_makes_a_person(browser: Client, provider: Provider) -> None:
    assert log_in(browser, f"{START}?next=/pools") == "/pools"

    assert who(browser) == {
        "username": "grace",
        "kind": "user",
        "role": "viewer",
        "grants": {},
        "only": None,
        "local": False,
    }
    user = User.objects.get()
    assert not user.has_usable_password()
    assert (user.oidc_identity.issuer, user.oidc_identity.subject) == (provider.url, "u-1")
    assert [entry.action for entry in AuditEntry.objects.order_by("id")] == ["user.create", "session.start"]
    assert AuditEntry.objects.get(action="session.start").after == {"how": "oidc"}
    assert browser.session.get_expiry_age() > 86_400


def test_what_is_asked_is_bound_to_this_browser(browser: Client, provider: Provider) -> None:
    log_in(browser)

    [asked] = provider.asked
    assert asked["client_id"] == CLIENT_ID
    assert asked["response_type"] == "code"
    assert asked["scope"] == "openid profile email"
    assert asked["code_challenge_method"] == "S256"
    assert len(asked["code_challenge"]) == 43
    assert len(asked["state"]) >= 20
    assert len(asked["nonce"]) >= 20


def test_a_second_login_finds_the_same_person_under_a_new_name(browser: Client, provider: Provider) -> None:
    log_in(browser)
    provider.person["preferred_username"] = "hopper"
    log_in(Client())

    assert [user.username for user in User.objects.all()] == ["grace"]


def test_local_accounts_stay(browser: Client, provider: Provider) -> None:
    person("ada")
    log_in(Client())
    answer = browser.post("/api/v1/session", {"username": "ada", "password": PASSWORD}, content_type="application/json")

    assert answer.status_code == 200


def test_nobody_takes_over_a_local_account_by_its_name(browser: Client, provider: Provider) -> None:
    person("root", ADMIN)
    provider.person["preferred_username"] = "root"

    assert log_in(browser) == "/login?problem=oidc_name_taken"
    assert who(browser) is None
    assert not OidcIdentity.objects.exists()


# -- roles ---------------------------------------------------------------------------------------------------


@pytest.fixture
def mapped(settings: Settings, provider: Provider) -> Provider:
    settings.OIDC_ROLES = {"tandem-admins": "admin", "ops": "operator"}
    return provider


@pytest.mark.parametrize(
    ("groups", "role"),
    [(["ops"], OPERATOR), (["ops", "tandem-admins", "x"], ADMIN), (["x"], VIEWER), ([], VIEWER), ("ops", OPERATOR)],
)
def test_the_highest_role_of_the_groups_counts(browser: Client, mapped: Provider, groups: object, role: object) -> None:
    mapped.person["groups"] = groups
    log_in(browser)

    assert role_of(User.objects.get()) is role


def test_groups_may_be_told_beside_the_id_token(browser: Client, mapped: Provider) -> None:
    mapped.userinfo = {"sub": "u-1", "groups": ["ops"]}
    log_in(browser)

    assert role_of(User.objects.get()) is OPERATOR


def test_what_is_told_of_somebody_else_is_not_believed(browser: Client, mapped: Provider) -> None:
    mapped.userinfo = {"sub": "u-2", "groups": ["tandem-admins"]}

    assert log_in(browser) == "/login?problem=oidc_refused"
    assert not User.objects.exists()


def test_without_a_mapped_group_there_may_be_no_access(browser: Client, mapped: Provider, settings: Settings) -> None:
    settings.OIDC_DEFAULT_ROLE = "none"
    mapped.person["groups"] = ["x"]

    assert log_in(browser) == "/login?problem=oidc_no_access"
    assert not User.objects.exists()


def test_the_provider_decides_at_each_login_but_the_last_admin_stays_one(browser: Client, mapped: Provider) -> None:
    mapped.person["groups"] = ["tandem-admins"]
    log_in(browser)
    mapped.person["groups"] = []
    assert log_in(Client()) == "/"
    assert role_of(User.objects.get()) is ADMIN

    person("root", ADMIN)
    log_in(Client())
    assert role_of(User.objects.get(username="grace")) is VIEWER


def test_without_a_mapping_roles_are_given_here(browser: Client, provider: Provider) -> None:
    log_in(browser)
    users.user_change(username="grace", role=OPERATOR)
    log_in(Client())

    assert role_of(User.objects.get()) is OPERATOR


def test_who_was_switched_off_stays_out(browser: Client, provider: Provider) -> None:
    log_in(Client())
    users.user_change(username="grace", active=False)

    assert log_in(browser) == "/login?problem=oidc_no_access"
    assert who(browser) is None


# -- answers that can't be trusted -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another-client"},
        {"aud": "another-client", "azp": CLIENT_ID},
        {"iss": "https://elsewhere.example"},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"sub": None},
        {"preferred_username": None},
        {"preferred_username": 7},
        {"preferred_username": "two words"},
        {"preferred_username": "x" * 151},
    ],
    ids=str,
)
def test_an_id_token_that_is_not_for_this_login_is_refused(
    browser: Client, provider: Provider, changes: dict[str, object]
) -> None:
    provider.changes = changes

    assert log_in(browser) == "/login?problem=oidc_refused"
    assert who(browser) is None
    assert not User.objects.exists()


def test_a_signature_by_somebody_else_is_refused(browser: Client, provider: Provider) -> None:
    provider.published = provider.signed_by
    provider.signed_by = signing_key("one")

    assert log_in(browser) == "/login?problem=oidc_refused"


def test_an_id_token_without_a_signature_is_refused(browser: Client, provider: Provider) -> None:
    """Though the provider says that it may make such."""
    provider.algorithm = "none"

    assert log_in(browser) == "/login?problem=oidc_refused"


def test_an_answer_without_an_id_token_is_refused(browser: Client, provider: Provider) -> None:
    provider.without_id_token = True

    assert log_in(browser) == "/login?problem=oidc_refused"


def test_a_key_that_was_replaced_is_fetched(browser: Client, provider: Provider) -> None:
    log_in(Client())
    provider.signed_by = signing_key("two")

    assert log_in(browser) == "/"


def test_an_answer_to_somebody_elses_login_is_refused(browser: Client, provider: Provider) -> None:
    """Login CSRF: the attacker's own answer, in the victim's browser."""
    theirs = way_back(Client())

    assert browser.get(theirs)["Location"] == "/login?problem=oidc_refused"
    way_back(browser)
    assert browser.get(theirs)["Location"] == "/login?problem=oidc_refused"


def test_an_answer_counts_once(browser: Client, provider: Provider) -> None:
    answer = way_back(browser)
    assert browser.get(answer)["Location"] == "/"

    assert browser.get(answer)["Location"] == "/login?problem=oidc_refused"


@pytest.mark.parametrize("query", ["", "?state=x", "?code=x", "?code=x&state=x", "?error=x", "?state=%00&code=%00"])
def test_an_answer_that_nobody_asked_for_is_refused(browser: Client, provider: Provider, query: str) -> None:
    assert browser.get(CALLBACK + query)["Location"] == "/login?problem=oidc_refused"


def test_a_refusal_of_the_provider_is_told(browser: Client, provider: Provider) -> None:
    provider.denies = True

    assert log_in(browser) == "/login?problem=oidc_refused"


def test_a_wrong_client_secret_is_told_in_the_log_without_it(
    browser: Client, provider: Provider, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.OIDC_CLIENT_SECRET = "a-wrong-one"

    assert log_in(browser) == "/login?problem=oidc_refused"
    assert "invalid_client" in caplog.text
    assert "a-wrong-one" not in caplog.text


# -- providers that are away or wrong ----------------------------------------------------------------------------


def test_a_provider_that_is_away_is_told_and_local_logins_go_on(browser: Client, provider: Provider) -> None:
    person("ada")
    provider.down = True

    assert browser.get(START)["Location"] == "/login?problem=oidc_unreachable"
    answer = browser.post("/api/v1/session", {"username": "ada", "password": PASSWORD}, content_type="application/json")
    assert answer.status_code == 200
    provider.down = False
    assert log_in(Client()) == "/"


def test_a_provider_that_goes_away_half_way_is_told(browser: Client, provider: Provider) -> None:
    answer = way_back(browser)
    provider.down = True

    assert browser.get(answer)["Location"] in ("/login?problem=oidc_unreachable", "/login?problem=oidc_refused")
    assert who(browser) is None


def test_a_provider_under_another_name_is_not_believed(browser: Client, provider: Provider) -> None:
    provider.named = "https://elsewhere.example"

    assert browser.get(START)["Location"] == "/login?problem=oidc_unreachable"


@pytest.mark.parametrize(
    "page", ["https://elsewhere.example", "//elsewhere.example", "javascript:alert(1)", "\\\\x", ""]
)
def test_nobody_is_sent_elsewhere_after_the_login(browser: Client, provider: Provider, page: str) -> None:
    assert log_in(browser, f"{START}?next={page}") == "/"


def test_nothing_secret_reaches_a_log(browser: Client, provider: Provider, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "controlplane")
    answer = way_back(browser)
    browser.get(answer)

    [asked] = provider.asked
    for secret in (CLIENT_SECRET, parse_qs(urlsplit(answer).query)["code"][0], asked["nonce"], "access-of-grace"):
        assert secret not in caplog.text
