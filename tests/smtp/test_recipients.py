"""Recipients are verified before a message is taken: by a list, a directory, a mail server; and nobody is refused for
what cannot be known."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.smtp.test_flow_control import control

from gatepost.lists.catalogue import BY_NAME
from gatepost.service.core import MAX_UNKNOWN
from gatepost.service.routes import build_recipient_verifier
from gatepost.settings.keys import GuardSettings
from gatepost.settings.recipients import RecipientVerificationSettings
from gatepost.smtp.client import SmtpClient
from gatepost.smtp.recipients import (
    REST_SECONDS,
    STALE_SECONDS,
    LookupFailedError,
    Recipient,
    RecipientMemory,
    RecipientRule,
    RecipientSource,
    RecipientVerifier,
)
from gatepost.store import open_store
from gatepost.store.audit import CLI
from gatepost.store.lists import NewEntry
from gatepost.store.tenants import Tenant

MESSAGE = b"Subject: x\r\n\r\ny\r\n"
UNKNOWN = "550 5.1.1 No such recipient here"
LATER = "451 4.4.3 Recipient cannot be verified now, try again later"


class Names(RecipientSource):
    """Knows some names; counts how often it is asked, and fails when it is told to."""

    name = "names"

    def __init__(self, *known: str) -> None:
        self.known, self.asked, self.fault, self.is_down = set(known), 0, "", True
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.under_way = self.most = 0

    async def knows(self, recipient: Recipient) -> bool:
        self.asked += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.may_answer.wait()
        self.under_way -= 1
        if self.fault:
            raise LookupFailedError(self.fault, is_down=self.is_down)
        return bool(self.known.intersection(recipient.spellings))


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def verify(*sources: RecipientSource, clock: Clock | None = None, **options: Any) -> RecipientVerifier:
    rule = RecipientRule(sources, accepts_unverified=options.pop("accepts", False))
    return RecipientVerifier([rule], clock=clock or Clock(), **options)


async def said(verifier: RecipientVerifier, address: str, tenant: str | None = None) -> str:
    answer = await verifier.check(address, address.rpartition("@")[2].lower(), tenant)
    return answer.encode().decode().strip() if answer else ""


def test_who_exists_and_who_does_not(run: Any) -> None:
    async def test() -> None:
        verifier = verify(Names("ann@y.example", '"a b"@y.example'))
        for known in (
            "ann@y.example",
            "ANN@Y.Example",
            "ann+shop@y.example",
            "PostMaster@y.example",
            '"a b"@y.example',
        ):
            assert await said(verifier, known) == "", known
        for unknown in ("bob@y.example", "an@y.example", "+ann@y.example", "ann@z.example", "postmaster2@y.example"):
            assert await said(verifier, unknown) == UNKNOWN, unknown
        assert verifier.found == {"known": 4, "unknown": 5}

    run(test())


def test_answers_are_remembered_for_their_time(run: Any) -> None:
    async def test() -> None:
        names, clock = Names("ann@y.example"), Clock()
        verifier = verify(names, clock=clock, known_seconds=60, unknown_seconds=10)
        for _ in range(3):
            assert await said(verifier, "ann@y.example") == ""
            assert await said(verifier, "bob@y.example") == UNKNOWN
        assert names.asked == 2
        assert verifier.remembered == 4
        names.known.add("bob@y.example")
        clock.now += 11
        assert await said(verifier, "bob@y.example") == ""
        names.known.clear()
        clock.now += 61
        assert await said(verifier, "ann@y.example") == UNKNOWN, "who left is unknown when the answer has ended"

    run(test())


def test_a_source_that_cannot_say_refuses_nobody_for_good(run: Any) -> None:
    async def test() -> None:
        names, clock = Names("ann@y.example", "cem@y.example"), Clock()
        verifier = verify(names, clock=clock, known_seconds=60)
        assert await said(verifier, "ann@y.example") == ""
        names.fault = "the directory is away"
        clock.now += 61
        assert await said(verifier, "ann@y.example") == "", "known a minute ago"
        assert await said(verifier, "bob@y.example") == LATER
        assert verifier.fault == "recipients cannot be verified and are answered with 451: the directory is away"
        asked = names.asked
        assert await said(verifier, "dan@y.example") == LATER
        assert names.asked == asked, "a source that failed is left alone"
        clock.now += REST_SECONDS
        names.fault = ""
        assert await said(verifier, "cem@y.example") == ""
        assert verifier.fault == ""
        names.fault = "the directory is away"
        clock.now += STALE_SECONDS + 61
        assert await said(verifier, "ann@y.example") == LATER, "known more than a day ago"

        open_door = verify(names, accepts=True)
        assert await said(open_door, "bob@y.example") == ""
        assert open_door.fault == "recipients cannot be verified and are left to the next hop: the directory is away"

    run(test())


def test_one_source_that_knows_is_enough_and_all_must_say_no(run: Any) -> None:
    async def test() -> None:
        first, second = Names("ann@y.example"), Names("bob@y.example")
        verifier = verify(first, second)
        assert await said(verifier, "ann@y.example") == ""
        assert await said(verifier, "bob@y.example") == ""
        assert await said(verifier, "cem@y.example") == UNKNOWN
        assert (first.asked, second.asked) == (3, 2)
        first.fault = "away"
        assert await said(verifier, "dan@y.example") == LATER
        second.known.add("eva@y.example")
        assert await said(verifier, "eva@y.example") == ""

    run(test())


def test_rules_are_for_domains_and_tenants(run: Any) -> None:
    async def test() -> None:
        nobody = RecipientVerifier(
            [
                RecipientRule((Names(),), frozenset({"y.example", "*.y.example"})),
                RecipientRule((Names(),), tenants=frozenset({"T"})),
            ]
        )
        assert await said(nobody, "a@y.example") == UNKNOWN
        assert await said(nobody, "a@mail.y.example") == UNKNOWN
        assert await said(nobody, "a@z.example") == ""
        assert await said(nobody, "a@z.example", "T") == UNKNOWN
        assert await said(nobody, "a@z.example", "U") == ""

    run(test())


def test_sessions_that_ask_for_the_same_name_wait_for_one_answer(run: Any) -> None:
    async def test() -> None:
        names = Names("ann@y.example")
        verifier = verify(names)
        names.may_answer.clear()
        asking = [asyncio.create_task(said(verifier, "ann@y.example")) for _ in range(5)]
        others = [asyncio.create_task(said(verifier, f"guess{number}@y.example")) for number in range(100)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asking.pop().cancel()
        names.may_answer.set()
        assert await asyncio.gather(*asking) == [""] * 4
        assert set(await asyncio.gather(*others)) == {UNKNOWN}
        assert names.asked == 101
        assert names.most == 20, "questions under way are limited"

    run(test())


def test_guesses_do_not_push_out_what_is_known() -> None:
    memory = RecipientMemory(100)
    for number in range(30):
        memory.keep("small.example", f"{number}@small.example", 1.0)
    for number in range(1_000):
        memory.keep("large.example", f"{number}@large.example", 1.0)
    assert memory.size <= 100
    assert all(memory.find("small.example", f"{number}@small.example") for number in range(30))
    assert memory.find("large.example", "999@large.example")
    assert memory.find("large.example", "0@large.example") is None
    memory.forget("small.example", "0@small.example")
    assert memory.find("small.example", "0@small.example") is None


def build(rules: list[dict[str, Any]], routing: Any, lists: Any, **cache: Any) -> RecipientVerifier:
    settings = GuardSettings.model_validate({"recipientVerification": {"rules": rules, "cache": cache}})
    verifier = build_recipient_verifier(settings, routing, lists)
    assert verifier
    return verifier


def test_a_list_over_smtp(deployment: Any, hop: Any, run: Any, tmp_path: Path) -> None:
    """Unknown recipients are refused before the next hop hears of them, and the known one still gets the message."""

    async def test() -> None:
        store = open_store("sqlite:lists.db", tmp_path)
        tenant = await store.tenants.create("y")
        assert isinstance(tenant, Tenant)
        next_hop = hop()
        async with deployment(next_hop, tenants={"y.example": tenant.uid}) as gate:
            gate.services.recipients = build([{"recipientList": True}], gate.services.routing, store.list_lookup)
            client = await gate.connect()
            await client.say("EHLO c")
            await client.say("MAIL FROM:<a@x.example>")
            assert await client.say("RCPT TO:<ann@y.example>") == LATER, "an empty list refuses nobody for good"
            known, ann, anybody = BY_NAME["known-recipients"], "ann@y.example", "*.z.example"
            assert await store.lists.add(tenant.uid, known, [NewEntry(ann, ann)], CLI) == 1
            assert await store.lists.add(None, known, [NewEntry(anybody, anybody)], CLI) == 1
            assert await client.say("RCPT TO:<bob@y.example>") == UNKNOWN
            assert await client.say("RCPT TO:<Ann+news@Y.example>") == "250 2.1.0 fine"
            assert await client.say("DATA") == "354 End data with <CR><LF>.<CR><LF>"
            assert (await client.say(MESSAGE + b".\r\n")).startswith("250")
            assert gate.guard.scanned[-1].envelope.recipients == ("Ann+news@Y.example",)
            assert [line for line in next_hop.lines if line.startswith("RCPT")] == ["RCPT TO:<Ann+news@Y.example>"]
            await client.say("MAIL FROM:<a@x.example>")
            assert (await client.say("RCPT TO:<who@mail.z.example>")).startswith("250"), (
                "the global list, by a wildcard"
            )
            assert await client.say("RCPT TO:<who@w.example>") == UNKNOWN
            assert gate.services.deferred == {"recipients": 1}
            await gate.services.recipients.close()
        await store.close()

    run(test())


def test_a_call_out_over_smtp(deployment: Any, hop: Any, run: Any) -> None:
    """The mail server behind a next hop that takes everything is asked, once for each name; while it is away, the rule
    decides."""

    async def test() -> None:
        next_hop, mailboxes = hop(), hop()
        mailboxes.says["RCPT TO:<bob"] = "550 5.1.1 Who?"
        mailboxes.says["RCPT TO:<full"] = "552 5.2.2 Mailbox full"
        mailboxes.says["RCPT TO:<grey"] = "450 4.7.1 Later"
        url = f"smtp://127.0.0.1:{await mailboxes.start()}"
        async with deployment(next_hop) as gate:
            rule = {"callOut": {"nextHop": url}}
            gate.services.recipients = verifier = build([rule], gate.services.routing, None, knownMinutes=1)
            client = await gate.connect()
            await client.say("EHLO c")
            await client.say("MAIL FROM:<a@x.example>")
            for _ in range(2):
                assert (await client.say("RCPT TO:<ann@y.example>")).startswith("250")
                assert await client.say("RCPT TO:<bob@y.example>") == UNKNOWN
                assert await client.say("RCPT TO:<grey@y.example>") == LATER
            assert (await client.say("RCPT TO:<full@y.example>")).startswith("250"), "what it says is for the next hop"
            asked = [line for line in mailboxes.lines if line.startswith(("MAIL", "RCPT"))]
            assert asked.count("RCPT TO:<ann@y.example>") == asked.count("RCPT TO:<bob@y.example>") == 1
            assert asked.count("RCPT TO:<grey@y.example>") == 2
            assert asked.count("MAIL FROM:<>") == 5
            assert not mailboxes.messages
            assert mailboxes.connections == 1, "one connection for all questions"
            await mailboxes.stop()
            assert await client.say("RCPT TO:<dan@y.example>") == LATER
            assert "the mail server" in verifier.fault
            assert await client.say("RCPT TO:<bob@y.example>") == UNKNOWN, "remembered"
            await verifier.close()

    run(test())


def test_a_call_out_asks_the_route_of_the_recipient(deployment: Any, hop: Any, run: Any) -> None:
    async def test() -> None:
        next_hop = hop()
        next_hop.says["RCPT TO:<bob"] = "550 5.1.1 Who?"
        async with deployment(next_hop) as gate:
            gate.services.recipients = build([{"callOut": {}}], gate.services.routing, None)
            client = await gate.connect()
            await client.say("EHLO c")
            await client.say("MAIL FROM:<a@x.example>")
            assert await client.say("RCPT TO:<bob@y.example>") == UNKNOWN
            assert (await client.say("RCPT TO:<ann@y.example>")).startswith("250")
            next_hop.says["MAIL FROM:<>"] = "550 5.7.1 No"
            assert await client.say("RCPT TO:<eva@y.example>") == LATER, "who refuses the empty sender says nothing"

    run(test())


def test_whoever_guesses_names_is_closed_off(deployment: Any, hop: Any, run: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(SmtpClient, "remote_address", lambda client: client.address)

    async def test() -> None:
        names = Names("ann@y.example")
        async with deployment(hop()) as gate:
            gate.services.recipients = verify(names)
            gate.services.flow = control({"unknownRecipients": {"maximum": 3}})
            client = await gate.connect()
            await client.say("EHLO c")
            await client.say("MAIL FROM:<a@x.example>")
            for number in range(3):
                assert await client.say(f"RCPT TO:<guess{number}@y.example>") == UNKNOWN
            asked = names.asked
            assert (await client.say("RCPT TO:<ann@y.example>")).startswith("421 4.7.0 Too many unknown recipients")
            assert names.asked == asked, "no further question is asked for such a host"
            assert await client.closed()

    run(test())
    assert MAX_UNKNOWN == 100


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({}, "must have a source: recipientList, ldap or callOut"),
        ({"ldap": {"servers": ["http://x"], "base": "dc=x"}}, "must be of the form ldap://host:port"),
        ({"ldap": {"servers": ["ldap://u:p@x"], "base": "dc=x"}}, "have keys of their own"),
        ({"ldap": {"servers": ["ldap://x"], "base": "dc=x", "filter": "(mail=x)"}}, "must have {address} in it"),
        (
            {"ldap": {"servers": ["ldap://x"], "base": "dc=x", "filter": "mail={address}"}},
            "must have a ( at character 1",
        ),
        ({"ldap": {"servers": ["ldap://x"], "base": "dc=x", "user": "cn=a"}}, "must have both user and password"),
        (
            {"ldap": {"servers": ["ldap://x"], "base": "", "user": "cn=a", "password": "p", "startTls": False}},
            "the password would go over the wire in clear",
        ),
        ({"recipientList": True, "tagSeparator": "+-"}, "at most 1 character"),
    ],
)
def test_rules_that_cannot_work(rule: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as fault:
        RecipientVerificationSettings.model_validate({"rules": [rule]})
    assert says in str(fault.value)
