"""Adding, changing and deleting entries: first what it would do, then the change, under the name of who made it."""

from typing import Any

import pytest
from tests.web.conftest import delivered

from gatepost.lists.catalogue import BY_NAME, make_custom_list
from gatepost.store.audit import CLI
from gatepost.store.list_lookup import HitCount
from gatepost.store.lists import NewEntry
from gatepost.web.pages.list_changes import MAX_LINES

URLS = BY_NAME["blocked-urls"]


def changes(site: Any, tenant: str) -> list[tuple[str, str, int]]:
    records = site.trail(scope=tenant)
    return [(each.actor.label, each.action, each.count) for each in records if each.action.startswith("entries.")]


def put(site: Any, tenant: str, *keys: str, **options: Any) -> None:
    site.run(site.store.lists.add(tenant, URLS, [NewEntry(key, key, **options) for key in keys], CLI))


def preview(site: Any, tenant: str, fields: dict[str, str]) -> str:
    answer = site.visitor(tenant=tenant).post(f"/lists/{tenant}/blocked-urls/preview", fields)
    assert answer.status_code == 200
    return str(answer.text)


def figures(page: str) -> list[str]:
    return [piece.partition("<")[0] for piece in page.split('<div class="figure">')[1:]]


def test_a_preview_shows_normal_forms_faults_and_duplicates_and_saves_nothing(site: Any, tenant: str) -> None:
    put(site, tenant, "old.example")
    text = "HTTPS://Evil.Example/\nold.example\tnew remark\n\n# a remark\nnot a host!\nevil.example # why not"
    page = preview(site, tenant, {"entries": text, "comment": "<b>all</b>", "expires": "2099-12-31"})
    assert "<code>evil.example</code>" in page
    assert "from HTTPS://Evil.Example/" in page
    assert "replaced by line 6" in page
    assert "already in the list" in page
    assert "new remark" in page
    assert "why not" in page
    assert "<code>not a host!</code>" in page
    assert "2 entries can be added" in page
    assert "Save 2 entries, skip 1" in page
    assert "&lt;b&gt;all&lt;/b&gt;" in page
    assert [entry.comment for entry in site.entries(tenant)] == [""]
    assert changes(site, tenant) == [("cli", "entries.add", 1)]


def test_a_preview_says_what_would_have_happened(site: Any, tenant: str) -> None:
    for link in ("https://evil.example/a", "https://evil.example/b", "https://fine.example/"):
        site.message(tenant, delivered(link))
    page = preview(site, tenant, {"entries": "evil.example\nabsent.example"})
    assert figures(page) == ["2", "2", "2"]
    assert "of the last 3 messages" in page
    assert "67 % of these messages" in page


def test_what_cannot_be_tried_says_so(site: Any, tenant: str) -> None:
    site.message(tenant, delivered("https://evil.example/a"))
    page = site.visitor(tenant=tenant).post(f"/lists/{tenant}/blocked-phrases/preview", {"entries": "wire it today"})
    assert "cannot be previewed" in page.text
    assert "not known" in page.text


def test_saving_is_one_change_under_the_visitors_name(site: Any, tenant: str) -> None:
    visitor = site.visitor("analyst", tenant)
    answer = visitor.post(
        f"/lists/{tenant}/blocked-urls/add",
        {"entries": "Evil.example\tmine\r\nfine.example", "comment": "feed", "expires": "2099-12-31"},
    )
    assert answer.status_code == 303
    assert site.went(answer).startswith(f"/lists/{tenant}/blocked-urls added~2~")
    found = site.entries(tenant)
    assert [(each.shown, each.comment, each.expires) for each in found] == [
        ("evil.example", "mine", 4_102_444_800_000),
        ("fine.example", "feed", 4_102_444_800_000),
    ]
    assert {each.modified_by for each in found} == {f"user:{visitor.who}"}
    assert changes(site, tenant) == [(f"user:{visitor.who}", "entries.add", 2)]
    assert "Entries saved: 2." in visitor.get(answer.headers["location"]).text


def test_a_faulty_line_stops_all_until_somebody_goes_on_without_it(site: Any, tenant: str) -> None:
    visitor, path = site.visitor(tenant=tenant), f"/lists/{tenant}/blocked-urls/add"
    refused = visitor.post(path, {"entries": "good.example\nnot a host!"})
    assert refused.status_code == 400
    assert "Rejected lines" in refused.text
    assert site.entries(tenant) == ()
    assert visitor.post(path, {"entries": "good.example\nnot a host!", "skip": "1"}).status_code == 303
    assert [entry.shown for entry in site.entries(tenant)] == ["good.example"]


def test_many_are_saved_in_calls_of_five_hundred(site: Any, tenant: str) -> None:
    text = "\n".join(f"host-{number}.example" for number in range(1_201))
    assert site.visitor(tenant=tenant).post(f"/lists/{tenant}/blocked-urls/add", {"entries": text}).status_code == 303
    assert [count for _, _, count in changes(site, tenant)] == [201, 500, 500]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"entries": ""}, "Enter at least one entry."),
        ({"entries": "# only a remark\n\n"}, "Enter at least one entry."),
        ({"entries": "a.example", "expires": "2001-01-01"}, "the date is in the past"),
        ({"entries": "a.example", "expires": "tomorrow"}, "this is not a date"),
        ({"entries": "a.example", "expires": "9999-12-31"}, "this is not a date"),
        ({"entries": "a.example\n" * (MAX_LINES + 1)}, "A form takes at most 10,000 lines"),
    ],
)
@pytest.mark.parametrize("action", ["preview", "add"])
def test_what_no_form_should_say(site: Any, tenant: str, action: str, fields: dict[str, str], said: str) -> None:
    answer = site.visitor(tenant=tenant).post(f"/lists/{tenant}/blocked-urls/{action}", fields)
    assert answer.status_code == 400
    assert said in answer.text
    assert site.entries(tenant) == ()


def test_a_comment_that_is_too_long_is_a_fault_of_its_line(site: Any, tenant: str) -> None:
    page = preview(site, tenant, {"entries": f"a.example\t{'x' * 1001}"})
    assert "has a comment of more than 1,000 characters" in page


def test_a_hash_sign_belongs_to_a_phrase(site: Any, tenant: str) -> None:
    site.visitor(tenant=tenant).post(f"/lists/{tenant}/blocked-phrases/add", {"entries": "we are # one\tremark"})
    (entry,) = site.entries(tenant, "blocked-phrases")
    assert (entry.shown, entry.comment) == ("we are # one", "remark")


def test_a_full_list_is_said_in_the_preview_and_keeps_what_was_applied(site: Any, tenant: str) -> None:
    small = make_custom_list("small", "url", "block", "Small", "", 600)
    site.run(site.store.lists.create(tenant, small, CLI))
    visitor, text = site.visitor(tenant=tenant), "\n".join(f"host-{number}.example" for number in range(700))
    seen = visitor.post(f"/lists/{tenant}/small/preview", {"entries": text})
    assert "0 of at most 600 entries; the new ones do not fit" in seen.text
    assert f'formaction="/lists/{tenant}/small/add"' not in seen.text
    answer = visitor.post(f"/lists/{tenant}/small/add", {"entries": text})
    assert answer.status_code == 409
    assert "500 entries were saved." in answer.text
    assert len(site.entries(tenant, "small")) == 500


def test_comment_and_end_of_an_entry(site: Any, tenant: str) -> None:
    put(site, tenant, "evil.example", comment="before", expires=4_102_444_812_345)
    site.run(site.store.list_lookup.record_hits([HitCount(tenant, URLS.name, "evil.example", 3, 5)]))
    visitor, path = site.visitor("analyst", tenant), f"/lists/{tenant}/blocked-urls/entry"
    page = visitor.get(path, params={"key": "evil.example"}).text
    assert 'value="before"' in page
    assert 'value="2100-01-01T00:00"' in page
    answer = visitor.post(path, {"key": "evil.example", "comment": "after", "expires": "2100-01-01T00:00"})
    assert answer.status_code == 303
    assert site.went(answer).startswith(f"/lists/{tenant}/blocked-urls entry-saved~1~")
    (entry,) = site.entries(tenant)
    assert (entry.comment, entry.expires, entry.hits) == ("after", 4_102_444_812_345, 3)
    assert changes(site, tenant)[0] == (f"user:{visitor.who}", "entries.add", 1)
    visitor.post(path, {"key": "evil.example", "comment": "", "expires": "2100-01-01T10:30"})
    assert site.entries(tenant)[0].expires == 4_102_482_600_000
    visitor.post(path, {"key": "evil.example", "comment": "", "expires": ""})
    assert site.entries(tenant)[0].expires is None


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"key": "evil.example", "expires": "2001-01-01T00:00"}, 400),
        ({"key": "evil.example", "comment": "x" * 1_001}, 400),
        ({"key": "absent.example"}, 404),
        ({"key": ""}, 404),
    ],
)
def test_an_entry_is_not_changed_into_nonsense(site: Any, tenant: str, fields: dict[str, str], status: int) -> None:
    put(site, tenant, "evil.example", comment="before")
    assert site.visitor(tenant=tenant).post(f"/lists/{tenant}/blocked-urls/entry", fields).status_code == status
    assert [entry.comment for entry in site.entries(tenant)] == ["before"]


def test_an_entry_that_is_gone(site: Any, tenant: str) -> None:
    answer = site.visitor(tenant=tenant).get(f"/lists/{tenant}/blocked-urls/entry", params={"key": "gone.example"})
    assert answer.status_code == 404
    assert "no longer in the list" in answer.text


def test_deleting_shows_first_what_it_would_do(site: Any, tenant: str) -> None:
    put(site, tenant, "a.example", "b.example", "c.example")
    site.message(tenant, delivered("https://a.example/"))
    visitor, path = site.visitor("analyst", tenant), f"/lists/{tenant}/blocked-urls/delete"
    page = visitor.post(path, {"key": ["a.example", "b.example", "a.example", "gone.example"]})
    assert page.status_code == 200
    assert "Delete 2 entries from Blocked links?" in page.text
    assert figures(page.text)[:2] == ["2", "1"]
    assert len(site.entries(tenant)) == 3
    answer = visitor.post(path, {"key": ["a.example", "b.example", "gone.example"], "sure": "1"})
    assert answer.status_code == 303
    assert site.went(answer).startswith(f"/lists/{tenant}/blocked-urls deleted~2~")
    assert [entry.shown for entry in site.entries(tenant)] == ["c.example"]
    assert changes(site, tenant)[0] == (f"user:{visitor.who}", "entries.delete", 2)


def test_nothing_chosen_deletes_nothing(site: Any, tenant: str) -> None:
    put(site, tenant, "a.example")
    answer = site.visitor(tenant=tenant).post(f"/lists/{tenant}/blocked-urls/delete", {"sure": "1"})
    assert site.went(answer) == f"/lists/{tenant}/blocked-urls none-selected"
    assert len(site.entries(tenant)) == 1


def test_an_entry_may_be_anything_that_a_form_can_carry(site: Any, tenant: str) -> None:
    phrase = "50% off & “more” +1 <b>/?=#é"
    visitor, path = site.visitor(tenant=tenant), f"/lists/{tenant}/blocked-phrases"
    visitor.post(f"{path}/add", {"entries": phrase})
    (entry,) = site.entries(tenant, "blocked-phrases")
    link = visitor.get(path).text.partition(f'href="{path}/entry?')[2].partition('"')[0].replace("&amp;", "&")
    assert visitor.get(f"{path}/entry?{link}").status_code == 200
    visitor.post(f"{path}/delete", {"key": entry.key, "sure": "1"})
    assert site.entries(tenant, "blocked-phrases") == ()
