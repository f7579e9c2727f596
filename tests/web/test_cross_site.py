"""Every change over the table of routes: without the token of the session, from another site or without the permission
it is refused, and nothing changes. A route that is added is tried as well."""

from typing import Any

import pytest

from gatepost.store.audit import AuditFilter
from gatepost.web.registry import PAGES
from gatepost.web.request import ROLES, permissions_of
from gatepost.web.routing import PageRoute, PublicRoute, UploadRoute

CHANGES = [
    row for row in PAGES if isinstance(row, UploadRoute) or (isinstance(row, PageRoute) and row.method == "POST")
]
PUBLIC_CHANGES = [row for row in PAGES if isinstance(row, PublicRoute) and row.method == "POST"]
WITH_PERMISSION = [row for row in PAGES if not isinstance(row, PublicRoute) and row.may]
PARTS = ("scope", "name", "ggrid", "index", "number", "published", "item", "uid", "id", "version", "kind", "link")
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def people(site: Any) -> list[tuple[Any, frozenset[str]]]:
    """A visitor of each role, of the deployment and of a tenant, with what each of them may."""
    found: list[tuple[Any, frozenset[str]]] = []
    for scope in (None, site.new_tenant()):
        for role in ROLES:
            visitor = site.visitor(role, scope)
            (user,) = (each for each in site.run(site.store.users.all(scope)) if each.name == visitor.who)
            found.append((visitor, permissions_of(user)))
    return found


def path_of(row: Any) -> str:
    path: str = row.path
    for name in PARTS:
        path = path.replace(f"{{{name}}}", {"scope": "global", "name": "blocked-urls"}.get(name, "1"))
    assert "{" not in path
    return path


def last_record(site: Any) -> int:
    rows = site.run(site.store.audit.page(AuditFilter())).rows
    return rows[0].id if rows else 0


def name_of(row: Any) -> str:
    return f"{getattr(row, 'method', 'POST')} {row.path}"


@pytest.mark.parametrize("row", CHANGES, ids=name_of)
def test_a_change_needs_the_token_and_our_own_page(site: Any, people: Any, row: Any) -> None:
    visitor, (other, _) = site.visitor(), people[-1]
    before = last_record(site)
    elsewhere = ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"})
    for token in ("", "x" * 43, other.csrf):
        if isinstance(row, UploadRoute):
            answer = visitor.upload(path_of(row), "f.txt", b"new.example\n", {"csrf": token})
        else:
            answer = visitor.post(path_of(row), {"csrf": token, "sure": "1", "name": "x"})
        assert answer.status_code == 403, token
    for headers in (*elsewhere, {"Origin": "null"}):
        if isinstance(row, UploadRoute):
            answer = visitor.upload(path_of(row), "f.txt", b"new.example\n", headers=headers)
        else:
            answer = visitor.post(path_of(row), {"sure": "1", "name": "x"}, headers=headers)
        assert answer.status_code == 403, headers
    assert last_record(site) == before
    assert visitor.get("/account").status_code == 200, "the session goes on"


@pytest.mark.parametrize("row", PUBLIC_CHANGES, ids=name_of)
def test_nor_does_another_site_send_the_forms_of_strangers(site: Any, row: Any) -> None:
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        answer = site.visitor().bare("POST", path_of(row), content=b"a=b", headers={**FORM, **headers})
        assert answer.status_code == 403, headers


@pytest.mark.parametrize("row", WITH_PERMISSION, ids=name_of)
def test_a_page_needs_its_permission(people: Any, row: Any) -> None:
    for visitor, granted in people:
        if row.may in granted:
            continue
        if isinstance(row, UploadRoute):
            answer = visitor.upload(path_of(row), "f.txt", b"new.example\n")
        else:
            answer = visitor.post(path_of(row)) if row.method == "POST" else visitor.get(path_of(row))
        assert answer.status_code == 403, visitor.who
