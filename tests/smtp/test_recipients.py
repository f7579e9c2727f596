"""Recipients are verified before a message is taken, and nobody is refused for what cannot be known."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gatepost.lists.catalogue import BY_NAME
from gatepost.settings.scan_sources import RecipientVerificationSettings
from gatepost.smtp.services import RecipientVerifier
from gatepost.store import open_store
from gatepost.store.audit import CLI
from gatepost.store.errors import StorageError
from gatepost.store.list_lookup import ListLookup
from gatepost.store.lists import NewEntry
from gatepost.store.tenants import Tenant

MESSAGE = b"Subject: x\r\n\r\ny\r\n"
UNKNOWN = "550 5.1.1 No such recipient here"
LATER = "451 4.4.3 Recipient cannot be verified now, try again later"


class Names(ListLookup):
    """Knows some names, and none while storage is away; without any, the list is empty."""

    def __init__(self, *known: str) -> None:
        self.known, self.is_away = set(known), False

    async def knows_recipient(self, _tenant: str | None, addresses: Sequence[str]) -> bool | None:
        if self.is_away:
            raise StorageError("away")
        return bool(self.known.intersection(addresses)) if self.known else None


def verify(lists: ListLookup, *rules: object) -> RecipientVerifier:
    return RecipientVerifier(RecipientVerificationSettings.model_validate({"rules": list(rules) or [{}]}).rules, lists)


async def said(verifier: RecipientVerifier, address: str, tenant: str | None = None) -> str:
    answer = await verifier.check(address, address.rpartition("@")[2].lower(), tenant)
    return answer.encode().decode().strip() if answer else ""


async def test_who_exists_and_who_does_not() -> None:
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
    assert await verifier.check("Postmaster", "", None) is None, "RFC 5321 section 4.5.1: without a domain, too"


async def test_a_list_that_cannot_say_refuses_nobody_for_good() -> None:
    names = Names("ann@y.example")
    verifier = verify(names)
    assert await said(verifier, "ann@y.example") == ""
    names.is_away = True
    assert await said(verifier, "ann@y.example") == LATER
    assert await said(verifier, "bob@y.example") == LATER
    names.is_away = False
    assert await said(verifier, "bob@y.example") == UNKNOWN
    names.known.clear()
    assert await said(verifier, "bob@y.example") == LATER, "the list is empty"
    assert verifier.found == {"known": 1, "unknown": 1, "failed": 3}


async def test_rules_are_for_domains_and_tenants() -> None:
    tenant, other = "0198c5a2-7c11-7d3e-9f00-00000000aa01", "0198c5a2-7c11-7d3e-9f00-00000000aa02"
    verifier = verify(
        Names("ann@y.example", "ann@z.example"),
        {"domains": ["y.example", "*.y.example"], "tagSeparator": "-"},
        {"tenants": [tenant], "tagSeparator": ""},
    )
    assert await said(verifier, "a@y.example") == UNKNOWN
    assert await said(verifier, "a@mail.y.example") == UNKNOWN
    assert await said(verifier, "a@z.example") == ""
    assert await said(verifier, "a@z.example", tenant) == UNKNOWN
    assert await said(verifier, "a@z.example", other) == ""
    assert await said(verifier, "ann-shop@y.example", tenant) == "", "the first rule that fits counts"
    assert await said(verifier, "ann+shop@y.example") == UNKNOWN
    assert await said(verifier, "ann+shop@z.example", tenant) == UNKNOWN
    assert await said(verifier, "ann@z.example", tenant) == ""


async def test_a_list_over_smtp(deployment: Any, hop: Any, tmp_path: Path) -> None:
    """Unknown recipients are refused before the next hop hears of them, and the known one still gets the message."""
    store = open_store("sqlite:lists.db", tmp_path)
    tenant = await store.tenants.create("y")
    assert isinstance(tenant, Tenant)
    next_hop = hop()
    async with deployment(next_hop, tenants={"y.example": tenant.uid}) as gate:
        gate.services.recipients = verify(store.list_lookup)
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
        assert (await client.say("RCPT TO:<who@mail.z.example>")).startswith("250"), "the global list, by a wildcard"
        assert await client.say("RCPT TO:<who@w.example>") == UNKNOWN
        assert gate.services.deferred == {"recipients": 1}
        await store.close()
        assert await client.say("RCPT TO:<who@mail.z.example>") == LATER, "storage is away"


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"tagSeparator": "+-"}, "at most 1 character"),
        ({"domains": ["ann@example.com"]}, "write its domain alone"),
        ({"tenants": ["T"]}, "must be"),
    ],
)
def test_rules_that_cannot_work(rule: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as fault:
        RecipientVerificationSettings.model_validate({"rules": [rule]})
    assert says in str(fault.value)
