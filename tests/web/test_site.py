"""The checks in front of every page: session, permission, token, and that no other site can change anything. They go
over the table of routes, so that a route which is added is tried as well."""

import html
import re
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from tests.web.routes import CLOSED, ask, name_of, path_of

from gatepost import __version__
from gatepost.store.audit import CLI
from gatepost.web.registry import PAGES
from gatepost.web.request import ROLES
from gatepost.web.routing import is_same_origin

CHANGING = [row for row in CLOSED if row.method == "POST"]
WITH_PERMISSION = [row for row in CLOSED if row.may]
GETS = [row for row in CLOSED if row.method == "GET"]
FIELDS = {"sure": "1", "name": "x"}


def test_every_page_is_there_once() -> None:
    names = [name_of(row) for row in CLOSED]
    assert len(names) == len(set(names)) > 30


@pytest.mark.parametrize("row", CLOSED, ids=name_of)
def test_nobody_gets_in_without_signing_in(site: Any, row: Any) -> None:
    for cookie in ("", "__Host-gatepost=guessed"):
        headers = {"Accept": "text/html", "Cookie": cookie}
        answer = httpx.request(row.method, site.url + path_of(row), headers=headers, trust_env=False)
        if row.method == "POST":
            assert answer.status_code == 401
            assert "<h1>Sign in</h1>" in answer.text
        else:
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/sign-in")


@pytest.mark.parametrize("row", CHANGING, ids=name_of)
def test_a_form_without_its_token_changes_nothing(site: Any, row: Any) -> None:
    visitor, other = site.visitor(), site.visitor("auditor")
    before = site.trail()[:1]
    for token in ("", "x" * 43, other.csrf):
        answer = ask(visitor, row, path_of(row, scope="global"), {**FIELDS, "csrf": token})
        assert answer.status_code == 403, token
        assert "session has changed" in answer.text
    assert site.trail()[:1] == before
    assert visitor.get("/account").status_code == 200, "the session goes on"


ELSEWHERE = [
    *({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}),
    *({"Origin": "https://evil.example"}, {"Origin": "null"}),
]


@pytest.mark.parametrize("row", CHANGING, ids=name_of)
def test_another_site_changes_nothing(site: Any, row: Any) -> None:
    visitor, before = site.visitor(), site.trail()[:1]
    for headers in ELSEWHERE:
        answer = ask(visitor, row, path_of(row, scope="global"), FIELDS, **headers)
        assert answer.status_code == 403, headers
        assert "another site" in answer.text
    assert site.trail()[:1] == before


@pytest.mark.parametrize("row", [row for row in PAGES if row not in CLOSED and row.method == "POST"], ids=name_of)
def test_nor_does_another_site_send_the_forms_of_strangers(site: Any, row: Any) -> None:
    for headers in ELSEWHERE:
        answer = site.visitor().bare("POST", path_of(row), data={"a": "b"}, headers=headers)
        assert answer.status_code == 403, headers


@pytest.fixture(scope="module")
def owner(site: Any) -> str:
    """A tenant with people of every role."""
    uid: str = site.new_tenant()
    return uid


@pytest.mark.parametrize("row", WITH_PERMISSION, ids=name_of)
def test_a_role_opens_what_it_has_and_nothing_else(site: Any, owner: str, row: Any) -> None:
    """Whoever has a tenant never manages the deployment, whatever the role."""
    for scope in (None, owner):
        for role, granted in ROLES.items():
            may = row.may in granted and not (scope and row.may.startswith(("tenants.", "system.", "feeds.")))
            answer = ask(site.visitor(role, scope), row, path_of(row), {"csrf": "x" * 43})
            assert ("cannot use this page" in answer.text) is not may, (role, scope)
            assert may or answer.status_code == 403


# What the permission of a page is named by: the first part of its path, or another word. Pages of mail have several.
AREAS = {each: each for each in "lists feeds policy digests learning keys tenants users audit alerts system".split()}
AREAS |= dict.fromkeys(("tokens", "configuration", "nodes", "checklist"), "system")
AREAS |= {"rules": "policy", "list-changes": "lists"}
OTHERS = {
    "POST /policy": "policy.read",
    "POST /policy/draft": "system.change",
    "POST /policy/draft/try": "system.change",
    "POST /system/examine": "system.read",
    # A look back, and what an entry would match, shows messages and their recipients.
    **dict.fromkeys(("GET /lists/{scope}/{name}/hits", "GET /lists/{scope}/{name}/look-back"), "messages.read"),
}


@pytest.mark.parametrize("row", [row for row in CLOSED if row.path.split("/")[1] in AREAS], ids=name_of)
def test_a_page_asks_for_the_permission_of_its_area(row: Any) -> None:
    changes = row.method == "POST" or row.path.endswith(("/edit", "/import", "/remove"))
    usual = f"{AREAS[row.path.split('/')[1]]}.{'change' if changes else 'read'}"
    assert row.may == OTHERS.get(name_of(row), usual)


@pytest.mark.parametrize("row", GETS, ids=name_of)
def test_no_page_may_be_framed_kept_or_given_scripts(site: Any, row: Any) -> None:
    answer = ask(site.visitor(), row, path_of(row), {})
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    if answer.headers.get("content-type", "").startswith("text/html"):
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("row", [row for row in GETS if "{" in row.path], ids=name_of)
def test_what_is_not_there_is_not_found(site: Any, row: Any) -> None:
    assert ask(site.visitor(), row, path_of(row), {}).status_code == 404


def test_errors_are_pages_for_browsers_and_json_for_programs(site: Any) -> None:
    page = site.visitor().get("/nothing/here")
    assert page.status_code == 404
    assert "<h1>Not found</h1>" in page.text
    assert "Go to Overview" in page.text
    assert httpx.get(f"{site.url}/nothing/here", trust_env=False).json()["error"] == "not_found"
    assert (
        httpx.get(f"{site.url}/v1/x", headers={"Accept": "text/html"}, trust_env=False).json()["error"] == "not_found"
    )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing/here", 404),
        ("GET", "/messages/not-an-id/nothing", 404),
        ("GET", "/static/0000000000000000/gatepost.css", 404),
        ("GET", "/sign-in/", 404),
        ("DELETE", "/messages", 405),
        ("POST", "/system", 405),
    ],
)
def test_whoever_is_signed_in_keeps_the_menu_where_there_is_nothing(
    site: Any, tenant: str, method: str, path: str, status: int
) -> None:
    for visitor in (site.visitor(), site.visitor("analyst", tenant)):
        answer = visitor.bare(method, path)
        assert answer.status_code == status
        assert 'aria-label="Main"' in answer.text
        assert html.escape(visitor.who) in answer.text
        assert answer.headers["cache-control"] == "no-store"
    for cookies in ({}, {"Cookie": "__Host-gatepost=" + "0" * 64}, {"Cookie": "__Host-gatepost=' OR 1=1"}):
        bare = httpx.request(method, site.url + path, headers={"Accept": "text/html", **cookies}, trust_env=False)
        assert bare.status_code == status
        assert re.findall(r'(?:href|src)="(/[^"]*)"', re.sub('/static/[^"]*', "", bare.text)) == ["/", "/"]
        for said in ("aria-label", "Overview", "csrf", "System", __version__):
            assert said not in bare.text


def test_who_has_something_to_do_first_gets_no_menu(site: Any) -> None:
    name = site.new_user("administrator")
    known = site.known(name)
    site.run(site.store.users.set_password(known.user.uid, known.password, CLI, must_change=True))
    answer = site.enter(name).get("/nothing/here")
    assert answer.status_code == 404
    assert 'aria-label="Main"' not in answer.text


def test_assets_are_kept_for_good_and_by_what_is_in_them(site: Any) -> None:
    page = site.visitor().get("/account").text
    path = page.partition('rel="stylesheet" href="')[2].partition('"')[0]
    answer = httpx.get(site.url + path, trust_env=False)
    assert answer.headers["content-type"].startswith("text/css")
    assert "immutable" in answer.headers["cache-control"]
    assert httpx.get(f"{site.url}/static/0000000000000000/gatepost.css", trust_env=False).status_code == 404
    assert httpx.get(f"{site.url}/static/../../registry.py", trust_env=False).status_code == 404


@pytest.mark.parametrize(
    ("scheme", "origin", "own"),
    [
        ("https", "https://gw.example", True),
        ("https", "http://gw.example", False),
        ("http", "http://gw.example", True),
        ("http", "https://gw.example", True),  # behind a proxy that ends TLS
        ("https", "https://gw.example:444", False),
        ("https", "https://evil.example", False),
        ("https", "ftp://gw.example", False),
        ("https", "null", False),
        ("https", "https://[", False),
        ("https", "", False),
    ],
)
def test_an_origin_is_ours_with_its_scheme(scheme: str, origin: str, own: bool) -> None:
    headers = [(b"host", b"gw.example"), (b"origin", origin.encode())]
    scope = {"type": "http", "scheme": scheme, "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    assert is_same_origin(Request(scope)) is own
