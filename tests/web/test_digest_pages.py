"""The pages behind the links of digests, the queue of requests, and the preferences of a tenant."""

import time
from typing import Any

import httpx
import msgspec
import pytest
from tests.web.conftest import REPORT

from gatepost.digests.mail import DigestLink, sign_link
from gatepost.ids import new_id
from gatepost.store.audit import CLI
from gatepost.store.digests import DIGEST, DigestPreferences
from gatepost.store.recipients import MAX_OF_RECIPIENT, MAX_OPEN_OF_RECIPIENT, RequestFilter

BOB, CY = "bob@example.com", "cy@example.com"
DAY = 86_400_000
NASTY = "\u202egpj.exe <script>alert(1)</script> " + "x" * 900


def now() -> int:
    return int(time.time() * 1000)


class Mailbox:
    """Recipients of a tenant with digests, and their links."""

    def __init__(self, site: Any, tenant: str | None, **preferences: Any) -> None:
        self.site, self.tenant = site, tenant
        self.client = httpx.Client(
            base_url=site.url,
            trust_env=False,
            verify=site.no_tls,
            timeout=60,
            event_hooks={"request": [lambda _: self.forget()]},
        )
        self.prefer(**preferences)

    def prefer(self, **preferences: Any) -> None:
        site = self.site
        seen = site.run(site.store.digests.scope(self.tenant)).modified
        wanted = DigestPreferences(**{"enabled": True, "own_entries": True, "domains": ("example.com",), **preferences})
        assert site.run(site.store.digests.put_preferences(self.tenant, wanted, seen, CLI))

    def hold(self, verdict: Any = "spam", recipients: tuple[str, ...] = (BOB, CY), subject: str = "Offer") -> str:
        report = msgspec.structs.replace(REPORT, verdict=verdict, subject=subject)
        return str(self.site.message(self.tenant, report, held=True, recipients=recipients))

    def digest(self, address: str = BOB) -> str:
        """The id of a digest that waits for a recipient with held mail."""
        store, run = self.site.store, self.site.run
        job = run(store.jobs.hold(DIGEST, self.tenant, new_id(), now() + DAY))
        assert run(store.digests.begin_planning(job, now(), now() + DAY))
        while run(store.digests.plan(job, ["example.com"])):
            pass
        waiting = run(store.digests.waiting(self.tenant, 1000))
        for each in waiting:
            run(store.digests.mark_sent(each.id, now() + DAY))
        run(store.jobs.finish(job, None, "", job.detail))
        return str(next(each.id for each in waiting if each.address == address))

    def link(self, digest: str, item: str, *, ends: int = DAY, key: Any = None) -> str:
        signing = key or self.site.run(self.site.store.digests.current_key(DAY))
        return f"/digest/{sign_link(DigestLink(digest, item, now() + ends), signing)}"

    def forget(self) -> None:
        """Have the wrong links of before not count: a wait for each would make these tests long."""
        self.site.guesses._wrong.clear()

    def fresh(self) -> str:
        """A link to a message that was just held."""
        ggrid = self.hold()
        return self.link(self.digest(), ggrid)

    def post(self, link: str, **fields: Any) -> httpx.Response:
        return self.client.post(link, data=fields)


@pytest.fixture
def mailbox(site: Any, tenant: str) -> Any:
    made = Mailbox(site, tenant)
    site.core.given.clear()
    yield made
    made.client.close()
    site.core.refuses, site.core.down = "", False


def test_a_get_shows_and_a_post_acts_once(site: Any, mailbox: Mailbox) -> None:
    ggrid = mailbox.hold(subject=NASTY)
    link = mailbox.link(mailbox.digest(), ggrid)
    for _ in range(3):
        page = mailbox.client.get(link)
        assert page.status_code == 200
        assert mailbox.client.head(link).status_code == 200
    assert site.core.given == []
    assert "Release to my mailbox" in page.text
    assert "<script>alert" not in page.text
    assert "\u202e" not in page.text
    for name, value in {
        "cache-control": "no-store",
        "referrer-policy": "same-origin",
        "x-robots-tag": "noindex, nofollow",
        "x-frame-options": "DENY",
    }.items():
        assert page.headers[name] == value
    assert 'name="robots" content="noindex' in page.text
    done = mailbox.post(link, do="release")
    assert done.status_code == 200
    assert "on its way to your mailbox" in done.text
    assert site.core.given == [(ggrid, BOB, "recipient")]
    record = site.trail(scope=mailbox.tenant, action="quarantine.release")[0]
    assert (record.actor.kind, record.actor.name) == ("recipient", BOB)
    mail = site.run(site.store.quarantine.find(ggrid))
    assert mail.state == "held", "the other recipient's copy stays"
    assert f"already released to {BOB} (recipient" in site.visitor().get(f"/messages/{ggrid}").text
    for again in (mailbox.post(link, do="release"), mailbox.client.get(link)):
        assert again.status_code == 404
    assert len(site.core.given) == 1


def test_every_link_that_does_not_work_gets_one_answer(site: Any, mailbox: Mailbox) -> None:
    ggrid, malware = mailbox.hold(), mailbox.hold("malware")
    digest = mailbox.digest()
    key = site.run(site.store.digests.current_key(DAY))
    forged = msgspec.structs.replace(key, secret=bytes(32))
    others = Mailbox(site, site.new_tenant())
    theirs = others.hold()
    used = mailbox.link(digest, malware)
    assert mailbox.post(used, do="request").status_code == 200
    links = {
        "forged": mailbox.link(digest, ggrid, key=forged),
        "of another key": mailbox.link(digest, ggrid, key=msgspec.structs.replace(key, number=999)),
        "expired": mailbox.link(digest, ggrid, ends=-1_000),
        "used": used,
        "unknown digest": mailbox.link(new_id(), ggrid),
        "unknown message": mailbox.link(digest, new_id()),
        "of another tenant": mailbox.link(digest, theirs),
        "of another recipient": mailbox.link(digest, mailbox.hold(recipients=(CY,))),
        "no link": "/digest/x",
        "too long": "/digest/" + "A" * 5_000,
    }
    answers = {name: [mailbox.client.get(link), mailbox.post(link, do="release")] for name, link in links.items()}
    expected = answers["forged"][0]
    assert expected.status_code == 404
    for name, both in answers.items():
        for answer in both:
            assert (answer.status_code, answer.text) == (404, expected.text), name
            assert dict(answer.headers).keys() == dict(expected.headers).keys()
    assert site.core.given == []
    assert mailbox.client.get(mailbox.link(digest, ggrid)).status_code == 200, "one that works still does"
    others.client.close()


def test_a_tenant_that_switches_digests_off_ends_their_links(mailbox: Mailbox) -> None:
    link = mailbox.fresh()
    mailbox.prefer(enabled=False)
    assert mailbox.client.get(link).status_code == 404


def test_links_outlive_the_key_that_follows_and_not_its_revocation(site: Any, mailbox: Mailbox) -> None:
    ggrid = mailbox.hold()
    link = mailbox.link(mailbox.digest(), ggrid)
    site.run(site.store.digests.current_key(DAY, renew=True))
    assert mailbox.client.get(link).status_code == 200
    site.run(site.store.digests.current_key(DAY, renew=True, revoke=True))
    assert mailbox.client.get(link).status_code == 404


@pytest.mark.parametrize("verdict", ["malware", "fraud"])
def test_what_is_not_spam_is_requested_and_granted(site: Any, mailbox: Mailbox, verdict: str) -> None:
    ggrid = mailbox.hold(verdict)
    link = mailbox.link(mailbox.digest(), ggrid)
    assert "Release to my mailbox" not in mailbox.client.get(link).text
    assert mailbox.post(link, do="release").status_code == 404
    assert site.core.given == []
    assert "passed on" in mailbox.post(link, do="request", said=NASTY).text
    analyst, boss = site.visitor("analyst", mailbox.tenant), site.visitor("administrator", mailbox.tenant)
    page = analyst.get("/requests").text
    assert "<script>alert" not in page
    assert BOB in page
    request = site.run(site.store.recipients.requests(RequestFilter(mailbox.tenant))).rows[0]
    assert (request.ggrid, request.address, request.kind) == (ggrid, BOB, "release")
    if verdict in ("malware", "phishing"):
        assert analyst.post("/requests", {"action": "grant", "id": request.id}).status_code == 409
        assert site.core.given == []
    went = site.went(boss.post("/requests", {"action": "grant", "id": request.id, "note": "checked"}))
    assert went == "/requests requests-granted~1"
    assert site.core.given == [(ggrid, BOB, "user")]
    decided = boss.get("/requests?state=granted").text
    assert "checked" in decided
    assert site.run(site.store.recipients.count_open(mailbox.tenant)) == 0


def test_requests_are_denied_by_their_own_people_only(site: Any, mailbox: Mailbox) -> None:
    ggrid = mailbox.hold("fraud")
    mailbox.post(mailbox.link(mailbox.digest(), ggrid), do="request")
    request = site.run(site.store.recipients.requests(RequestFilter(mailbox.tenant))).rows[0]
    stranger, auditor = site.visitor("administrator", site.new_tenant()), site.visitor("auditor", mailbox.tenant)
    assert request.id not in stranger.get("/requests").text
    for word in ("grant", "deny"):
        assert stranger.post("/requests", {"action": word, "id": request.id}).status_code == 400
        assert auditor.post("/requests", {"action": word, "id": request.id}).status_code == 403
    assert site.core.given == []
    own = site.visitor("analyst", mailbox.tenant)
    assert own.post("/requests", {"action": "grant"}).status_code == 400
    assert site.went(own.post("/requests", {"action": "deny", "id": request.id})) == "/requests requests-denied~1"
    assert own.post("/requests", {"action": "grant", "id": request.id}).status_code == 409, "it is decided"
    assert BOB not in own.get("/requests").text
    assert BOB in own.get("/requests?state=denied&kind=release&q=BOB@example.com").text


def test_a_full_queue_and_a_next_hop_that_is_down_leave_the_link_usable(site: Any, mailbox: Mailbox) -> None:
    ggrid, other = mailbox.hold(), mailbox.hold("fraud")
    digest = mailbox.digest()
    link = mailbox.link(digest, ggrid)
    site.core.down = True
    assert mailbox.post(link, do="release").status_code == 503
    site.core.down, site.core.refuses = False, "the next hop answered 451"
    assert mailbox.post(link, do="release").status_code == 503
    site.core.refuses = ""
    assert mailbox.post(link, do="release").status_code == 200
    for _ in range(MAX_OPEN_OF_RECIPIENT):
        site.run(site.store.recipients.ask_for_release(new_id(), mailbox.tenant, BOB, ""))
    asking = mailbox.link(digest, other)
    assert "Too many requests wait" in mailbox.post(asking, do="request").text
    assert mailbox.client.get(asking).status_code == 200


def test_own_entries_where_the_tenant_permits_them(site: Any, mailbox: Mailbox) -> None:
    store, tenant = site.store, mailbox.tenant
    first, second = mailbox.hold(), mailbox.hold()
    digest = mailbox.digest()
    mailbox.post(mailbox.link(digest, first), do="release", allow="1")
    entry = site.run(store.recipients.entries_of(tenant, BOB))[0]
    assert (entry.sender, entry.says) == ("ann@example.org", "allow")
    hits = site.run(store.list_lookup.find(tenant, [("sender", ["ann@example.org"])], BOB))
    assert [(hit.list, hit.scope) for hit in hits] == [("allowed-senders", "recipient")]
    assert site.run(store.list_lookup.find(tenant, [("sender", ["ann@example.org"])], CY)) == ()
    assert site.run(store.list_lookup.find(tenant, [("sender", ["ann@example.org"])])) == ()
    assert "is blocked for you" in mailbox.post(mailbox.link(digest, second), do="block").text
    assert site.run(store.recipients.entries_of(tenant, BOB))[0].says == "block"
    page = site.visitor("administrator", tenant).get(f"/digests/{tenant}").text
    assert "ann@example.org" in page
    own = mailbox.link(digest, "")
    assert "ann@example.org" in mailbox.client.get(own).text
    assert mailbox.post(own, do="remove").status_code == 200, "nothing was selected, so nothing is used up"
    assert "removed" in mailbox.post(own, sender="ann@example.org").text
    assert site.run(store.recipients.entries_of(tenant, BOB)) == ()
    assert mailbox.client.get(own).status_code == 404
    for number in range(MAX_OF_RECIPIENT):
        assert site.run(store.recipients.put_entry(tenant, BOB, f"a{number}@x.example", "block", CLI))
    assert not site.run(store.recipients.put_entry(tenant, BOB, "more@x.example", "block", CLI))
    mailbox.prefer(own_entries=False)
    assert site.run(store.list_lookup.find(tenant, [("sender", ["a1@x.example"])], BOB)) == (), (
        "it is no longer permitted"
    )
    third = mailbox.hold()
    link = mailbox.link(mailbox.digest(), third)
    assert "Block this sender" not in mailbox.client.get(link).text
    assert mailbox.post(link, do="block").status_code == 404
    assert mailbox.client.get(mailbox.link(digest, "")).status_code == 404


def test_words_of_the_language(mailbox: Mailbox) -> None:
    mailbox.prefer(language="de", zone="Europe/Berlin")
    page = mailbox.client.get(mailbox.fresh()).text
    assert '<html lang="de" dir="ltr">' in page
    assert "An mein Postfach freigeben" in page
    assert "Europe/Berlin" in page


def test_without_a_choice_the_browser_says_which_language(mailbox: Mailbox) -> None:
    mailbox.prefer(language="")
    page = mailbox.client.get(mailbox.fresh(), headers={"Accept-Language": "ar-EG, en;q=0.5"}).text
    assert '<html lang="ar" dir="rtl">' in page
    assert "إفراج إلى صندوق بريدي" in page
    assert "Release to my mailbox" in mailbox.client.get(mailbox.fresh()).text
    wrong = mailbox.client.get("/digest/wrong", headers={"Accept-Language": "pl"})
    assert wrong.status_code == 404
    assert "Ten link nie działa" in wrong.text


def test_a_form_of_another_site_does_nothing(site: Any, mailbox: Mailbox) -> None:
    link = mailbox.fresh()
    answer = mailbox.client.post(link, data={"do": "release"}, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert site.core.given == []
    assert mailbox.client.post(link, content=b"x" * 20_000).status_code in (413, 415)


def test_preferences_are_saved_by_administrators_of_the_tenant(site: Any, tenant: str) -> None:
    own, path = site.visitor("administrator", tenant), f"/digests/{tenant}"
    fields = {"enabled": "1", "hour": "6", "zone": "Europe/Berlin", "language": "de", "intro": "Hallo", "seen": "0"}
    assert "off" in own.get("/digests").text
    for wrong in ({"hour": "24"}, {"hour": "x"}, {"zone": "Nowhere"}, {"language": "xx"}, {"domains": "not a domain!"}):
        assert own.post(path, {**fields, **wrong}).status_code == 400
    assert not site.run(site.store.digests.scope(tenant)).preferences.enabled
    assert site.went(own.post(path, fields)) == f"{path} digests-saved"
    saved = site.run(site.store.digests.scope(tenant)).preferences
    assert saved == DigestPreferences(True, "de", 6, "Europe/Berlin", "Hallo")
    assert site.went(own.post(path, fields)) == f"{path} digests-changed", "somebody else saved meanwhile"
    assert site.visitor("auditor", tenant).get(path).status_code == 200
    boss = site.visitor("administrator")
    assert boss.post("/digests/global", {**fields, "seen": "0"}).status_code == 400, "without a tenant, name domains"
    assert "Mail without a tenant" in boss.get("/digests").text
    record = site.trail(scope=tenant, action="digest.settings")[0]
    assert record.has_changes


def test_forged_links_wait_for_their_turn_and_real_ones_do_not(site: Any, mailbox: Mailbox) -> None:
    mailbox.client.event_hooks = {}
    mailbox.forget()
    address = "link:127.0.0.1"
    link = mailbox.fresh()
    assert mailbox.post(link, do="release").status_code == 200
    assert mailbox.client.get(link).status_code == 404, "it was used, and it is ours"
    assert site.guesses.wrong(address).count == 0
    assert [mailbox.client.get("/digest/x").status_code for _ in range(2)] == [404, 404]
    known = site.guesses.wrong(address)
    assert known.count == 2
    site.guesses.set_wrong(address, msgspec.structs.replace(known, count=1_000, turn=known.last + 10_000))
    assert mailbox.client.get("/digest/x").status_code == 429
    assert mailbox.client.get(mailbox.fresh()).status_code == 200
    assert site.guesses.wrong("127.0.0.1").count == 0, "signing in is another matter"
    mailbox.forget()
