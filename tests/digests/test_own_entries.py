"""What recipients allow and block for themselves, as an analysis meets it."""

import asyncio
from pathlib import Path

from tests.store.accounts import new_tenant

from gatepost.analysis.report import ListNote, Report
from gatepost.guard.answers.lists import ListAnswers
from gatepost.ids import new_id
from gatepost.lists.rulings import Subject, rule_on
from gatepost.questions import Hit, Lookup
from gatepost.store import open_store
from gatepost.store.audit import CLI
from gatepost.store.digests import DigestPreferences

SENDER = "ann@x.example"
FROM = Subject("from", SENDER, "From")
ASKED = Lookup((("sender", (SENDER,)),))


def hit(name: str, scope: str) -> Hit:
    return Hit(name, scope, SENDER)  # type: ignore[arg-type]


def test_the_words_of_the_operator_and_of_the_tenant_stand_above_an_allow() -> None:
    own = hit("allowed-senders", "recipient")
    assert [each.hit for each in rule_on([own], [FROM], authenticated=True).allows] == [own]
    assert rule_on([own], [FROM], authenticated=False).allows == (), "it has to be the sender"
    for scope in ("global", "tenant"):
        block = hit("blocked-senders", scope)
        ruling = rule_on([own, block], [FROM], authenticated=True)
        assert ([each.hit for each in ruling.blocks], ruling.allows) == ([block], ())


def test_a_block_of_a_recipient_stands_above_the_allow_of_the_tenant() -> None:
    own = hit("blocked-senders", "recipient")
    ruling = rule_on([own, hit("allowed-senders", "tenant")], [FROM], authenticated=True)
    assert ([each.hit for each in ruling.blocks], ruling.allows) == ([own], ())


def test_they_count_where_nobody_else_gets_the_message(tmp_path: Path) -> None:
    async def run() -> None:
        store = open_store(f"sqlite:{tmp_path / 'g.db'}", tmp_path)
        made = await new_tenant(store, new_id())
        tenant = made.uid
        answers = ListAnswers(store)
        before = (await answers.snapshot(tenant)).version
        assert (await answers.answer(tenant, ASKED, ["bob@y.example"])).hits == ()
        await store.digests.put_preferences(tenant, DigestPreferences(enabled=True, own_entries=True), 0, CLI)
        await store.recipients.put_entry(tenant, "Bob@y.example", SENDER, "block", CLI)
        assert (await answers.snapshot(tenant)).version != before, "workers learn that senders have to be asked about"
        assert "sender" in (await store.list_lookup.unkeyed(tenant)).keyed
        assert [each.scope for each in (await answers.answer(tenant, ASKED, ["bob@y.example"])).hits] == ["recipient"]
        for others in ([], ["cy@y.example"], ["bob@y.example", "cy@y.example"]):
            assert (await answers.answer(tenant, ASKED, others)).hits == ()
        assert (await answers.answer(None, ASKED, ["bob@y.example"])).hits == (), "they are the tenant's"
        note = ListNote("blocked-senders", "recipient", SENDER, "blocked", "From")
        answers.count(tenant, Report("policy", "quarantine", (), 0, "", lists=(note,)))
        assert answers._counts == {}, "they are no entries of a list, which has hits"
        await store.close()

    asyncio.run(run())
