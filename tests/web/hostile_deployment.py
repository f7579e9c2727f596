"""A deployment in which every stored text is hostile, for tests that open every page of it.

Whoever writes such text differs: senders of mail, recipients, next hops, feeds, tenants, colleagues, other nodes. What
would do something by itself (rules, feeds, alerts) is switched off or aims at nothing.
"""

import time

import msgspec

from gatepost.analysis.report import FileSeen, Line, ListNote, Outcome, Report
from gatepost.ids import new_id
from gatepost.learning.sealed_training import Proof, Side
from gatepost.lists.catalogue import BY_NAME
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope
from gatepost.policy.rules import OwnRule
from gatepost.process.health import Health, Reason
from gatepost.settings.events import WebAlert
from gatepost.settings.feeds import WebFeed
from gatepost.store.audit import CLI, Actor, AuditFilter
from gatepost.store.digests import DigestPreferences
from gatepost.store.feeds import FEED, FeedRecord
from gatepost.store.lists import NewEntry
from gatepost.store.look_backs import LookBack
from gatepost.store.message_records import Delivery, MessageRecord
from gatepost.store.publishing import DraftContent, NodeDetail, VersionContent
from gatepost.store.store import Store
from gatepost.store.tenants import Tenant

KIND = "text:urgency"


def hostile_report(text: str) -> Report:
    """A report with the text in every field that a stranger can write."""
    return Report(
        "spam",
        "quarantine",
        (KIND,),
        730,
        f"reason {text}",
        lines=(Line(KIND, "title", text, {"words": text}, 730, 730, "spam", note=text, about=text),),
        subject=f"subject {text}",
        senders=(f"{text}@example.org",),
        sender_names=(text,),
        lists=(ListNote("blocked-urls", "global", text, "blocked", text, text, text),),
        subjects=(Subject("from", f"{text}@example.org", text), Subject("link", f"http://x.example/{text}", "1")),
        files=(FileSeen(text, text, 1, "ab" * 32, (text,), text),),
        outcomes=(Outcome(text, "failed", text),),
        overrides=(text,),
        message_id=f"{text}@example.org",
    )


async def fill_with_hostile_text(store: Store, text: str, user: str) -> dict[str, str]:
    """Write the text wherever something is stored; returns what stands for the parts of paths. `user` has the searches
    and the work."""
    tenant = await store.tenants.create(f"tenant {text} {new_id()}")
    assert isinstance(tenant, Tenant)
    ggrid = await _hold(store, text)
    await store.users.create(f"user {text} {new_id()}", "analyst", tenant.uid, "hash", CLI)
    await store.api_keys.create(f"key {text}", tenant.uid, False, None)
    work = await store.bulk_actions.create(user, "release", [ggrid])
    await store.message_notes.add([(ggrid, None)], f"note {text}", CLI)
    await store.users.save_search(user, "/messages", f"search {text}", "q=x")
    await store.users.save_search(user, "/quarantine", f"search {text}", "q=x")
    return {
        **await _fill_lists(store, text, ggrid),
        **await _fill_operation(store, text),
        "ggrid": ggrid,
        "uid": tenant.uid,
        "scope": "global",
        "kind": KIND,
        "index": "0",
        "id": work.id,
    }


async def _hold(store: Store, text: str) -> str:
    """A held message with all that is known of its way, and what its recipients want."""
    now = int(time.time() * 1000)
    recipients = (f"{text}@example.com", "bob@example.com")
    envelope = Envelope(f"{text}@example.org", recipients, "192.0.2.7", text[:250])
    record = MessageRecord(new_id(), now - 20, now, envelope, 512, "ab" * 32, hostile_report(text))
    await store.messages.record(record)
    await store.quarantine.hold(record)
    await store.messages.record_deliveries([Delivery(record.ggrid, now, text, 550, text, text, text)])
    for address in recipients:
        await store.recipients.ask_for_release(record.ggrid, None, address, text)
        await store.recipients.put_entry(None, address, f"{text}@example.org", "allow", Actor("recipient", address))
    return record.ggrid


async def _fill_lists(store: Store, text: str, ggrid: str) -> dict[str, str]:
    definition = msgspec.structs.replace(
        BY_NAME["blocked-urls"], name=f"custom-{new_id()[:8]}", display_name=text, description=text, custom=True
    )
    await store.lists.create(None, definition, CLI)
    entry = NewEntry("hostile.example", f"hostile.example {text}", text)
    await store.lists.add(None, definition, [entry], CLI)
    found = LookBack(int(time.time() * 1000), f"key:{text}", 1, 7, 10, 1, ((ggrid, text),))
    await store.look_backs.record(None, definition.name, found)
    changed = (await store.audit.page(AuditFilter(action="entries.add", list=definition.name))).rows[0]
    name, feed = f"feed-{new_id()[-8:]}", WebFeed(definition.name, url=f"https://x.invalid/{text}", column=text)
    await store.feeds.put_definition(name, feed, 0, Actor("user", text), paused=True)
    record = FeedRecord(None, definition.name, result="failed", message=text)
    async with store.jobs.take(FEED, name) as held:
        assert held
        await store.feeds.finish(held.job, record, 1 << 50, audited=True)
    return {"name": definition.name, "entry": "hostile.example", "number": str(changed.id)}


async def _fill_operation(store: Store, text: str) -> dict[str, str]:
    """Rules, alerts, digests, nodes, models, versions and a draft."""
    by = Actor("user", text)
    version = (await store.own_rules.find(None)).version
    await store.own_rules.put(None, "hostile", OwnRule("false", text, "spam"), version, by, enabled=False)
    alert = WebAlert(("quarantine.full",), recipients=(f"{text}@x.invalid",), url=f"https://x.invalid/{text}")
    await store.alerts.put(text, alert, 0, by)
    await store.digests.put_preferences(None, DigestPreferences(intro=text, domains=(text,)), 0, by)
    health = Health("RED", (Reason(text, "RED", text, text, text),))
    await store.publishing.put_node(
        new_id(),
        text,
        NodeDetail(health=health, error=text, program=text),
    )
    proof = Proof(40, 20, 20, Side(4, 4, 4, 0), Side(4, 0, 4, 0), 174, taken=True, reason=text)
    version = await store.learning.keep_model(None, msgspec.json.encode(proof), b"", CLI)
    content = VersionContent({"guard.yml": {"log": text}}, {"policy/deployment.toml": text.encode()})
    # Another test of the same service may have published something before.
    running = (await store.publishing.rollout()).wanted
    info = await store.publishing.publish(running, content, text, CLI)
    assert info
    published = info.number
    # Back to the files of the node, which can be edited.
    await store.publishing.fail_rollout("node", text, published, 0, text)
    item = {"domains": [text, text], "nextHop": {text: text}, "tls": text, "tagSeparator": text}
    packed = msgspec.json.encode([item]).decode()
    settings = {
        "guard.yml history.retention": text,
        "guard.yml delivery.routes": packed,
        "guard.yml recipientVerification.rules": packed,
        "abby.yml signIn.secondFactorTenants": msgspec.json.encode([text]).decode(),
    }
    if earlier := await store.publishing.draft():
        await store.publishing.discard_draft(earlier.revision, by)
    assert await store.publishing.put_draft(DraftContent(settings, {"": text}), 0, 0, by)
    return {"version": str(version), "published": str(published), "item": "0"}
