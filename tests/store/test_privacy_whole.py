"""After an erasure no table of either engine has the address: every value of every row is looked at, also packed."""

import base64
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from tests.store.conftest import Use
from tests.store.test_second_factors import run_sql

from gatepost.analysis.report import Report
from gatepost.cli.privacy_steps import Choices, PersonalData
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.mail.message import Envelope
from gatepost.policy.rules import OwnRule
from gatepost.settings.events import WebAlert
from gatepost.settings.feeds import WebFeed
from gatepost.store.audit import CLI, Actor
from gatepost.store.learning import TaughtMessage
from gatepost.store.lists import NewEntry
from gatepost.store.look_backs import LookBack
from gatepost.store.message_records import Delivery, MessageRecord
from gatepost.store.privacy import Person
from gatepost.store.publishing import DraftContent, VersionContent
from gatepost.store.recipients import RequestFilter
from gatepost.store.record_packing import compress, decompress
from gatepost.store.removed_mail import RemovedCopy, digest_mailbox
from gatepost.store.second_factors import NewSecurityKey, SecurityKey
from gatepost.store.sent_reports import ReportCount, SentReport
from gatepost.store.store import Store
from gatepost.store.users import User
from gatepost.times import now

ANN = "ann@example.org"
PSEUDONYM = "erased-1@erased.invalid"


async def fill(store: Store) -> None:
    """Ann in everything that people and mail can bring her into."""
    user = await store.users.create(ANN, "administrator", None, "hash", CLI)
    other = await store.users.create("root", "administrator", None, "hash", CLI)
    assert isinstance(user, User)
    assert isinstance(other, User)
    by = Actor("user", ANN, user.uid)
    held = []
    for sender, recipients in (
        ("bob@x.example", (ANN,)),
        ("bob@x.example", (ANN, "carol@x.example")),
        (ANN, ("carol@x.example",)),
        (ANN, ("carol@x.example",)),
    ):
        report = Report("spam", "quarantine", (), 700, f"it names {ANN}", senders=(sender,), subject=f"For {ANN}")
        header = compress(f"To: {ANN}\r\n".encode())
        record = MessageRecord(new_id(), 1, 2_000, Envelope(sender, recipients), 5, "ab" * 32, report, header=header)
        await store.messages.record(record)
        content = f"To: {ANN}\r\n\r\nx".encode() if store.quarantine.largest_content else None
        await store.quarantine.hold(record, content=content)
        said = f"550 5.1.1 <{ANN}>: no such user"
        await store.messages.record_deliveries([Delivery(record.ggrid, 2_000, "smtp://mx", 550, said)])
        held.append(record)
    await store.quarantine.delete(held[2].ggrid, by)
    hers = [NewEntry(ANN, ANN.title(), f"asked by {ANN}")]
    await store.lists.add(None, BY_NAME["blocked-senders"], hers, by, look_back=True)
    await store.lists.add(None, BY_NAME["blocked-senders"], [NewEntry("evil@x.example", "evil@x.example", "no")], by)
    await store.users.save_search(user.uid, "/messages", f"to {ANN}", "q=ann%40example.org")
    work = await store.bulk_actions.create(user.uid, "release", [held[0].ggrid])
    await store.bulk_actions.add_results(work.id, [f"550 {ANN}: no such user"])
    await store.secrets.rotate(CLI)
    await store.alerts.put("hers", WebAlert(kinds=("node.state",), recipients=(ANN, "b@x.example")), 0, by)
    await store.feeds.put_definition(
        "feed", WebFeed(list_name="blocked-senders", url="https://f.example/x"), 0, by, paused=True
    )
    preferences = (await store.digests.scope(None)).preferences
    await store.digests.put_preferences(None, preferences, 0, by)
    key = NewSecurityKey("credential", "x.example", b"key", 0, f"key of {ANN}", "usb")
    assert isinstance(await store.second_factors.add_security_key(user.uid, key, by), SecurityKey)
    await store.sessions.create(user.uid, "digest", 1 << 50, "192.0.2.1", f"agent of {ANN}", strong=True)
    provided = await store.users.admit_external(f"https://id.example {ANN}", ["Ann"], "analyst", None)
    assert isinstance(provided, User)
    assert await store.learning.add_reports(None, by, [TaughtMessage("m", b"\x01\x00", ANN, ANN)], unwanted=True)
    await fill_desk(store, by)
    await fill_digests(store, by)


async def fill_desk(store: Store, by: Actor) -> None:
    """Ann in what people do with mail of others, in what servers say of her, and in her mailbox."""
    theirs = []
    for _ in range(3):
        report = Report("spam", "quarantine", (), 700, "it adds up", subject="Hello")
        envelope = Envelope("bob@x.example", ("carol@x.example",))
        record = MessageRecord(new_id(), 1, 2_000, envelope, 5, "ab" * 32, report)
        await store.messages.record(record)
        await store.quarantine.hold(record)
        theirs.append(record.ggrid)
    await store.quarantine.delete(theirs[0], by, for_good=False)
    await store.quarantine.mark_released(theirs[1], [ANN], by)
    await store.quarantine.mark_released_to(theirs[2], "dora@x.example", by, "release")
    await store.quarantine.mark_released_to(theirs[2], ANN, Actor("user", "root"), "release")
    await store.feedback.report_wrong(theirs[2], "should have been delivered", by)
    mine = [(theirs[2], None)]
    await store.message_notes.add(mine, f"ask {ANN}", Actor("user", "root"))
    await store.message_notes.add(mine, "seen", by)
    copies = [
        RemovedCopy(theirs[2], digest_mailbox(ANN), "1", None, "moved", f"Users/{ANN}"),
        RemovedCopy(theirs[2], digest_mailbox("carol@x.example"), "", None, "failed", "", f"NO {ANN} may not"),
    ]
    await store.removed_mail.record(copies, by)
    search = f"to:{ANN}"
    await store.alerts.put("counted", WebAlert(search=search, count=5, minutes=5, url="https://a.example/x"), 0, by)
    await store.own_rules.put(None, "rule", OwnRule('spf == "fail"', "Title", "spam"), 0, by)
    await store.recipients.ask_for_release(theirs[2], None, "carol@x.example", f"{ANN} wants it")
    asked = (await store.recipients.requests(RequestFilter())).rows
    for each in asked:
        await store.recipients.decide(each.id, "denied", by, f"not for {ANN}")
    await store.recipients.ask_for_release(theirs[2], None, ANN, "mine")
    await store.recipients.put_entry(None, ANN, "shop@x.example", "allow", by)
    await store.recipients.put_entry(None, "carol@x.example", ANN, "block", by)
    await store.sent_reports.count([ReportCount(1, "example.org", "{}", 1)])
    await store.sent_reports.finish(SentReport(1, "example.org", "failed", 1, 0, 1, ANN, f"550 {ANN}: no"))
    made = LookBack(now(), ANN, 1, 30, 1, 1, ((theirs[2], ANN),))
    assert await store.look_backs.record(None, "blocked-senders", made)
    await store.publishing.publish(0, VersionContent({}, {}), f"for {ANN}", by)
    await store.publishing.put_draft(DraftContent(), 1, 0, by)


async def fill_digests(store: Store, by: Actor) -> None:
    """A digest for Ann that could not be sent."""
    moment = now()
    preferences = msgspec.structs.replace((await store.digests.scope(None)).preferences, enabled=True)
    await store.digests.put_preferences(None, preferences, (await store.digests.scope(None)).modified, by)
    job = await store.jobs.hold("digest", None, "holder", moment + 60_000)
    assert job
    assert await store.digests.begin_planning(job, moment + 60_000, moment)
    while await store.digests.plan(job, ["example.org"]):
        pass
    (digest,) = await store.digests.waiting(None)
    assert digest.address == ANN
    await store.digests.mark_failed(digest.id, 0, f"550 {ANN}: no such user")


def _name_columns(text: str) -> frozenset[str]:
    """`table: column column` on each line."""
    lines = (line.split(":") for line in text.strip().splitlines())
    return frozenset(f"{table.strip()}.{column}" for table, columns in lines for column in columns.split())


# What can have an address and is left as it is: the documentation says so.
LEFT = _name_columns("""
    alert_definitions: name
    api_keys: name
    config_draft: content
    config_versions: content
    digest_settings: settings
    feed_definitions: name settings
    lists: display_name description
    tenants: name
""")
# What goes with the row of a held message, and only where storage keeps the bytes.
WITH_ROW = _name_columns("""
    held_bytes: content
""")
# What cannot: ids, digests, secrets, closed sets, domains and hosts, numbers, texts of the program.
CANNOT = _name_columns("""
    api_keys: hash id last_address tenant
    audit: action actor_id actor_kind list scope
    bulk_actions: action id items user_uid
    campaign_bursts: process signature
    campaign_marks: ggrid says scope signature
    config_versions: digest
    deliveries: next_hop node queue_id
    departed: tenant
    digest_keys: secret
    digest_runs: after_ggrid scope
    digest_settings: scope
    digest_uses: digest item
    digests: id scope
    dismissed_items: name
    held: core ggrid holder sender_domain sha256 state tenant verdict
    held_bytes: ggrid
    held_recipients: domain ggrid
    held_search: decision evidence ggrid sender_domain tags
    jobs: detail holder kind outcome scope
    known_browsers: digest user_uid
    learnt_models: data figures look_back scope state
    list_prefixes: prefix
    lists: category kind name scope
    message_notes: ggrid id scope work
    message_search: decision evidence sender_domain tags tenant verdict
    messages: decision ggrid sha256 tags tenant verdict
    meta: key value
    nodes: detail id name
    recipient_entries: says scope
    recipient_releases: ggrid
    recipient_requests: ggrid id kind scope state
    recovery_codes: digest user_uid
    removed_mail: copy ggrid mailbox scope state
    report_counts: detail domain
    rollout: failed_node failed_reason
    rule_sets: scope
    saved_searches: id page shared user_uid
    scopes: scope
    security_keys: credential id public_key rp_id transports user_uid
    sent_reports: domain state
    sessions: address challenge csrf digest id provider_session user_uid
    sign_in_attempts: source user_uid
    tenant_domains: domain tenant
    tenants: uid
    token_uses: address name
    traffic: decision tenant verdict
    training_reports: domain features mailbox message scope source
    undecided: digest
    users: password role tenant totp_secret uid zone
""")


# Messages of a day are a table of their own in PostgreSQL.
_DAY = re.compile(r"_(?:d[0-9]+|before)\Z")


def list_text_columns(url: str) -> Iterator[str]:
    """Every column of the database that can hold a text."""
    for table, columns in list_columns(url).items():
        for column, kind in columns:
            if kind.lower() in ("text", "blob", "bytea", "jsonb", "text[]", "array"):
                yield f"{_DAY.sub('', table)}.{column}"


def list_columns(url: str) -> dict[str, list[tuple[str, str]]]:
    """The columns of every table, each with its type."""
    if url.startswith("sqlite:"):
        tables = [row[0] for row in run_sql(url, "SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: [(row[1], row[2]) for row in run_sql(url, f"PRAGMA table_info({table})")] for table in tables}
    columns: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in run_sql(
        url,
        "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'"
        " ORDER BY table_name, ordinal_position",
    ):
        columns.setdefault(table, []).append((column, kind))
    return columns


def list_values(url: str) -> list[tuple[str, str, Any]]:
    """Every value of the database with its table and column."""
    return [
        (table, column, value)
        for table, columns in list_columns(url).items()
        for row in run_sql(url, f'SELECT * FROM "{table}"')
        for (column, _), value in zip(columns, row, strict=True)
    ]


def open_value(value: Any) -> str:
    """A value as text, unpacked where it is packed."""
    if not isinstance(value, bytes):
        return str(value)
    texts = [value.decode("utf-8", "replace")]
    with contextlib.suppress(Exception):
        texts.append(decompress(value).decode("utf-8", "replace"))
    with contextlib.suppress(Exception):
        texts.append(repr(msgspec.msgpack.decode(value)))
    return " ".join(texts)


def find_traces(url: str) -> set[str]:
    """The tables and columns that have the address in any form."""
    forms = (ANN, ANN.replace("@", "%40"), base64.b64encode(ANN.encode()).decode()[:-2], "ann=example.org")
    return {
        f"{_DAY.sub('', table)}.{column}"
        for table, column, value in list_values(url)
        if any(form.casefold() in open_value(value).casefold() for form in forms)
    }


def test_nothing_is_left_of_an_address(use: Use, storage_url: str, tmp_path: Path) -> None:
    use(fill)
    before = find_traces(storage_url)
    known = before | LEFT | WITH_ROW | CANNOT
    assert set(list_text_columns(storage_url)) - known == set(), "can it have an address? `fill` it, or say why not"
    assert not before & CANNOT

    async def erase(store: Store) -> None:
        choices = Choices(PSEUDONYM, lists=True, users=True, held=True)
        whole = PersonalData(store, tmp_path, Person(ANN), choices, lambda _kind, _item: None)
        await whole.go_through()
        again = PersonalData(store, tmp_path, Person(ANN), choices, lambda _kind, _item: None)
        await again.go_through()
        assert not [kind for kind, tally in again.tallies.items() if tally.found]

    use(erase)
    assert find_traces(storage_url) == set()

    async def others(store: Store) -> None:
        alerts = {each.name: each.alert for each in await store.alerts.all()}
        assert alerts["hers"].recipients == ("b@x.example",)
        assert alerts["counted"].search == f"to:{PSEUDONYM}"
        assert (await store.own_rules.find(None)).version == 2, "nodes do not read the rules again"
        assert {user.name for user in await store.users.all()} == {"root"}

    use(others)
