"""Every list does something: an entry of each, custom ones included, changes what becomes of a message.

The lists come from the catalogue, and the entry of each is the example of its kind. A list that is defined and that no
part of the analysis asks fails here, and so does a new effect for which no mail shows what it does.
"""

from collections.abc import Callable
from email.message import EmailMessage
from hashlib import sha256

import msgspec
import pytest

from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.checks.files.malware import EICAR_SIGNATURE
from gatepost.lists.catalogue import (
    CATEGORIES,
    KIND_OF_ROLE,
    KINDS,
    LISTS,
    UNKEYED,
    Effect,
    ListDefinition,
    find_usual_list,
    make_custom_list,
)
from gatepost.lists.entries import NormalForm
from gatepost.lists.unkeyed import compile_lists, pack_lists
from gatepost.mail.message import Envelope
from gatepost.questions import Answer, Dns, DnsAnswer, Lookup, LookupAnswer, Question
from gatepost.store.audit import CLI
from gatepost.store.lists import NewEntry
from gatepost.store.store import Store
from gatepost.times import now

CUSTOM = tuple(
    make_custom_list("mine", kind, category, "Mine", "", 10)
    for kind in KINDS
    for category in CATEGORIES
    if find_usual_list(kind, category)
)
EVERY = (*LISTS, *CUSTOM)
LINK = "https://example.com/login/now"
HOST = "192.0.2.9"
Zone = dict[Dns, tuple[str, ...]]
PROOF: Zone = {Dns("example.com", "TXT"): ("v=spf1 ip4:192.0.2.0/24 -all",)}


def write_mail(
    text: str = "See you on Tuesday.", sender: str = "Ann Example <ann@example.com>", *files: tuple[str, bytes]
) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = sender, "bob@house.example", "Minutes"
    mail["Date"], mail["Message-ID"] = "Tue, 14 Nov 2023 22:13:20 +0000", "<a1@example.com>"
    mail.set_content(text)
    for name, content in files:
        mail.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    return mail.as_bytes()


# An ordinary message that has the example of every kind of entry in it.
ORDINARY = write_mail(
    f"Please do the wire transfer today, as {LINK} says.",
    "Ann Example <ann@example.com>",
    ("minutes.docm", b"minutes"),
    ("Inv\u043eice 7.csv", b"a,b"),
)
SUSPICIOUS = write_mail("See the attached file.", "Ann Example <ann@example.com>", ("tool.exe", b"MZ" + bytes(200)))
MALWARE = write_mail("See the attached file.", "Ann Example <ann@example.com>", ("a.com", EICAR_SIGNATURE))
LURE = (
    write_mail()
    .replace(b"text/plain", b"text/html")
    .replace(b"See you on Tuesday.", f'<p>See <a href="{LINK}">https://bank.test/login</a></p>'.encode())
)
RELAY = b"Received: from x (x.example [198.51.100.7]) by relay.example; Tue, 14 Nov 2023 22:13:20 +0000\r\n"
RELAYED = RELAY + ORDINARY
AS_PERSON = write_mail("Are you at your desk?", "Ann Example <ann.example.office@gmail.com>")
AS_COMPANY = write_mail("Are you at your desk?", "Example Bank <service@elsewhere.test>")
IMITATED = write_mail("Are you at your desk?", "Ann <ann@examp1e.com>")

Changes = Callable[[Report, Report, str], bool]


def is_blocked(before: Report, after: Report, name: str) -> bool:
    return (before.verdict, after.verdict) == ("clean", "policy") and f"list:{name}" in after.tags


def is_lifted(before: Report, after: Report, name: str) -> bool:
    return before.decision == "quarantine" and after.verdict == "clean" and f"list:{name}" in after.tags


def is_cleared(before: Report, after: Report, name: str) -> bool:
    return before.score > after.score and f"list:{name}" in after.tags


def passes_relay(before: Report, after: Report, _name: str) -> bool:
    return (before.authentication.host, after.authentication.host) == (HOST, "198.51.100.7")


def is_worse(before: Report, after: Report, _name: str) -> bool:
    return after.score > before.score and len(after.tags) > len(before.tags)


def is_spoofing(before: Report, after: Report, _name: str) -> bool:
    return before.verdict != after.verdict == "spoofing"


# The mail that shows an effect, what DNS says of its sender, and whether the effect is there.
EFFECTS: dict[Effect, tuple[bytes, Zone, Changes]] = {
    "block": (ORDINARY, PROOF, is_blocked),
    "lift": (SUSPICIOUS, PROOF, is_lifted),
    "clear": (LURE, PROOF, is_cleared),
    "clear-attacks": (MALWARE, PROOF, is_lifted),
    "skip-relay": (RELAYED, PROOF, passes_relay),
    "protect-own-domain": (ORDINARY, {Dns("example.com", "TXT"): ("v=spf1 -all",)}, is_spoofing),
    "protect-partner-domain": (IMITATED, {}, is_worse),
    "protect-person": (AS_PERSON, {}, is_worse),
    "protect-name": (AS_COMPANY, {}, is_worse),
}
# No mail has the example of a hash, which is that of an empty file.
ENTRIES = {
    ("sha256", "block"): sha256(b"minutes").hexdigest(),
    ("sha256", "clear-attacks"): sha256(EICAR_SIGNATURE).hexdigest(),
}


async def analyse_by(store: Store, raw: bytes, zone: Zone) -> Report:
    """The report on a message, with the lists of storage as guard hands them out and answers look-ups in them."""
    lists = compile_lists(pack_lists(await store.list_lookup.unkeyed(None)))

    async def answer(question: Question) -> Answer:
        if isinstance(question, Lookup):
            return LookupAnswer(await store.list_lookup.find(None, question.keys))
        assert isinstance(question, Dns)
        return DnsAnswer("found", zone[question]) if question in zone else DnsAnswer("no-name")

    envelope = Envelope("ann@example.com", ("bob@house.example",), HOST, "mail.example.com")
    asking = analyse(raw, envelope, Context(now=1_700_000_000.0, lists=lists))
    try:
        questions = next(asking)
        while True:
            questions = asking.send(tuple([await answer(question) for question in questions]))
    except StopIteration as stop:
        report: Report = stop.value
    return report


async def add(store: Store, definition: ListDefinition, expires: int | None = None) -> None:
    form = definition.normalise(ENTRIES.get((definition.kind, definition.effect), KINDS[definition.kind].example))
    assert isinstance(form, NormalForm), f"the example of {definition.kind} is no entry of {definition.name}"
    if definition.custom:
        assert await store.lists.create(None, definition, CLI) == definition
    assert await store.lists.add(None, definition, [NewEntry(form.key, form.shown, expires=expires)], CLI) == 1


@pytest.mark.parametrize(
    "definition", EVERY, ids=lambda each: f"custom {each.kind} {each.category}" if each.custom else each.name
)
async def test_an_entry_of_every_list_changes_what_becomes_of_a_message(
    definition: ListDefinition, store: Store
) -> None:
    if definition.effect == "take-recipient":
        # What SMTP does with the answer: tests/smtp/test_recipients.py.
        await add(store, definition)
        assert await store.list_lookup.knows_recipient(None, ["ann@example.com"])
        return
    raw, zone, has_effect = EFFECTS[definition.effect]
    before = await analyse_by(store, raw, zone)
    await add(store, definition)
    after = await analyse_by(store, raw, zone)
    assert has_effect(before, after, definition.name), (before.verdict, before.tags, after.verdict, after.tags)


@pytest.mark.parametrize("definition", [each for each in EVERY if not each.keyed], ids=lambda each: each.name)
async def test_what_is_handed_out_whole_changes_its_version_when_an_entry_ends(
    definition: ListDefinition, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(store, definition, expires=now() + 60_000)
    version = await store.list_lookup.unkeyed_version(None)
    monkeypatch.setattr("gatepost.store.list_lookup.now", lambda: now() + 120_000)
    assert await store.list_lookup.unkeyed_version(None) != version
    assert (await store.list_lookup.unkeyed(None)).entries == {}


def test_what_the_catalogue_says_fits_together() -> None:
    for definition in LISTS:
        assert definition.effect
        assert definition.keyed or not definition.subjects or KINDS[definition.kind].make_finder
        assert all(KIND_OF_ROLE[role].name == definition.kind for role in definition.subjects)
        if definition.pair:
            pair = next(each for each in LISTS if each.name == definition.pair)
            assert (pair.kind, pair.category, definition.effect) == (definition.kind, "allow", "block")
    models = [(definition.kind, definition.category) for definition in LISTS if definition.is_model]
    assert len(set(models)) == len(models), "a custom list does what one list does"
    assert {(each.kind, each.category) for each in CUSTOM if not each.keyed} == set(UNKEYED)
    assert msgspec.structs.replace(CUSTOM[0], custom=False).counts_as == "mine"
