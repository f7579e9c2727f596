"""Every page and action with something real of another tenant in its path, its address or its form: it is not there,
and nothing changes."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.source_trees import ROOT
from tests.store_reading import list_reports, list_work
from tests.web.conftest import REPORT
from tests.web.routes import CLOSED, ask, name_of, path_of

from gatepost.ids import canonical
from gatepost.learning.sealed_training import Proof, Side
from gatepost.lists.catalogue import BY_NAME
from gatepost.policy.rules import OwnRule
from gatepost.settings.events import WebAlert
from gatepost.store.alerts import key_of
from gatepost.store.audit import CLI, AuditFilter
from gatepost.store.held_search import HeldFilter
from gatepost.store.lists import NewEntry
from gatepost.store.recipients import RequestFilter
from gatepost.store.second_factors import NewSecurityKey
from gatepost.web.pages.list_changes import BLOCKED
from gatepost.web.pages.quarantine import ACTIONS
from gatepost.web.registry import PAGES
from gatepost.web.routing import UploadRoute

FIGURES = msgspec.json.encode(Proof(40, 20, 20, Side(4, 4, 4, 0), Side(4, 0, 4, 0), 174, taken=True))


@pytest.fixture(scope="module")
def theirs(site: Any) -> dict[str, str]:
    """All that the other tenant has, by the parts of paths; an id is named by the path that it stands in."""
    scope = site.new_tenant()
    _, key = site.run(site.store.api_keys.create("theirs", scope, False, None, CLI))
    entry = NewEntry("evil.example", "evil.example", "theirs")
    site.run(site.store.lists.add(scope, BY_NAME["blocked-urls"], [entry], CLI))
    visitor = site.visitor("administrator", scope)
    user = next(each for each in site.run(site.store.users.all(scope)) if each.name == visitor.who)
    session = site.run(site.store.sessions.of_user(user.uid, 0))[0]
    version = site.run(site.store.learning.keep_model(scope, FIGURES, b"", CLI))
    record = site.trail(scope=scope)[0].id
    ggrid = site.message(scope, msgspec.structs.replace(REPORT, subject=SECRET), held=True)
    work = site.run(site.store.bulk_actions.create(user.uid, "delete", [ggrid])).id
    site.run(site.store.users.save_search(user.uid, "/messages", SECRET, "q=x", shared=True, tenant=scope))
    site.run(site.store.message_notes.add([(ggrid, scope)], SECRET, CLI))
    watched = WebAlert(search=SECRET, count=5, minutes=5, url="https://a.example/x", tenant=scope)
    assert not isinstance(site.run(site.store.alerts.put(key_of("theirs", scope), watched, 0, CLI)), str)
    rule = OwnRule('spf == "fail"', SECRET, "spam")
    assert not isinstance(site.run(site.store.own_rules.put(scope, "theirs", rule, 0, CLI)), str)
    search = site.run(site.store.users.saved_searches(user.uid))[0].id
    site.run(site.store.recipients.ask_for_release(ggrid, scope, f"{scope}@example.com", "please"))
    asked = site.run(site.store.recipients.requests(RequestFilter(tenant=scope))).rows[0].id
    made = NewSecurityKey(scope, "mail.example.com", b"", 0, "theirs")
    security_key = site.run(site.store.second_factors.add_security_key(user.uid, made, CLI, keep=session.id)).id
    found = {"/keys/": key.id, "/searches/": search, "/quarantine/work/": work, "/list-changes/": work}
    found |= {"/account/keys/": security_key, "/account/sessions/": session.id, "request": asked}
    return found | {"scope": scope, "ggrid": ggrid, "uid": user.uid, "version": str(version), "number": str(record)}


@pytest.fixture(scope="module")
def stranger(site: Any) -> Any:
    """An administrator of a third tenant."""
    return site.visitor("administrator", site.new_tenant())


# Of what is the other tenant's alone, where a text can be written.
SECRET = "zq7 of theirs alone"


def everything(site: Any, theirs: dict[str, str]) -> Any:
    """What could have changed."""
    run, store = site.run, site.store
    return (
        run(store.audit.page(AuditFilter(scope=theirs["scope"]))).rows,
        run(store.quarantine.find(theirs["ggrid"])),
        run(store.quarantine.search(HeldFilter(tenant=theirs["scope"]))).rows,
        run(store.api_keys.all(theirs["scope"])),
        [msgspec.structs.replace(each, last_sign_in=None) for each in run(store.users.all(theirs["scope"]))],
        run(store.lists.find(theirs["scope"], "blocked-urls", ["evil.example", "new.example"])),
        [state.size for state in run(store.lists.all(theirs["scope"]))],
        run(store.tenants.find(theirs["scope"])),
        [each.id for each in run(store.sessions.of_user(theirs["uid"], 0))],
        run(store.messages.find(theirs["ggrid"])),
        run(store.learning.current_models()).get(theirs["scope"]),
        run(list_reports(store))[-1:],
        run(store.bulk_actions.find(theirs["/quarantine/work/"], theirs["uid"])),
        run(store.users.saved_searches(theirs["uid"])),
        run(store.recipients.find_request(theirs["request"])),
        run(store.second_factors.security_keys(theirs["uid"])),
        run(store.message_notes.of(theirs["ggrid"])),
        [each for each in run(store.alerts.all()) if each.alert.tenant == theirs["scope"]],
        run(store.own_rules.find(theirs["scope"])),
        made_of(site, theirs),
    )


WITH_PARTS = [row for row in CLOSED if "{" in row.path and "{kind}" not in row.path]
FIELDS = {
    "entries": "new.example",
    "key": "evil.example",
    "sure": "1",
    "comment": "ours now",
    "says": "deliver",
    "name": "blocked-urls",
    "domains": "new.example",
    "role": "auditor",
    "disabled": "yes",
    "kind": "url",
    "category": "block",
    "what": "save",
    "list": "blocked-urls",
    "entry": "evil.example",
}


def place_of(row: Any, theirs: dict[str, str]) -> str:
    """The path of what they have; a route with an id of which they have none fails."""
    parts = {**theirs, "index": "0", "item": "0", "published": "1", "domain": "theirs.example"}
    if "{id}" in row.path:
        parts["id"] = theirs[row.path.partition("{")[0]]
    if row.path.startswith("/tenants"):
        parts["uid"] = theirs["scope"]
    return path_of(row, **parts)


@pytest.mark.parametrize("row", WITH_PARTS, ids=name_of)
def test_what_is_another_tenants_is_not_there(site: Any, theirs: dict[str, str], stranger: Any, row: Any) -> None:
    before = everything(site, theirs)
    answer = ask(stranger, row, place_of(row, theirs), FIELDS)
    if row.path.startswith(("/tenants", "/configuration")):
        assert answer.status_code == 403
    elif "sessions" in row.path:
        # Ending a session that is not one's own says nothing and does nothing.
        assert answer.status_code == 303
    else:
        assert answer.status_code == 404
    assert everything(site, theirs) == before


NOBODY = "0198c5a2-7c11-7d3e-9f00-00000000aa01"


@pytest.mark.parametrize("row", [row for row in WITH_PARTS if "{scope}" in row.path], ids=name_of)
def test_nor_is_what_is_of_the_deployment_or_of_nobody(site: Any, stranger: Any, row: Any) -> None:
    for visitor, scope in (*((stranger, each) for each in ("global", NOBODY, "x", "%00")), (site.visitor(), NOBODY)):
        assert ask(visitor, row, path_of(row, scope=scope), FIELDS).status_code == 404, scope
    assert site.run(site.store.lists.find(None, "blocked-urls", ["new.example"])) == ()


@pytest.mark.parametrize(
    "path",
    [
        *("/?tenant={0}", "/overview/live?tenant={0}", "/messages?tenant={0}", "/quarantine?tenant={0}"),
        *("/audit?scope={0}", "/policy?scope={0}", "/lists?scope={0}", "/policy/file:eicar?scope={0}"),
        *("/messages?tenant=global", "/lists?scope=global", "/policy?scope=global", "/audit?scope=global"),
    ],
)
def test_nor_by_an_address(theirs: dict[str, str], stranger: Any, path: str) -> None:
    answer = stranger.get(path.format(theirs["scope"]))
    assert answer.status_code == 404
    assert theirs["ggrid"] not in answer.text


# Where a form makes work of the ids in it, with the words that it takes.
WORK = (
    ("/messages", "ggrid", (*ACTIONS, *BLOCKED, "note", "compare")),
    ("/quarantine", "ggrid", (*ACTIONS, *BLOCKED, "note", "compare")),
    ("/requests", "id", ("grant", "deny")),
)


def made_of(site: Any, theirs: dict[str, str]) -> list[str]:
    """The work of others that names something of theirs."""
    found = site.run(list_work(site.store))
    ids = [each for each in theirs.values() if canonical(each)]
    return [items for user, items in found if user != theirs["uid"] and any(each in items for each in ids)]


def test_every_place_that_makes_work_is_tried() -> None:
    """Work is made in these functions, and each has its ids from a message that was looked up, from work of the user's
    own, from a search of the user's own scope, or from `_find_selected`, which looks them up."""
    places = {
        "list_access.py": {"keep"},
        "quarantine.py": {"_act", "_write_note", "delete_message", "decide_requests", "report_message", "undo_work"},
    }
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "web").rglob("*.py")) + sorted((ROOT / "abby").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "bulk_actions.create(" in ast.unparse(node):
                found.setdefault(path.name, set()).add(node.name)
    assert found == places


def test_nor_by_a_form(site: Any, theirs: dict[str, str], stranger: Any) -> None:
    before = everything(site, theirs)
    for scope in (theirs["scope"], "global"):
        assert stranger.post("/keys", {"name": "x", "scope": scope}).status_code == 404
        assert stranger.post("/users", {"name": "x", "role": "analyst", "scope": scope}).status_code == 404
        assert stranger.post("/policy", {"text": "", "scope": scope}).status_code == 404
    for path, field, words in WORK:
        for word in words:
            strange = theirs["request"] if path == "/requests" else theirs["ggrid"]
            fields = {"action": word, field: strange, "note": "ours", "list": "blocked-urls"}
            # What nobody has is answered in the same way.
            answers = [stranger.post(path, {**fields, field: each}) for each in (strange, NOBODY)]
            assert answers[0].status_code in (303, 400, 404), (path, word)
            seen = [(each.status_code, each.headers.get("location", "").replace(strange, NOBODY)) for each in answers]
            assert seen[0] == seen[1], (path, word)
    assert made_of(site, theirs) == [], "work was made of their ids"
    assert theirs["ggrid"] not in {ggrid for ggrid, _, _ in site.core.given}
    assert theirs["ggrid"] not in site.core.sent
    assert everything(site, theirs) == before


def list_fields() -> dict[str, list[str]]:
    """The names of what the pages of each module read of an address or a form."""
    found: dict[str, list[str]] = {}
    for row in PAGES:
        handler = inspect.unwrap(getattr(row.handler, "func", row.handler))
        if handler.__module__ not in found:
            source = Path(str(inspect.getsourcefile(handler))).read_text()
            found[handler.__module__] = sorted({*_FIELD.findall(source), "tenant", "scope", "q", "ggrid", "name"})
    return found


_FIELD = re.compile(r"""(?:query|form)\.(?:text|raw_text|has|all)\("([a-z_A-Z]+)\"""")
# These say who the visitor is, or end the visit.
_OWN = ("/sign-out", "/account")


@pytest.mark.parametrize("method", ["GET", pytest.param("POST", marks=pytest.mark.variant)])
def test_nor_by_any_field_of_any_page(site: Any, theirs: dict[str, str], stranger: Any, method: str) -> None:
    """Every page and action of the stranger's own, with each field that its module reads as each thing of the other
    tenant: nothing of theirs is shown, and nothing changes."""
    assert SECRET in site.visitor().get("/messages").text, "who may see it is not shown it"
    before, fields, tried = everything(site, theirs), list_fields(), 0
    values = (theirs["scope"], theirs["ggrid"], theirs["uid"], "theirs", f"tenant:{theirs['scope']}")
    for row in CLOSED:
        if isinstance(row, UploadRoute) or row.method != method or "{" in row.path or row.path.startswith(_OWN):
            continue
        handler = inspect.unwrap(getattr(row.handler, "func", row.handler))
        for field in fields[handler.__module__]:
            for value in values:
                sent = {"action": "delete", "text": ""} if method == "POST" else {}
                answer = ask(stranger, row, row.path, {**sent, field: value})
                assert SECRET not in answer.text, f"{row.method} {row.path} {field}={value}"
                assert answer.status_code < 500, f"{row.method} {row.path} {field}={value}"
                tried += 1
    assert tried > 200
    assert everything(site, theirs) == before


def test_nor_in_a_search(theirs: dict[str, str], stranger: Any) -> None:
    assert stranger.get(stranger.get(f"/messages?ggrid={theirs['ggrid']}").headers["location"]).status_code == 404
    for path in ("/messages?sender=ann@example.org", "/quarantine", "/audit", "/keys", "/users", "/"):
        page = stranger.get(path).text
        assert theirs["ggrid"] not in page
        assert theirs["uid"] not in page
        assert theirs["/keys/"] not in page


def test_a_scan_is_always_for_ones_own_tenant(site: Any, theirs: dict[str, str], stranger: Any) -> None:
    answer = stranger.upload("/scan", "m.eml", b"Subject: x\r\n\r\ny\r\n", {"scope": theirs["scope"]})
    record = site.run(site.store.messages.find(answer.headers["location"].rpartition("/")[2]))
    assert record.envelope.tenant not in (None, theirs["scope"])
