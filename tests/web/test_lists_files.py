"""Whole lists as files: in through a form, out as a stream; and lists of one's own."""

import json
import re
from typing import Any

import pytest

from gatepost.api.call_limits import LIMITS, CallLimit
from gatepost.api.lists import ListFileError
from gatepost.feeds.sealed_reading import MAX_LINE
from gatepost.feeds.sealed_reading import split_lines as lines_of
from gatepost.lists.catalogue import BY_NAME, LARGE, SMALL, make_custom_list
from gatepost.store.audit import CLI
from gatepost.store.lists import NewEntry
from gatepost.web.pages import list_changes

URLS = BY_NAME["blocked-urls"]
SAVE = {"what": "save"}


def send(site: Any, tenant: str, name: str, content: bytes, fields: dict[str, str] = SAVE, **headers: str) -> Any:
    """Import a file into the blocked links of a tenant."""
    path = f"/lists/{tenant}/blocked-urls/import"
    return site.visitor(tenant=tenant).upload(path, name, content, fields, headers)


def size(site: Any, tenant: str) -> int:
    states = site.run(site.store.lists.all(tenant))
    return next(int(state.size) for state in states if state.definition.name == "blocked-urls")


def actions(site: Any, tenant: str) -> list[tuple[str, str, int]]:
    return [(each.actor.label, each.action, each.count) for each in site.trail(scope=tenant)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("feed.csv", b"entry,comment,expires\nEvil.example,why,2099-01-01T00:00:00Z\nfine.example,,\n"),
        ("feed.CSV", b"\xef\xbb\xbfEvil.example,why,2099-01-01T00:00:00Z\r\nfine.example"),
        (
            "feed.jsonl",
            b'{"entry":"evil.example","comment":"why","expires":"2099-01-01T00:00:00Z"}\n{"entry":"fine.example"}',
        ),
    ],
)
def test_an_import_saves_entries_under_the_visitors_name(site: Any, tenant: str, name: str, content: bytes) -> None:
    visitor = site.visitor("analyst", tenant)
    answer = visitor.upload(f"/lists/{tenant}/blocked-urls/import", name, content, SAVE)
    assert answer.status_code == 200
    assert "2 entries saved" in answer.text
    assert [(each.shown, each.comment, each.expires) for each in site.entries(tenant)] == [
        ("evil.example", "why", 4_070_908_800_000),
        ("fine.example", "", None),
    ]
    assert actions(site, tenant)[0] == (f"user:{visitor.who}", "entries.add", 2)


def undo_of(page: str) -> str:
    (path,) = re.findall(r'action="(/list-changes/[0-9a-f-]+/undo)"', page)
    return str(path)


@pytest.mark.variant
def test_an_import_of_thousands_is_undone_as_one(site: Any, tenant: str) -> None:
    visitor, path = site.visitor("analyst", tenant), f"/lists/{tenant}/blocked-urls"
    old = [
        NewEntry("host-7.example", "host-7.example", "mine", 4_070_908_800_000),
        NewEntry("kept.example", "kept.example"),
    ]
    site.run(site.store.lists.add(tenant, URLS, old, CLI))
    content = b"entry,comment\n" + b"".join(b"host-%d.example,feed\n" % number for number in range(4_940))
    answer = visitor.upload(f"{path}/import", "feed.csv", content, SAVE)
    assert "4,940 entries saved" in answer.text
    assert size(site, tenant) == 4_941
    # One line in the history, in its parts, and the same set can be undone there.
    history = visitor.get(f"{path}/history").text
    assert re.search(r">4,940 <span[^>]*>in 10 parts<", history)
    undo = undo_of(history)
    assert undo == undo_of(answer.text)
    # What somebody changed meanwhile stays.
    changed = NewEntry("host-9.example", "host-9.example", "looked at")
    site.run(site.store.lists.add(tenant, URLS, [changed], CLI))
    other = site.visitor("administrator", tenant)
    assert other.post(undo).status_code == 404, "it is the change of somebody else"
    assert site.visitor("auditor", tenant).post(undo).status_code == 403
    assert site.went(visitor.post(undo)) == f"{path} change-undone-in-part~4939~1"
    assert "Entries restored or removed: 4939; changed meanwhile, so left: 1." in visitor.get(path).text
    assert {(each.shown, each.comment, each.expires) for each in site.entries(tenant)} == {
        ("host-7.example", "mine", 4_070_908_800_000),
        ("host-9.example", "looked at", None),
        ("kept.example", "", None),
    }
    assert visitor.post(undo).status_code == 400, "once"
    # Taking back is a change that can be taken back.
    again = undo_of(visitor.get(f"{path}/history").text)
    assert site.went(visitor.post(again)) == f"{path} change-undone~4939"
    assert size(site, tenant) == 4_941


def test_deleted_entries_come_back(site: Any, tenant: str) -> None:
    visitor, path = site.visitor("analyst", tenant), f"/lists/{tenant}/blocked-urls"
    old = [NewEntry(f"d{each}.example", f"d{each}.example", "why") for each in range(3)]
    site.run(site.store.lists.add(tenant, URLS, old, CLI))
    answer = visitor.post(f"{path}/delete", {"key": ["d0.example", "d1.example"], "sure": "1"})
    assert site.went(answer).startswith(f"{path} deleted~2~")
    page = visitor.get(path).text
    assert "Entries deleted: 2." in page
    assert site.went(visitor.post(undo_of(page))) == f"{path} change-undone~2"
    assert [(each.shown, each.comment) for each in site.entries(tenant)] == [
        (f"d{each}.example", "why") for each in range(3)
    ]


def test_a_change_set_is_for_those_who_may_still_change_the_list(site: Any, tenant: str) -> None:
    visitor = site.visitor("analyst", tenant)
    assert visitor.post("/list-changes/none/undo").status_code == 404
    uid = next(each.uid for each in site.run(site.store.users.all()) if each.name == visitor.who)
    for action in ("delete", f"lists:{site.new_tenant()}:blocked-urls:1", f"lists:{tenant}:absent:1", "lists:global:x"):
        made = site.run(site.store.bulk_actions.create(uid, action, ["[]"]))
        assert visitor.post(f"/list-changes/{made.id}/undo").status_code == 404, action


def test_a_file_is_tried_unless_it_is_to_be_saved(site: Any, tenant: str) -> None:
    answer = send(site, tenant, "feed.txt", b"a.example\n# remark\n\nb.example\nno host!\n", {})
    assert answer.status_code == 200
    assert "has 2 valid entries and 1 invalid line" in answer.text
    assert "<code>no host!</code>" in answer.text
    assert site.entries(tenant) == ()


def test_one_faulty_line_stops_an_import_unless_such_lines_are_left_out(site: Any, tenant: str) -> None:
    content = b"\n".join(b"host-%d.example" % number for number in range(600)) + b"\nno host!\n"
    refused = send(site, tenant, "feed.txt", content)
    assert refused.status_code == 400
    assert "Nothing was saved: some lines are invalid." in refused.text
    assert '<td data-name="Line">601</td>' in refused.text
    assert site.entries(tenant) == ()
    assert "600 entries saved; 1 line skipped" in send(site, tenant, "feed.txt", content, {**SAVE, "skip": "1"}).text
    assert len(site.entries(tenant)) == 600


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"", "the file has no entries"),
        ("a.txt", b"ok.example\n\xff\xfe", "Line 2 is not UTF-8."),
        ("a.ndjson", b'{"entry":"ok.example"}\n{"entry":', "Line 2 is not an entry as JSON"),
        ("a.ndjson", b"[" * 60_000, "Line 1 is not an entry as JSON"),
        ("a.csv", b'ok.example\n"a', "is not CSV"),
        ("a.txt", b"ok.example\n" + b"x" * (MAX_LINE + 1), "Line 2 is longer than 65,536 bytes."),
    ],
)
def test_a_file_that_cannot_be_read_changes_nothing(
    site: Any, tenant: str, name: str, content: bytes, said: str
) -> None:
    answer = send(site, tenant, name, content, {**SAVE, "skip": "1"})
    assert answer.status_code == 400
    assert said in answer.text
    assert site.entries(tenant) == ()


def test_the_format_that_is_chosen_wins(site: Any, tenant: str) -> None:
    send(site, tenant, "feed.txt", b"a.example,remark", {**SAVE, "format": "csv"})
    assert [(entry.shown, entry.comment) for entry in site.entries(tenant)] == [("a.example", "remark")]


def test_an_import_stops_where_the_list_is_full_and_says_how_far_it_came(site: Any, tenant: str) -> None:
    site.run(site.store.lists.create(tenant, make_custom_list("small", "url", "block", "S", "", 600), CLI))
    content = b"\n".join(b"host-%d.example" % number for number in range(1200))
    answer = site.visitor(tenant=tenant).upload(f"/lists/{tenant}/small/import", "a.txt", content, SAVE)
    assert answer.status_code == 400
    assert "Lines up to 500 were saved, the rest was not." in answer.text
    assert len(site.entries(tenant, "small")) == 500


def test_a_script_watches_how_far_an_import_is(site: Any, tenant: str) -> None:
    content = b"\n".join(b"host-%d.example" % number for number in range(1200))
    answer = send(site, tenant, "a.txt", content, Accept="text/x-progress, text/html")
    assert answer.headers["content-type"].startswith("text/x-progress")
    percents, _, page = answer.text.partition("\n\n")
    assert percents == "41\n83\n100"
    assert page.startswith("<!doctype html>")
    assert "1,200 entries saved" in page


def test_a_watched_import_of_another_session_is_refused(site: Any, tenant: str) -> None:
    stale = {**SAVE, "csrf": "x" * 43}
    answer = send(site, tenant, "a.txt", b"a.example", stale, Accept="text/x-progress, text/html")
    assert answer.status_code == 403
    assert "text/html" in answer.headers["content-type"]


def test_a_file_over_the_limit_is_refused(site: Any, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit of a row is fixed; what a form may have beside its file comes on top of it.
    monkeypatch.setattr("gatepost.web.forms.MAX_FORM", (1 << 20) - list_changes.MAX_FILE)
    answer = send(site, tenant, "a.txt", b"a.example\n" * 200_000)
    assert answer.status_code == 413
    assert site.entries(tenant) == ()


def test_lines_are_the_same_whatever_the_pieces_they_come_in() -> None:
    whole = b"one\r\n\ntwo\nthree"
    for size in range(1, len(whole) + 1):
        pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
        assert list(lines_of(pieces)) == [b"one\r\n", b"\n", b"two\n", b"three"]


def test_a_line_without_an_end_is_not_gathered() -> None:
    taken = []

    def endless() -> Any:
        while True:
            taken.append(1)
            yield b"x" * MAX_LINE

    with pytest.raises(ListFileError):
        list(lines_of(endless()))
    assert len(taken) == 2


EXPORTED = (
    NewEntry("b.example", "b.example", 'a "remark", <b>', 4_070_908_800_000),
    NewEntry("a.example", "a.example"),
)


@pytest.mark.parametrize(
    ("kind", "media_type", "file", "content"),
    [
        ("plain", "text/plain; charset=utf-8", "blocked-urls.txt", "a.example\nb.example\n"),
        (
            "csv",
            "text/csv; charset=utf-8",
            "blocked-urls.csv",
            'entry,comment,expires\na.example,,\nb.example,"a ""remark"", <b>",2099-01-01T00:00:00.000Z\n',
        ),
    ],
)
def test_an_export_is_a_file_that_goes_back_in(
    site: Any, tenant: str, kind: str, media_type: str, file: str, content: str
) -> None:
    site.run(site.store.lists.add(tenant, URLS, EXPORTED, CLI))
    visitor = site.visitor("auditor", tenant)
    answer = visitor.get(f"/lists/{tenant}/blocked-urls/export", params={"format": kind})
    assert answer.text == content
    assert answer.headers["content-type"] == media_type
    assert answer.headers["content-disposition"] == f'attachment; filename="{file}"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    other = site.new_tenant()
    send(site, other, file, answer.content)
    again = visitor.get(f"/lists/{tenant}/blocked-urls/export", params={"format": kind})
    assert site.visitor(tenant=other).get(f"/lists/{other}/blocked-urls/export?format={kind}").text == again.text


def test_an_export_as_json_has_what_the_api_has(site: Any, tenant: str) -> None:
    site.run(site.store.lists.add(tenant, URLS, EXPORTED, CLI))
    answer = site.visitor(tenant=tenant).get(f"/lists/{tenant}/blocked-urls/export")
    assert [json.loads(line)["entry"] for line in answer.text.splitlines()] == ["a.example", "b.example"]
    assert json.loads(answer.text.splitlines()[1])["modifiedBy"] == "cli"


def test_an_export_of_thousands_is_whole_and_one_of_nothing_has_its_heading(site: Any, tenant: str) -> None:
    many = [NewEntry(f"h{number:05}.example", f"h{number:05}.example") for number in range(5_000)]
    site.run(site.store.lists.add(tenant, URLS, many, CLI))
    visitor = site.visitor(tenant=tenant)
    lines = visitor.get(f"/lists/{tenant}/blocked-urls/export?format=csv").text.splitlines()
    assert lines == ["entry,comment,expires", *(f"{entry.key},," for entry in many)]
    assert visitor.get(f"/lists/{tenant}/blocked-ips/export?format=csv").text == "entry,comment,expires\n"
    assert visitor.get(f"/lists/{tenant}/blocked-ips/export?format=exe").status_code == 400


def test_readers_are_counted_with_those_of_the_api(site: Any, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = site.visitor(tenant=tenant)
    monkeypatch.setitem(LIMITS, "stream", CallLimit(0, 1, 1))
    assert visitor.get(f"/lists/{tenant}/blocked-urls/export").status_code == 503
    monkeypatch.setitem(LIMITS, "stream", CallLimit(1, 0, 1))
    refused = visitor.get(f"/lists/{tenant}/blocked-urls/export")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
    assert site.visitor().get(f"/lists/{tenant}/blocked-urls/export").status_code == 200, "it has no tenant's limit"
    monkeypatch.setitem(LIMITS, "stream", CallLimit(1, 1, 1))
    for _ in range(3):
        assert visitor.get(f"/lists/{tenant}/blocked-urls/export").status_code == 200


OWN = {"name": "feed", "kind": "url", "category": "block", "display-name": "My <feed>", "description": "of mine"}


def test_a_list_of_ones_own_is_made_and_deleted(site: Any, tenant: str) -> None:
    visitor = site.visitor("analyst", tenant)
    answer = visitor.post(f"/lists/{tenant}", {**OWN, "max-size": "10"})
    assert (answer.status_code, site.went(answer)) == (303, f"/lists/{tenant}/feed list-created")
    made = site.run(site.store.lists.definition(tenant, "feed"))
    assert made == make_custom_list("feed", "url", "block", "My <feed>", "of mine", 10)
    assert "My &lt;feed&gt;" in visitor.get(f"/lists/{tenant}/feed").text
    visitor.post(f"/lists/{tenant}/feed/add", {"entries": "a.example"})
    asked = visitor.get(f"/lists/{tenant}/feed/remove")
    assert "Its 1 entry is deleted too" in asked.text
    answer = visitor.post(f"/lists/{tenant}/feed/remove")
    assert (answer.status_code, site.went(answer)) == (303, f"/lists?scope={tenant} list-deleted")
    assert visitor.get(f"/lists/{tenant}/feed").status_code == 404
    by = f"user:{visitor.who}"
    assert actions(site, tenant)[:3] == [(by, "list.delete", 1), (by, "entries.add", 1), (by, "list.create", 1)]


@pytest.mark.parametrize(
    ("changed", "status", "said"),
    [
        ({"name": "Feed"}, 400, "The name must be 1 to 63 lower-case letters"),
        ({"name": ""}, 400, "The name must be"),
        ({"name": "blocked-urls"}, 400, "no name of a usual list"),
        ({"kind": "x"}, 400, "The entry type must be one of"),
        ({"category": "x"}, 400, "The category must be one of"),
        ({"category": "protect"}, 400, "protect would do nothing"),
        ({"max-size": "0"}, 400, "Maximum entries must be 1 to"),
        ({"max-size": "1e9"}, 400, "Maximum entries must be a whole number"),
        ({"max-size": "9" * 20}, 400, "Maximum entries must be 1 to"),
        ({"display-name": "x" * 101}, 400, "The display name must have at most 100"),
        ({"description": "x" * 1_001}, 400, "The description must have at most 1,000"),
        ({"name": "taken"}, 409, "A list with this name exists"),
    ],
)
def test_what_no_list_may_be(site: Any, tenant: str, changed: dict[str, str], status: int, said: str) -> None:
    site.run(site.store.lists.create(tenant, make_custom_list("taken", "url", "block", "", "", 10), CLI))
    answer = site.visitor(tenant=tenant).post(f"/lists/{tenant}", {**OWN, **changed})
    assert answer.status_code == status
    assert said in answer.text
    assert [state.definition.name for state in site.run(site.store.lists.all(tenant)) if state.definition.custom] == [
        "taken"
    ]


@pytest.mark.parametrize(("category", "size"), [("allow", LARGE), ("policy", SMALL)])
def test_without_a_size_a_list_is_as_large_as_usual(site: Any, tenant: str, category: str, size: int) -> None:
    site.visitor(tenant=tenant).post(f"/lists/{tenant}", {**OWN, "category": category})
    assert site.run(site.store.lists.definition(tenant, "feed")).max_size == size


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_usual_list_stays(site: Any, tenant: str, method: str) -> None:
    visitor = site.visitor(tenant=tenant)
    answer = getattr(visitor, method)(f"/lists/{tenant}/blocked-urls/remove")
    assert answer.status_code == 400
    assert "cannot be deleted" in answer.text
