"""Foreign text on every page: markup is text, control characters and direction overrides are written out, wherever it
came from."""

import re
from typing import Any

import httpx
import msgspec
import pytest
from tests.web.hostile_deployment import fill_with_hostile_text, hostile_report

from gatepost.analysis.report import FileSeen
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.store.audit import CLI
from gatepost.store.lists import NewEntry
from gatepost.web.registry import PAGES
from gatepost.web.routing import PageRoute

WORD = "annexe"
HOSTILE = f"\">'<script>{{{{ 7*7 }}}}\u202e{WORD}\u2066\u0007\u200b\x1b[31m\x85\u200f"
ACTS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
# What a form sends back is not text of the page, and has to stay as it is.
_FIELDS = re.compile(r'\bvalue="[^"]*"|(<textarea[^>]*>).*?(</textarea>)', re.DOTALL)
# Our own isolates around text that is written from right to left.
_ISOLATED = re.compile("\u2068([^\u2068\u2069]*)\u2069")
RIGHT_TO_LEFT = "\u05d7\u05e9\u05d1\u05d5\u05df"
REPORT = hostile_report(HOSTILE)


def shown(page: str) -> str:
    """A page without the values of its fields."""
    return _ISOLATED.sub(r"\1", _FIELDS.sub(r"\1\2", page))


def check(answer: httpx.Response) -> None:
    assert answer.status_code in (200, 400, 401, 404, 409)
    assert "<script>{" not in answer.text
    found = ACTS.search(shown(answer.text))
    assert found is None, answer.text[max(0, found.start() - 200) : found.end() + 50]


@pytest.fixture(scope="module")
def places(site: Any) -> dict[str, str]:
    """Something hostile of each sort, and what stands for the parts of paths."""
    user = site.known(site.visitor().who).user
    site.message(report=REPORT, held=True, text=f"text {WORD}")
    found: dict[str, str] = site.run(fill_with_hostile_text(site.store, HOSTILE, user.uid))
    site.core.raw[found["ggrid"]] = f"text {WORD}".encode()
    return found


GETS = sorted({row.path for row in PAGES if isinstance(row, PageRoute) and row.method == "GET"})


@pytest.mark.parametrize("path", GETS)
def test_every_page(site: Any, places: dict[str, str], path: str) -> None:
    real = re.sub(r"\{(\w+)\}", lambda part: places[part[1]], path)
    query = {
        "key": "hostile.example",
        "q": HOSTILE[1:],
        "add": HOSTILE,
        "part": "urgency",
        "tenant": "",
        "done": HOSTILE,
    }
    query["list"] = "blocked-senders"
    if path.endswith("/compare"):
        query["with"] = places["ggrid"]
    if path.endswith(("/entry", "/hits")):
        query["entry"] = "hostile.example"
    if path.endswith(("/export", "/picture/{index}", "/html", "/setup")):
        return  # files, not pages, and a page for those who have something to do first
    visitor = site.visitor()
    if not path.endswith(("/entry", "/hits")):
        check(visitor.get(real))
    answer = visitor.get(real, params=query)
    assert answer.status_code == 200
    check(answer)


@pytest.mark.parametrize(
    "path", ["/messages", "/messages/{ggrid}", "/quarantine", "/lists", "/lists/{scope}/{name}", "/keys", "/users"]
)
def test_the_text_is_shown_written_out(site: Any, places: dict[str, str], path: str) -> None:
    page = site.visitor().get(re.sub(r"\{(\w+)\}", lambda part: places[part[1]], path)).text
    assert rf"&lt;script&gt;{{{{ 7*7 }}}}\u202e{WORD}\u2066\x07" in page


@pytest.mark.parametrize("path", ["/messages", "/messages/{ggrid}", "/quarantine"])
def test_letters_from_right_to_left_are_isolated(site: Any, path: str) -> None:
    """Without an isolate the digits and the hash that follow would change their places."""
    report = msgspec.structs.replace(
        REPORT,
        subject=f"{RIGHT_TO_LEFT} 42",
        sender_names=(RIGHT_TO_LEFT,),
        files=(FileSeen(f"1.2/{RIGHT_TO_LEFT}.exe", "exe", 1, "ab" * 32, (f"{RIGHT_TO_LEFT}.exe",)),),
    )
    ggrid = site.message(report=report, held=True)
    page = site.visitor().get(path.format(ggrid=ggrid)).text
    assert f"\u2068{RIGHT_TO_LEFT} 42\u2069" in page
    assert all(RIGHT_TO_LEFT not in piece for piece in _ISOLATED.sub("", _FIELDS.sub("", page)).split("\n"))
    if path == "/messages/{ggrid}":
        assert f"\u20681.2/{RIGHT_TO_LEFT}.exe\u2069" in page


def test_what_is_typed_and_shown_again(site: Any, places: dict[str, str]) -> None:
    visitor, name = site.visitor(), places["name"]
    check(visitor.post("/policy", {"text": f'["{HOSTILE}"]\nx = 1\n'.replace("\x07", "").replace("\x1b", "")}))
    check(visitor.post("/policy", {"text": HOSTILE}))
    check(visitor.post(f"/lists/global/{name}/preview", {"entries": f"a.example\t{HOSTILE}\n{HOSTILE} x/{HOSTILE}\n"}))
    check(visitor.post(f"/lists/global/{name}/delete", {"key": ["hostile.example", HOSTILE]}))
    check(visitor.post("/lists/global", {"name": HOSTILE, "display-name": HOSTILE, "kind": "url"}))
    check(visitor.post("/tenants", {"name": ""}))
    check(visitor.post("/tokens", {"name": HOSTILE}))
    visitor.post("/configuration", {"revision": "0", "guard.yml history.retention": HOSTILE, "policy ": HOSTILE})
    check(visitor.get("/configuration"))
    check(visitor.post("/configuration/try"))
    check(visitor.post(f"/tenants/{places['uid']}/domains", {"domains": f"{HOSTILE}\nb.example"}))
    check(visitor.post("/keys", {"name": HOSTILE, "scope": "global"}))
    check(visitor.post("/users", {"name": f"{HOSTILE} {new_id()}", "role": "analyst", "scope": "global"}))
    check(visitor.upload(f"/lists/global/{name}/import", f"{WORD}.txt", f"{HOSTILE} x\n".encode()))
    fields = {"name": HOSTILE, "password": "x", "next": HOSTILE}
    check(httpx.post(f"{site.url}/sign-in", data=fields, headers={"Accept": "text/html"}, trust_env=False))


def test_a_browser_that_names_itself_so(site: Any) -> None:
    name = site.new_user()
    fields = {"name": name, "password": site.password}
    agent = HOSTILE.replace("\x07", "").replace("\x1b", "").encode()
    httpx.post(f"{site.url}/sign-in", data=fields, headers={b"User-Agent": agent}, trust_env=False)
    check(site.enter(name).get("/account"))


def test_what_a_form_sends_back_stays_as_it_is(site: Any) -> None:
    """A comment with a joiner, as in an emoji, is the same after it was edited and saved."""
    comment = 'family \U0001f468\u200d\U0001f469 <&"'
    entry = NewEntry("joined.example", "joined.example", comment)
    site.run(site.store.lists.add(None, BY_NAME["blocked-urls"], [entry], CLI))
    page = site.visitor().get("/lists/global/blocked-urls/entry", params={"key": "joined.example"}).text
    assert 'value="family \U0001f468\u200d\U0001f469 &lt;&amp;&#34;"' in page
