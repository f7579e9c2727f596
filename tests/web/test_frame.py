"""What all pages share: notices, failures within the frame, forms of a session that is over, time zones, polling."""

import html
import re
from datetime import UTC, datetime
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.web.conftest import PASSWORD, find_in

from gatepost.store.audit import CLI
from gatepost.store.engine import Write
from gatepost.store.sql import compose
from gatepost.web.charts import CARD, Column, draw_stacked_bars
from gatepost.web.forms import Form, Period, parse_period, parse_time
from gatepost.web.rendering import NAVIGATION
from gatepost.web.time_zones import format_moment, times_in, zone_names

NOW = 1_793_880_000_000  # 2026-11-05T12:00:00Z


def query(**fields: str) -> Form:
    return Form({name.replace("_", "-"): (value,) for name, value in fields.items()})


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "fields", "since", "until"),
    [
        ("", {"since": "2026-11-05"}, "2026-11-05T00:00", None),
        ("", {"until": "2026-11-05"}, None, "2026-11-06T00:00"),
        (
            "",
            {"since": "2026-11-05", "since_time": "09:00", "until": "2026-11-05", "until_time": "10:00"},
            "2026-11-05T09:00",
            "2026-11-05T10:00",
        ),
        ("", {"since_time": "09:00"}, "2026-11-05T09:00", None),
        ("", {"last": "1h"}, "2026-11-05T11:00", None),
        ("Europe/Berlin", {"since": "2026-11-05", "since_time": "09:00"}, "2026-11-05T08:00", None),
        ("Europe/Berlin", {"since": "2026-07-05", "until": "2026-07-05"}, "2026-07-04T22:00", "2026-07-05T22:00"),
        ("Europe/Berlin", {"until": "2026-10-25"}, None, "2026-10-25T23:00"),
        ("No/Where", {"since": "2026-11-05"}, "2026-11-05T00:00", None),
    ],
)
def test_periods_in_the_zone_of_the_user(zone: str, fields: dict[str, str], since: str, until: str) -> None:
    with times_in(zone):
        wanted = Period(moment(since) if since else None, moment(until) if until else None)
        assert parse_period(query(**fields), NOW) == wanted


@pytest.mark.parametrize(
    "fields",
    [
        {"since": "2026-11-20", "until": "2026-11-01"},
        {"since": "2026-11-20", "since_time": "10:00", "until": "2026-11-20", "until_time": "09:00"},
        {"last": "nonsense"},
        {"since": "2026-99-99"},
        {"since": "2026-11-20", "since_time": "25:00"},
        {"since": "9999-12-31", "until": "9999-12-31"},
    ],
)
def test_periods_that_are_none(fields: dict[str, str]) -> None:
    assert not isinstance(parse_period(query(**fields), NOW), Period)


def test_times_are_written_in_the_zone() -> None:
    assert format_moment(NOW) == "2026-11-05 12:00:00"
    with times_in("Asia/Tokyo"):
        assert format_moment(NOW) == "2026-11-05 21:00:00"
        assert parse_time("2026-11-05T21:00") == NOW
    assert zone_names()[0] == "UTC"


def test_a_user_sets_the_zone(site: Any, tenant: str) -> None:
    visitor = site.enter(site.new_user("analyst", tenant))
    assert visitor.post("/account/zone", {"zone": "../etc/passwd"}).status_code == 400
    assert site.went(visitor.post("/account/zone", {"zone": "Asia/Tokyo"})) == "/account zone"
    page = visitor.get("/messages").text
    assert "From (Asia/Tokyo)" in page
    assert "From (UTC)" in site.visitor(tenant=tenant).get("/messages").text


def test_a_notice_is_shown_once_and_cannot_be_made_up(site: Any) -> None:
    visitor = site.enter(site.new_user())
    answer = visitor.post("/account/sessions/end")
    assert "Path=/; SameSite=lax; Secure" in answer.headers["set-cookie"]
    first = visitor.get("/account")
    assert "All other sessions ended." in first.text
    assert "-notice=" in first.headers["set-cookie"]
    assert "Max-Age=0" in first.headers["set-cookie"]
    assert "All other sessions ended." not in visitor.get("/account").text
    for made_up in ("x", "mail-deleted", "mail-deleted~<b>", "released~a~b~c~d~e", "mail-deleted~" + "1" * 50):
        page = visitor.bare(
            "GET", "/account", headers={"Cookie": f"{visitor.cookie}; __Host-gatepost-notice={made_up}"}
        )
        assert page.status_code == 200
        assert 'class="notice"' not in page.text


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/messages?since=2026-11-20&until=2026-11-01", 400, "The period ends before it begins"),
        ("/messages?verdict=nonsense", 400, "verdict: is one of"),
        ("/messages?before=garbage", 400, "begin with the first page"),
        ("/quarantine?before=garbage", 400, "begin with the first page"),
        ("/quarantine?state=gone", 400, "state: is one of held, released, deleted"),
        ("/messages/export?format=exe", 400, "Format: choose csv or json"),
        ("/lists/global/nothing", 404, "This list does not exist"),
        ("/messages/00000000-0000-7000-8000-000000000000", 404, "The link may be old"),
    ],
)
def test_a_failure_says_what_is_wrong_within_the_frame(site: Any, path: str, status: int, said: str) -> None:
    answer = site.visitor().get(path)
    assert answer.status_code == status
    assert said in html.unescape(answer.text)
    assert 'aria-label="Main"' in answer.text


def test_what_a_role_may_not_is_said_within_the_frame(site: Any) -> None:
    answer = site.visitor("auditor").get("/scan")
    assert answer.status_code == 403
    assert "Auditors cannot use this page." in answer.text
    assert 'aria-label="Main"' in answer.text
    stale = site.visitor("analyst").bare("POST", "/account/sessions/end", data={"csrf": "old"})
    assert stale.status_code == 403
    assert "Your session has changed." in stale.text
    assert "administrator" not in re.sub(r"<header.*</header>", "", stale.text, flags=re.DOTALL)


def unsent_fields(page: str) -> dict[str, str]:
    found = re.findall(r'name="(unsent-[a-z]+)" value="([^"]*)"', page)
    return {name: html.unescape(value) for name, value in found}


def test_a_form_of_a_session_that_is_over_can_be_sent_again(site: Any, tenant: str) -> None:
    name = site.new_user("analyst", tenant)
    visitor = site.enter(name)
    site.run(site.store.sessions.end_all(site.known(name).user.uid, CLI))
    path = f"/lists/{tenant}/blocked-urls/preview"
    lost = visitor.post(path, {"entries": "a.example\n<b>.example\n", "comment": "kept"})
    assert lost.status_code == 401
    assert "Your session has ended; nothing was saved." in lost.text
    kept = unsent_fields(lost.text)
    assert kept["unsent-path"] == path
    with httpx.Client(base_url=site.url, trust_env=False, verify=site.no_tls) as client:
        answer = client.post("/sign-in", data={"name": name, "password": "wrong words here", **kept})
        assert unsent_fields(answer.text) == kept, "a wrong password loses nothing"
        answer = client.post("/sign-in", data={"name": name, "password": PASSWORD, **kept})
    assert answer.status_code == 200
    assert "Send the form again?" in answer.text
    assert 'name="entries" value="a.example\n&lt;b&gt;.example\n"' in answer.text
    assert f'action="{path}"' in answer.text


def test_passwords_are_not_kept_in_a_page(site: Any) -> None:
    fields = {"password": "old words are here", "new": "new words are here", "again": "new words are here"}
    answer = httpx.post(f"{site.url}/account/password", data=fields, headers={"Accept": "text/html"}, trust_env=False)
    assert answer.status_code == 401
    assert "words are here" not in answer.text
    assert unsent_fields(answer.text) == {}


def test_another_site_gets_no_form_back(site: Any) -> None:
    headers = {"Accept": "text/html", "Origin": "https://evil.example"}
    answer = httpx.post(f"{site.url}/scan", data={"x": "planted"}, headers=headers, trust_env=False)
    assert answer.status_code == 403
    assert "planted" not in answer.text


@pytest.mark.parametrize("path", ["https://evil.example/", "//evil.example/", "/\\evil.example"])
def test_only_forms_of_this_site_are_sent_again(site: Any, path: str) -> None:
    fields = {"name": site.new_user(), "password": PASSWORD, "unsent-path": path, "unsent-fields": "a=b"}
    answer = httpx.post(f"{site.url}/sign-in", data=fields, trust_env=False)
    assert answer.status_code == 303


async def _age(store: Any, session: str, seen: int) -> None:
    def work() -> Any:
        yield Write(compose("UPDATE sessions SET seen = $2 WHERE id = $1"), (session, seen))

    await store._engine.change(work)


def test_polling_is_no_use_of_a_session(site: Any) -> None:
    visitor = site.enter(site.new_user())
    uid = site.known(visitor.who).user.uid
    before = site.run(site.store.sessions.of_user(uid, 0))[0]
    site.run(_age(site.store, before.id, before.seen - 3_600_000))
    visitor.get("/overview/live")
    assert site.run(site.store.sessions.of_user(uid, 0))[0].seen == before.seen - 3_600_000
    visitor.get("/")
    assert site.run(site.store.sessions.of_user(uid, 0))[0].seen >= before.seen


def test_the_legend_leads_to_the_messages_of_its_span(site: Any, tenant: str) -> None:
    site.message(tenant)
    page = html.unescape(site.visitor(tenant=tenant).get("/?span=hours").text)
    path = find_in(r'href="(/messages\?q=verdict%3Aspam\+after[^"]+)">spam</a>', page)
    assert "Act now" in site.visitor(tenant=tenant).get(path).text
    assert "scans start without delay" in page


def test_the_overview_says_what_is_most_frequent_and_leads_there(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant)
    visitor = site.visitor(tenant=tenant)
    page = html.unescape(visitor.get("/?span=hours").text)
    found = re.findall(r'<li><span class="cut"[^>]*><a dir="auto" href="([^"]+)">([^<]+)</a>', page)
    assert {text for _, text in found} == {
        "bob@example.com",
        "evil.example",
        "Puts the reader under time pressure",
        "example.org",
        "ann@example.org",
    }
    bars = re.findall(r'<g data-href="([^"]+)">', page)
    assert len(bars) == 1
    for path in (bars[0], *(path for path, _ in found)):
        assert ggrid in visitor.get(path).text, path
    assert "a week before" not in page, "there was no mail then"


def test_no_label_of_a_chart_reaches_beyond_it() -> None:
    for label, count in (("Sun 03:00", 56), ("15 Nov", 60), ("12:00", 36)):
        drawn = draw_stacked_bars([Column(label, {"spam": 1})] * count, ("spam",), "x")
        ends = [float(x) + len(label) * 4 for x in re.findall(rf'<text x="([\d.]+)"[^>]*>{label}<', drawn)]
        assert len(ends) > 2
        assert max(ends) <= CARD.width
        assert all(later - sooner >= len(label) * 8 for sooner, later in pairwise(ends)), "no two overlap"


def test_a_key_form_keeps_what_was_typed_and_is_not_sent_twice(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    fields = {"name": "SOAR", "scope": tenant, "read-only": "1", "expires": "2020-01-01"}
    wrong = visitor.post("/keys", fields).text
    assert 'value="SOAR"' in wrong
    assert 'name="read-only" value="1" checked' in wrong
    again = {**fields, "expires": "2099-01-01", "form": find_in(r'name="form" value="([^"]+)"', wrong)}
    created = visitor.post("/keys", again)
    assert created.status_code == 200
    assert "2099-01-01 23:59:59" in re.sub(r"<[^>]*>", "", created.text)
    assert visitor.post("/keys", again).status_code == 409
    assert [key.name for key in site.run(site.store.api_keys.all(tenant))] == ["SOAR"]


def test_a_repeated_line_keeps_the_comment_of_the_first(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    visitor.post(f"/lists/{tenant}/blocked-urls/add", {"entries": "a.example # ticket 7\nb.example\na.example\n"})
    entries = site.run(site.store.lists.find(tenant, "blocked-urls", ("a.example", "b.example")))
    assert {entry.key: entry.comment for entry in entries} == {"a.example": "ticket 7", "b.example": ""}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plain.txt", "# head\na.example # ticket 7\n"),
        ("tab.txt", "a.example\tticket 7\n"),
        ("semicolons.csv", "entry;comment;expires\na.example;ticket 7;2099-01-31\n"),
        ("commas.csv", "a.example,ticket 7,2099-01-31\n"),
    ],
)
def test_files_as_spreadsheets_write_them(site: Any, tenant: str, name: str, content: str) -> None:
    answer = site.visitor(tenant=tenant).upload(
        f"/lists/{tenant}/blocked-urls/import", name, content.encode(), {"what": "save"}
    )
    assert "1 entry saved" in answer.text
    (entry,) = site.run(site.store.lists.find(tenant, "blocked-urls", ("a.example",)))
    assert entry.comment == "ticket 7"
    assert entry.expires == (moment("2099-02-01T00:00") if name.endswith("csv") else None)


def test_a_page_says_who_may_use_it_and_whose_tenant_it_is(site: Any) -> None:
    tenant = site.new_tenant("Harbour Clinic of the frame")
    said = site.visitor("administrator", tenant).get("/system").text
    assert "Administrators of one tenant cannot use this page. It is for administrators of the whole deployment" in said
    assert 'href="/system"' not in said, "the menu has no links that lead nowhere"
    assert 'href="/system"' in site.visitor().get("/messages").text
    assert "Harbour Clinic of the frame" in said, "the corner names the tenant, also where the page is refused"
    assert (
        "Auditors cannot use this page. Administrators and analysts can: ask one of them."
        in site.visitor("auditor", tenant).get("/scan").text
    )
    assert "Harbour Clinic of the frame</span>" in site.visitor("analyst", tenant).get("/messages").text


def test_the_menu_counts_held_mail_of_those_who_may_see_it(site: Any) -> None:
    tenant, other = site.new_tenant(), site.new_tenant()
    for _ in range(2):
        site.message(tenant, held=True)
    tally = re.compile(r'<span class="tally"[^>]*><span class="hidden">, </span>([0-9,+]+)<')
    assert tally.findall(site.visitor("analyst", tenant).get("/lists").text) == ["2"]
    assert tally.findall(site.visitor("analyst", other).get("/lists").text) == []


# What strangers write, as templates name it.
FOREIGN = re.compile(
    r"\{\{ ?(?:(?:report|row|record\.report|flip|each|line)\.subject|passage\.(?:visible|hidden)|sender\.name"
    r"|head\.name|step\.text|link\.shown|line\.value|headline)\b[^}]*\}\}"
)
TAG = re.compile(r'<[a-z][a-z0-9]*(?:[^<>"]|"[^"]*")*>')


def test_what_strangers_write_has_the_direction_of_its_script() -> None:
    """A subject in Arabic that is cut on its right has lost its beginning."""
    seen, faults = 0, []
    for path in sorted(Path("src/gatepost/web/templates").glob("*.html")):
        text = re.sub(r"{% block title %}.*?{% endblock %}", "", path.read_text())
        tags = list(TAG.finditer(text))
        for found in FOREIGN.finditer(text):
            if any(tag.start() < found.start() < tag.end() for tag in tags):
                continue  # the value of an attribute
            before = [tag for tag in tags if tag.end() <= found.start()]
            seen += 1
            if not before or 'dir="auto"' not in before[-1][0]:
                faults.append(f"{path.name}: {found[0]}")
    assert seen > 15
    assert faults == []


def test_every_link_of_the_menu_has_an_icon_of_its_own() -> None:
    static = files("gatepost.web").joinpath("static")
    drawn = re.findall(r'<symbol id="([a-z-]+)"', static.joinpath("icons.svg").read_text())
    assert len(drawn) == len(set(drawn))
    assert {link.path[1:] or "overview" for link in NAVIGATION} <= set(drawn)


def test_one_scale_of_type() -> None:
    """A page has few sizes of type, each with a name; what is relative to its surroundings has none."""
    css = files("gatepost.web").joinpath("static/gatepost.css").read_text()
    sizes = set(re.findall(r"font-size: ([^;}]+)", css))
    assert {size for size in sizes if size.endswith("rem")} == set()
    assert len([size for size in sizes if size.startswith("var(")]) <= 6
