"""Searching by what a message has in it, on both engines: found by digests, and never wrongly."""

import msgspec
import pytest
from tests.store.conftest import NewRecord

from gatepost.analysis.report import FileSeen
from gatepost.auth.results import Authentication
from gatepost.ids import new_id
from gatepost.lists.links import split_url
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope
from gatepost.store import evidence as store_evidence
from gatepost.store import message_index
from gatepost.store.engine import Write
from gatepost.store.evidence import Evidence, index_evidence
from gatepost.store.held_search import HeldFilter
from gatepost.store.message_records import MessageRecord
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.sql import compose
from gatepost.store.store import Store

HASH = "ab" * 32
TENANT = new_id()


def mail(base: MessageRecord, links: int = 0, **parts: str) -> MessageRecord:
    """A message with a host, links, a file and an id."""
    hosts = parts.get("leads_to", "").split() + [f"h{number}.many.example" for number in range(links)]
    files = (FileSeen("1", "pdf", 3, HASH, (parts["file"],)),) if "file" in parts else ()
    report = msgspec.structs.replace(
        base.report,
        authentication=Authentication(host=parts.get("host", "")),
        files=files,
        subjects=tuple(Subject("link", f"https://{host}/x", "1") for host in hosts),
        message_id=parts.get("id", ""),
    )
    envelope = Envelope("a@b.example", ("c@d.example",), parts.get("remote"), tenant=parts.get("tenant"))
    return msgspec.structs.replace(base, ggrid=new_id(), envelope=envelope, report=report)


CASES = [
    (Evidence(remote_address="192.0.2.7"), "ab"),
    (Evidence(remote_address="::ffff:192.0.2.7"), "ab"),
    (Evidence(remote_address="2001:DB8::0:1"), "c"),
    (Evidence(link_host="login.evil.example"), "a"),
    (Evidence(link_host="evil.example"), "ab"),
    (Evidence(link_host="EVIL.example."), "ab"),
    (Evidence(link_host="example"), ""),
    (Evidence(link_host="vil.example"), ""),
    (Evidence(link_host="bücher.example"), "c"),
    (Evidence(file_name="INVOICE.pdf"), "a"),
    (Evidence(file_name="invoice"), ""),
    (Evidence(file_hash=HASH.upper()), "ab"),
    (Evidence(message_id="<One@x>"), "a"),
    (Evidence(message_id="One@x"), "a"),
    (Evidence(message_id="one@x"), ""),
    (Evidence(link_host="evil.example", file_name="invoice.pdf"), "a"),
    (Evidence(link_host="evil.example", file_name="invoice.pdf", message_id="Two@x"), ""),
    (Evidence(link_host="h77.many.example"), "d"),
    (Evidence(link_host="' OR 1=1 --"), ""),
    (Evidence(file_name="\0"), ""),
    (Evidence(message_id="\ud800"), ""),
    (Evidence(), "abcd"),
]


async def store_four(store: Store, base: MessageRecord) -> dict[str, str]:
    """Four messages; `d` has more links than there are digests for."""
    made = {
        "a": mail(base, leads_to="login.evil.example", host="192.0.2.7", file="Invoice.PDF", id="<One@x>"),
        "b": mail(base, leads_to="evil.example", remote="192.0.2.7", file="Other.PDF", tenant=TENANT),
        "c": mail(base, leads_to="xn--bcher-kva.example", host="2001:db8::1"),
        "d": mail(base, links=80),
    }
    for record in made.values():
        await store.messages.record(record)
        await store.quarantine.hold(record)
    return {record.ggrid: name for name, record in made.items()}


async def test_search_by_evidence(store: Store, new_record: NewRecord) -> None:
    names = await store_four(store, new_record())
    for evidence, expected in CASES:
        found = await store.messages.search(MessageFilter(evidence=evidence))
        assert sorted(names[row.ggrid] for row in found.rows) == list(expected), evidence
        held = await store.quarantine.search(HeldFilter(evidence=evidence))
        assert sorted(names[row.record.ggrid] for row in held.rows) == list(expected), evidence
    theirs = MessageFilter(tenant=TENANT, evidence=Evidence(link_host="evil.example"))
    assert [names[row.ggrid] for row in (await store.messages.search(theirs)).rows] == ["b"]


async def test_messages_that_were_stored_before_there_were_digests(store: Store, new_record: NewRecord) -> None:
    names = await store_four(store, new_record())

    def forget():  # type: ignore[no-untyped-def]
        yield Write(compose("UPDATE message_search SET evidence = NULL"))

    await store._engine.change(forget)
    for evidence, expected in CASES:
        found = await store.messages.search(MessageFilter(evidence=evidence))
        assert sorted(names[row.ggrid] for row in found.rows) == list(expected), evidence


async def test_a_digest_that_two_values_share_finds_nothing_wrong(
    store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_evidence, "digest", lambda _kind, _value: "same")
    monkeypatch.setattr(message_index, "digest", lambda _kind, _value: "same")

    names = await store_four(store, new_record())
    found = await store.messages.search(MessageFilter(evidence=Evidence(file_name="invoice.pdf")))
    assert [names[row.ggrid] for row in found.rows] == ["a"]


async def test_pages_of_held_mail_with_evidence_have_every_message_once(store: Store, new_record: NewRecord) -> None:
    base, wanted = new_record(), []
    for number in range(30):
        record = mail(base, leads_to="evil.example" if number % 3 == 0 else "good.example")
        await store.quarantine.hold(record)
        wanted += [record.ggrid] if number % 3 == 0 else []
    seen: list[str] = []
    cursor = None
    for _ in range(40):
        page = await store.quarantine.search(HeldFilter(evidence=Evidence(link_host="evil.example")), cursor, 3)
        assert len(page.rows) <= 3
        seen += [row.record.ggrid for row in page.rows]
        cursor = page.next
        if cursor is None:
            break
    assert seen == wanted[::-1]


async def test_a_label_finds_the_hosts_of_its_domain(store: Store, new_record: NewRecord) -> None:
    found = mail(new_record(), leads_to="i.imgur.com")
    for record in (found, mail(new_record(), leads_to="imgur.example.org")):
        await store.messages.record(record)
        await store.quarantine.hold(record)
    for text, evidence in (("imgur", Evidence()), ("Imgur", Evidence()), (None, Evidence(link_host="imgur"))):
        page = await store.messages.search(MessageFilter(anywhere=text, evidence=evidence))
        assert [row.ggrid for row in page.rows] == [found.ggrid], text
        held = await store.quarantine.search(HeldFilter(anywhere=text, evidence=evidence))
        assert [each.record.ggrid for each in held.rows] == [found.ggrid], text


def test_digests_are_few_and_short(new_record: NewRecord) -> None:
    plain = mail(new_record(), leads_to="a.b.c.evil.example", host="192.0.2.7")
    found = index_evidence(plain.detail)
    assert found is not None
    assert [len(each) for each in found.split(" ")] == [
        8
    ] * 6  # the host, four names of the link, and the label of its domain
    many = mail(new_record(), links=2_000)
    assert index_evidence(many.detail) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/x",
        "http://a.evil.example?x",
        "https://evil.example#x",
        "https://evil.example",
        "https://EVIL.example/",
        "https://evil.example:8443/x",
        "https://user@evil.example/x",
        "https://evil.example\\x",
        "https://evil.example./x",
        "https://127.1/x",
        "https://0x7f.0.0.1/",
        "https://[2001:db8::1]/x",
        "https://b\u00fccher.example/",
        "https:///x",
        "https://a..example/",
        "https://" + "a." * 200 + "example/",
        "nonsense",
    ],
)
def test_the_host_of_a_link_is_that_of_the_parser(url: str) -> None:
    parts = split_url(url)
    assert store_evidence._find_host(url) == (parts[0] if parts else "")
