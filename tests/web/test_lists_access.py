"""Who may do what with lists: roles, other tenants, forms of other sessions. For every path that there is, so a new one
is tested the moment it is registered. What is refused on every page is tested in test_site.py."""

from typing import Any

import pytest

from gatepost.lists.catalogue import BY_NAME, make_custom_list
from gatepost.store.audit import CLI, AuditFilter
from gatepost.store.lists import NewEntry
from gatepost.web.registry import PAGES
from gatepost.web.routing import PageRoute, UploadRoute, WebRoute

URLS = BY_NAME["blocked-urls"]
FEED = make_custom_list("feed", "url", "block", "Feed", "", 100)
ROWS = [row for row in PAGES if row.path.startswith("/lists")]
SCOPED = [row for row in ROWS if "{scope}" in row.path]
CHANGING = [row for row in ROWS if isinstance(row, PageRoute | UploadRoute) and row.may == "lists.change"]
POSTS = [row for row in ROWS if isinstance(row, UploadRoute) or row.method == "POST"]
FIELDS = {
    "entries": "new.example",
    "key": "kept.example",
    "comment": "changed",
    "sure": "1",
    "what": "save",
    "name": "another",
    "kind": "url",
    "category": "block",
}


def named(row: WebRoute) -> str:
    return f"{'POST' if isinstance(row, UploadRoute) else row.method} {row.path}"


def asked(visitor: Any, row: WebRoute, scope: str, **options: Any) -> Any:
    path = row.path.replace("{scope}", scope).replace("{name}", "feed")
    if isinstance(row, UploadRoute):
        return visitor.upload(path, "a.txt", b"new.example", FIELDS | options.get("fields", {}))
    if row.method == "POST":
        return visitor.post(path, FIELDS | options.pop("fields", {}), **options)
    return visitor.get(path, params={"key": "kept.example", "entry": "kept.example", "scope": scope})


def furnish(site: Any) -> str:
    """A tenant with a list of its own and an entry in it."""
    tenant: str = site.new_tenant()
    site.run(site.store.lists.create(tenant, FEED, CLI))
    site.run(site.store.lists.add(tenant, FEED, [NewEntry("kept.example", "kept.example", "kept")], CLI))
    return tenant


@pytest.fixture(scope="module")
def furnished(site: Any) -> str:
    """One that nobody changes."""
    return furnish(site)


@pytest.fixture(scope="module")
def neighbour(site: Any) -> str:
    """Another one."""
    return furnish(site)


def untouched(site: Any, tenant: str) -> bool:
    """Is everything as it was made?"""
    rows = site.run(site.store.lists.page(tenant, "feed")).rows
    own = [state.definition.name for state in site.run(site.store.lists.all(tenant)) if state.definition.custom]
    return [(row.shown, row.comment) for row in rows] == [("kept.example", "kept")] and own == ["feed"]


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_every_row_asks_for_a_permission(row: WebRoute) -> None:
    assert isinstance(row, PageRoute | UploadRoute)
    # A look back, and what an entry would match, shows messages and their recipients.
    reading = "messages.read" if row.path.endswith(("/look-back", "/hits")) else "lists.read"
    assert row.may == ("lists.change" if row in POSTS or row in CHANGING else reading)


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_the_owner_gets_in(site: Any, row: WebRoute) -> None:
    own = furnish(site)
    assert asked(site.visitor(tenant=own), row, own).status_code in (200, 303)


@pytest.mark.parametrize("row", ROWS, ids=named)
def test_nobody_gets_into_the_lists_of_another_tenant(site: Any, furnished: str, neighbour: str, row: WebRoute) -> None:
    answer = asked(site.visitor(tenant=neighbour), row, furnished)
    assert answer.status_code == 404
    assert "kept" not in answer.text
    assert untouched(site, furnished)


@pytest.mark.parametrize("row", SCOPED, ids=named)
@pytest.mark.parametrize("scope", ["global", "0198c5a2-7c11-7d3e-9f00-00000000aa01", "x", "%00"])
def test_nor_into_those_of_the_deployment_or_of_nobody(site: Any, furnished: str, row: WebRoute, scope: str) -> None:
    assert asked(site.visitor(tenant=furnished), row, scope).status_code == 404


@pytest.mark.parametrize("row", SCOPED, ids=named)
def test_a_tenant_that_is_not_there_has_no_lists(site: Any, row: WebRoute) -> None:
    assert asked(site.visitor(), row, "0198c5a2-7c11-7d3e-9f00-00000000aa01").status_code == 404


@pytest.mark.parametrize("row", CHANGING, ids=named)
def test_an_auditor_changes_nothing(site: Any, furnished: str, row: WebRoute) -> None:
    assert asked(site.visitor("auditor", furnished), row, furnished).status_code == 403
    assert untouched(site, furnished)


def test_an_auditor_sees_no_form_that_changes(site: Any, furnished: str) -> None:
    visitor = site.visitor("auditor", furnished)
    for path in ("/lists", f"/lists/{furnished}/feed", f"/lists/{furnished}/feed/entry?key=kept.example"):
        page = visitor.get(path)
        assert page.status_code == 200
        assert page.text.count('name="csrf"') == 1, "the one to sign out with"
        assert "/preview" not in page.text
        assert 'type="checkbox"' not in page.text
    assert "kept" in visitor.get(f"/lists/{furnished}/feed/entry?key=kept.example").text


@pytest.mark.parametrize("row", POSTS, ids=named)
@pytest.mark.parametrize("token", ["", "x" * 43])
def test_a_form_without_the_sessions_token_changes_nothing(
    site: Any, furnished: str, row: WebRoute, token: str
) -> None:
    assert asked(site.visitor(tenant=furnished), row, furnished, fields={"csrf": token}).status_code == 403
    assert untouched(site, furnished)


def test_an_administrator_of_the_deployment_changes_any_scope(site: Any, tenant: str) -> None:
    visitor = site.visitor()
    for scope in ("global", tenant):
        answer = visitor.post(f"/lists/{scope}/blocked-urls/add", {"entries": f"by-{tenant}.example"})
        assert site.went(answer).startswith(f"/lists/{scope}/blocked-urls added~1~")
    record = site.run(site.store.audit.page(AuditFilter(scope=tenant))).rows[0]
    assert (record.actor.label, record.action, record.list) == (f"user:{visitor.who}", "entries.add", "blocked-urls")
