"""Searches by expressions, on both engines, on record and in the quarantine: exactly the messages that records say."""

import random

import msgspec
import pytest

from gatepost.analysis.report import FileSeen, Report
from gatepost.auth.results import Authentication
from gatepost.ids import new_id
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope
from gatepost.near_duplicates import compute_signature
from gatepost.store import held_search
from gatepost.store.engine import Write
from gatepost.store.held_search import HeldFilter
from gatepost.store.message_records import MessageRecord
from gatepost.store.search_conditions import MessageFilter, RecordFacts, fits
from gatepost.store.search_language import Expression, SearchFault, SearchPlace, parse_search
from gatepost.store.sql import Sql
from gatepost.store.store import Store

MINE, THEIRS = new_id(), new_id()
PLACE = SearchPlace(10_000_000, tenants={"mine": MINE, "theirs": THEIRS})
WORDS = """please confirm your payroll account before friday since the office of finance closes then and nobody will get
money this month unless you sign in with the link below and enter the code that we have sent to you by mail today"""


def make_record(number: int, chance: random.Random) -> MessageRecord:
    """A message of few values, so that every term finds some."""
    hosts = chance.sample(["login.evil.example", "i.imgur.com", "good.example", "192.0.2.9"], chance.randint(0, 2))
    files = [FileSeen("1", "pdf", 3, "ab" * 32, ("Invoice (1).pdf",))] if chance.random() < 0.3 else []
    words = WORDS.split()
    words[chance.randrange(len(words))] = f"w{'x' * number}"
    report = Report(
        chance.choice(["spam", "phishing", "clean"]),
        chance.choice(["quarantine", "deliver"]),
        tuple(chance.sample(["auth:dmarc-fail", "url:homograph", "rule:own"], 1)),
        chance.choice([0, 250, 499, 500, 501, 900]),
        "it adds up",
        authentication=Authentication(host=chance.choice(["192.0.2.7", "2001:db8::1", ""])),
        files=tuple(files),
        subject=chance.choice(["Your invoice 17", "Your INVOICE 4", "Lunch on Friday", "سلام"]),
        senders=(chance.choice(["ann@mail.bank.example", "bob@shop.example"]),),
        sender_names=(chance.choice(["Ann Bank", "PayPal Service"]),),
        subjects=tuple(Subject("link", f"https://{host}/{chance.choice(['login/x', 'a'])}", "1") for host in hosts),
        message_id=f"<{number}@x>",
        signature=compute_signature(words) if chance.random() < 0.5 else (),
    )
    recipients = [chance.choice(["carol@corp.example", "dave@other.example"])]
    if chance.random() < 0.2:
        recipients = [f"r{each}@many.example" for each in range(30)] + recipients
    tenant = chance.choice([None, MINE, THEIRS])
    envelope = Envelope(chance.choice(["", "x@send.example", "ann@bank.example"]), tuple(recipients), tenant=tenant)
    return MessageRecord(new_id(), 1_000, 2_000 + number * 1_000, envelope, 99, "cd" * 32, report)


QUERIES = (
    *("from:ann@mail.bank.example", "from:bank.example", "from:paypal", "from:x@send.example", 'sender:""'),
    *("to:carol@corp.example", "to:corp.example", "to:r29@many.example", "to:r1", "domain:bank.example"),
    *("host:evil.example", "host:imgur", "host:192.0.2.9", "url:evil.example/login", "url:login.evil.example/login/x"),
    *('file:"invoice (1).pdf"', f"sha256:{'ab' * 32}", "ip:192.0.2.7", "subject:invoice", 'subject:"your invoice"'),
    *("tag:auth:dmarc-fail", "tag:rule:", "verdict:phishing", "decision:deliver", "score>5", "score<=5", "score>=9"),
    *("message-id:<3@x>", "invoice", "imgur", "carol@corp.example", "bank.example", "سلام", "friday"),
    *("after:1970-01-01T00:00:20Z", "before:1970-01-01T00:00:20Z"),
)
WHOLE = ("tenant:mine", "tenant:theirs")


def compose(chance: random.Random, depth: int = 0) -> str:
    if depth > 2 or chance.random() < 0.35:
        return chance.choice(QUERIES)
    one, other = compose(chance, depth + 1), compose(chance, depth + 1)
    return chance.choice([f"({one}) ({other})", f"({one} OR {other})", f"NOT ({one}) ({other})", f"NOT ({one})"])


def parse(text: str) -> Expression:
    found = parse_search(text, PLACE)
    assert not isinstance(found, SearchFault), (text, found)
    return found


async def on_record(store: Store, expression: Expression, limit: int) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await store.messages.search(MessageFilter(query=expression), cursor, limit)
        found += [row.ggrid for row in page.rows]
        cursor = page.next
        if cursor is None:
            return found


async def held(store: Store, expression: Expression, limit: int) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await store.quarantine.search(HeldFilter(query=expression), cursor, limit)
        found += [row.record.ggrid for row in page.rows]
        cursor = page.next
        if cursor is None:
            return found


def forget_digests():  # type: ignore[no-untyped-def]
    yield Write(Sql("UPDATE message_search SET evidence = NULL, score = NULL WHERE id % 3 = 0"))
    yield Write(Sql("DELETE FROM held_search WHERE substr(ggrid, 36) = '1'"))


@pytest.mark.parametrize(
    ("seed", "quick"), [(1, 2), *(pytest.param(*each, marks=pytest.mark.variant) for each in ((2, 4), (2, 4_000)))]
)
async def test_a_search_finds_what_records_say(
    store: Store, seed: int, quick: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    # So few rows are looked up before all texts are read at once.
    monkeypatch.setattr(held_search, "QUICK_ROWS", quick)
    monkeypatch.setattr(held_search, "PROBED_ROWS", quick)
    records = [make_record(number, chance) for number in range(30)]
    texts = [*QUERIES, *WHOLE, *(f"{compose(chance)} {chance.choice(['', *WHOLE])}" for _ in range(30))]

    kept: dict[str, int] = {}
    for record in records:
        await store.messages.record(record)
        await store.quarantine.hold(record)
        mail = await store.quarantine.find(record.ggrid)
        assert mail
        kept[record.ggrid] = mail.kept
    for round_ in ("indexed", "older than the index"):
        for text in texts:
            expression = parse(text)
            wanted = {
                each.ggrid for each in records if fits(expression, RecordFacts(each.ggrid, each.completed, each.detail))
            }
            found = await on_record(store, expression, chance.choice([3, 100]))
            assert len(found) == len(set(found)), text
            assert set(found) == wanted, (round_, text)
            count = await store.messages.count(MessageFilter(query=expression))
            assert count.messages <= len(wanted) or "url:" in text, (round_, text)
            if round_ == "indexed" and "url:" not in text and not count.more:
                assert count.messages == len(wanted), text
            now_held = {
                each.ggrid
                for each in records
                if fits(expression, RecordFacts(each.ggrid, kept[each.ggrid], each.detail))
            }
            assert set(await held(store, expression, chance.choice([3, 100]))) == now_held, (round_, text)
            if round_ == "indexed" and "url:" not in text:
                counted = await store.quarantine.count(HeldFilter(query=expression))
                seen = await store.quarantine.explore(HeldFilter(query=expression))
                assert counted.messages == seen.counted == len(now_held), text
        await store._engine.change(forget_digests)
    # What has no row of the index gets one with the next purge.
    await store.quarantine.purge(0)
    counted = await store.quarantine.count(HeldFilter(query=parse("verdict:phishing")))
    assert counted.messages == sum(each.report.verdict == "phishing" for each in records)


async def test_a_campaign_is_joined_by_text_file_or_subject(store: Store) -> None:
    chance = random.Random(5)
    seed = make_record(0, chance)
    text = WORDS.split()

    def like(number: int, **changes: object) -> MessageRecord:
        blank = Report(
            "spam", "quarantine", (), 100, "", subject=f"Other {new_id()}", senders=(f"s{number}@s.example",)
        )
        report = msgspec.structs.replace(blank, **changes)
        envelope = Envelope("n@n.example", ("c@d.example",), tenant=MINE)
        return msgspec.structs.replace(seed, ggrid=new_id(), completed=5_000 + number, envelope=envelope, report=report)

    pdf = FileSeen("1", "pdf", 3, "12" * 32, ("x.pdf",))
    logo = FileSeen("2", "png", 3, "34" * 32, ("logo.png",))
    link = Subject("link", "https://a.evil.example/1", "1")
    first = like(
        1,
        subject="Invoice 1234",
        signature=compute_signature(text),
        files=(pdf, logo),
        subjects=(link,),
        senders=("one@a.example",),
    )
    text[5] = "wages"
    members = [
        like(2, signature=compute_signature(text)),
        like(3, files=(pdf,)),
        like(4, subject="INVOICE 99", subjects=(link,)),
        like(5, subject="invoice", senders=("one@a.example",)),
    ]
    others = [
        like(6, files=(logo,)),
        like(7, subject="Invoice 5"),
        like(8, subjects=(link,)),
        like(
            9, signature=compute_signature([f"other{each}" if each.isalpha() else each for each in WORDS.split()][::-1])
        ),
    ]

    for record in (first, *members, *others):
        await store.messages.record(record)
        await store.quarantine.hold(record)
    asked = f"campaign:{first.ggrid}"
    found = await store.messages.read_search(asked, PLACE, None)
    assert not isinstance(found, SearchFault)
    expected = {each.ggrid for each in (first, *members)}
    assert set(await on_record(store, found, 100)) == expected
    assert set(await held(store, found, 100)) == expected
    assert isinstance(await store.messages.read_search(asked, PLACE, THEIRS), SearchFault)
    assert isinstance(await store.messages.read_search(f"campaign:{new_id()}", PLACE, None), SearchFault)
