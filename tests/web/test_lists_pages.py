"""The lists of a scope, the entries of a list, and its history, as a browser gets them."""

from typing import Any

import pytest

from gatepost.lists.catalogue import BY_NAME, KINDS, LISTS
from gatepost.lists.entries import NormalForm
from gatepost.store.audit import CLI
from gatepost.store.list_lookup import HitCount
from gatepost.store.lists import NewEntry

DAY = 86_400_000
URLS = BY_NAME["blocked-urls"]


def add(site: Any, scope: str | None, *texts: str, name: str = "blocked-urls", comment: str = "") -> None:
    definition = BY_NAME[name]
    forms = [definition.normalise(text) for text in texts]
    entries = [NewEntry(form.key, form.shown, comment) for form in forms if isinstance(form, NormalForm)]
    assert len(entries) == len(texts)
    site.run(site.store.lists.add(scope, definition, entries, CLI))


def test_every_list_of_a_scope_with_size_and_meaning(site: Any, tenant: str) -> None:
    add(site, tenant, "a.example", "b.example")
    page = site.visitor(tenant=tenant).get("/lists")
    assert page.status_code == 200
    for definition in LISTS:
        assert f'href="/lists/{tenant}/{definition.name}"' in page.text
        assert definition.description in page.text
    row = page.text.partition(f'href="/lists/{tenant}/blocked-urls"')[2].partition("</tr>")[0]
    assert '>2 <span class="soft small nowrap">of 10,000,000<' in row
    assert "a host, *.host, or a host with a path" in row


def test_who_works_on_the_whole_deployment_chooses_a_scope(site: Any, tenant: str) -> None:
    visitor = site.visitor()
    page = visitor.get("/lists").text
    assert '<option value="global" selected>' in page
    assert f'<option value="{tenant}">' in page
    assert 'href="/lists/global/blocked-urls"' in page
    assert f'href="/lists/{tenant}/blocked-urls"' in visitor.get("/lists", params={"scope": tenant}).text


def test_who_has_a_tenant_sees_its_lists_and_no_choice(site: Any, tenant: str) -> None:
    page = site.visitor("analyst", tenant).get("/lists").text
    assert 'id="scope"' not in page
    assert "/lists/global/" not in page


def test_an_entry_with_all_that_is_known_of_it(site: Any, tenant: str) -> None:
    entry = NewEntry("evil.example", "evil.example", "seen in May", 4_102_444_800_000)
    site.run(site.store.lists.add(tenant, URLS, [entry], CLI))
    site.run(site.store.list_lookup.record_hits([HitCount(tenant, URLS.name, "evil.example", 41, 1_700_000_000_000)]))
    page = site.visitor(tenant=tenant).get(f"/lists/{tenant}/blocked-urls").text
    for shown in ("evil.example", "seen in May", "2100-01-01T00:00:00", ">41 <", "2023-11-14T22:13:20", ">cli <"):
        assert shown in page
    assert "1 of at most 10,000,000 entries" in page


def test_an_entry_whose_time_is_over_is_gone(site: Any, tenant: str) -> None:
    entries = [NewEntry("over.example", "over.example", "", 1_000), NewEntry("now.example", "now.example")]
    site.run(site.store.lists.add(tenant, URLS, entries, CLI))
    visitor = site.visitor(tenant=tenant)
    assert shown(visitor.get(f"/lists/{tenant}/blocked-urls").text) == ["now.example"]
    assert visitor.get(f"/lists/{tenant}/blocked-urls/entry?key=over.example").status_code == 404


@pytest.fixture(scope="module")
def empty(site: Any) -> str:
    """A tenant without entries."""
    uid: str = site.new_tenant()
    return uid


@pytest.mark.parametrize("name", list(BY_NAME))
def test_an_empty_list_teaches_with_an_entry_of_its_kind(site: Any, empty: str, name: str) -> None:
    page = site.visitor("analyst", empty).get(f"/lists/{empty}/{name}").text
    assert "This list is empty" in page
    example = KINDS[BY_NAME[name].kind].example.replace("<", "&lt;").replace(">", "&gt;")
    assert f'<code class="break">{example}</code>' in page
    assert f'action="/lists/{empty}/{name}/preview"' in page


def shown(page: str) -> list[str]:
    rows = page.partition("<tbody>")[2].partition("</tbody>")[0].split("/entry?key=")[1:]
    return [row.partition(">")[2].partition("<")[0] for row in rows]


def test_pages_of_a_hundred_go_on_where_the_last_ended(site: Any, tenant: str) -> None:
    names = [f"host-{number:03}.example" for number in range(250)]
    add(site, tenant, *names)
    visitor, path, seen = site.visitor(tenant=tenant), f"/lists/{tenant}/blocked-urls", []
    for expected in (100, 100, 50):
        page = visitor.get(path).text
        seen += shown(page)
        assert len(shown(page)) == expected
        path = page.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert seen == names
    assert path == ""


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"q": "EVIL"}, ["evil.example", "evil.example/a"]),
        ({"q": "https://evil.example/a"}, ["evil.example/a"]),
        ({"q": "xample"}, []),
        ({"q": "XAMPLE/", "how": "contains"}, ["evil.example/a"]),
        ({"q": "a remark", "how": "contains"}, ["evil.example", "evil.example/a", "fine.example"]),
        ({"q": "%"}, []),
        ({"after": "nonsense"}, ["evil.example", "evil.example/a", "fine.example"]),
    ],
)
def test_search_by_beginning_or_by_part(site: Any, tenant: str, asked: dict[str, str], found: list[str]) -> None:
    add(site, tenant, "evil.example", "evil.example/a", "fine.example", comment="A Remark")
    page = site.visitor(tenant=tenant).get(f"/lists/{tenant}/blocked-urls", params=asked)
    assert page.status_code == 200
    assert shown(page.text) == found


def test_people_and_names_are_found_as_they_are_written(site: Any, tenant: str) -> None:
    add(site, tenant, "Ann Example <ann@example.com>", name="protected-people")
    add(site, tenant, "Example Bank <example.com>", name="protected-names")
    for name, text in (("protected-people", "Ann"), ("protected-names", "Example B")):
        page = site.visitor(tenant=tenant).get(f"/lists/{tenant}/{name}", params={"q": text})
        assert len(shown(page.text)) == 1


def test_the_history_names_who_did_what(site: Any, tenant: str) -> None:
    visitor = site.visitor("analyst", tenant)
    assert "No changes yet" in visitor.get(f"/lists/{tenant}/blocked-urls/history").text
    visitor.post(f"/lists/{tenant}/blocked-urls/add", {"entries": "a.example\nb.example"})
    visitor.post(f"/lists/{tenant}/blocked-urls/delete", {"key": "a.example", "sure": "1"})
    add(site, tenant, "192.0.2.7", name="blocked-ips")
    page = visitor.get(f"/lists/{tenant}/blocked-urls/history").text
    assert page.count('/undo"') == 3, "both can be undone, and the last by its notice"
    rows = page.rpartition("<tbody>")[2].partition("</tbody>")[0].split("</tr>")[:-1]
    assert [visitor.who in row for row in rows] == [True, True]
    assert "deleted" in rows[0]
    assert "added or changed" in rows[1]
    assert "<code>b.example</code>" in rows[1]
    assert "192.0.2.7" not in page


def test_history_goes_on_page_by_page(site: Any, tenant: str) -> None:
    for number in range(105):
        add(site, tenant, f"h{number}.example")
    visitor = site.visitor(tenant=tenant)
    page = visitor.get(f"/lists/{tenant}/blocked-urls/history").text
    older = page.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert page.count("<tr>") == 101
    assert visitor.get(older).text.count("<tr>") == 6


@pytest.mark.parametrize("path", ["nothing", "blocked-urls%20", "..%2f", "BLOCKED-URLS"])
def test_a_list_that_is_not_there(site: Any, tenant: str, path: str) -> None:
    answer = site.visitor(tenant=tenant).get(f"/lists/{tenant}/{path}")
    assert answer.status_code == 404
    assert "text/html" in answer.headers["content-type"]


def test_an_auditor_sees_no_form_that_changes(site: Any, tenant: str) -> None:
    add(site, tenant, "kept.example")
    visitor, path = site.visitor("auditor", tenant), f"/lists/{tenant}/blocked-urls"
    for place in ("/lists", path, f"{path}/entry?key=kept.example"):
        page = visitor.get(place)
        assert page.status_code == 200
        assert page.text.count('name="csrf"') == 1, "the one to sign out with"
        assert "/preview" not in page.text
        assert 'type="checkbox"' not in page.text
    assert "kept" in visitor.get(f"{path}/entry?key=kept.example").text


def test_an_administrator_of_the_deployment_changes_any_scope(site: Any, tenant: str) -> None:
    visitor = site.visitor()
    for scope in ("global", tenant):
        answer = visitor.post(f"/lists/{scope}/blocked-urls/add", {"entries": f"by-{tenant}.example"})
        assert site.went(answer).startswith(f"/lists/{scope}/blocked-urls added~1~")
    record = site.trail(scope=tenant)[0]
    assert (record.actor.label, record.action, record.list) == (f"user:{visitor.who}", "entries.add", "blocked-urls")
