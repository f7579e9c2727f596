"""A burst is near-copies to many recipients within the window, on all nodes together.

What people say of a text is known everywhere, and memory has an end.
"""

from tests.clock import Clock
from tests.guard.conftest import both_engines

from gatepost.analysis.report import Report
from gatepost.guard.answers.campaigns import MAX_RECIPIENTS, Campaigns
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.near_duplicates import Signature
from gatepost.questions import AskCampaign, Campaign
from gatepost.store.audit import Actor
from gatepost.store.campaigns import CampaignMark, HeldSignature
from gatepost.store.errors import StorageError
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store

TEXT = AskCampaign(tuple(range(1, 9)))
COPY = AskCampaign((*range(1, 8), 99))
OTHER = AskCampaign(tuple(range(11, 19)))


def to(name: str) -> Envelope:
    return Envelope("a@b.example", (f"{name}@c.example",))


def test_recipients_of_near_copies_are_counted() -> None:
    seen = Campaigns(clock=Clock())
    assert seen.answer(to("ann"), TEXT) == Campaign(0, 0)
    assert seen.answer(to("bob"), COPY) == Campaign(1, 1)
    assert seen.answer(to("cid"), OTHER) == Campaign(0, 0)
    assert seen.answer(to("dan"), TEXT) == Campaign(2, 2)


def test_the_same_recipient_again_is_no_burst() -> None:
    seen = Campaigns(clock=Clock())
    for _ in range(5):
        answer = seen.answer(to("Ann"), TEXT)
    assert answer == Campaign(4, 0)
    assert seen.answer(to("ann"), TEXT).recipients == 0


def test_a_trial_is_compared_and_not_remembered() -> None:
    seen = Campaigns(clock=Clock())
    assert seen.answer(to("ann"), TEXT, is_mail=False) == Campaign(0, 0)
    assert seen.answer(to("bob"), TEXT) == Campaign(0, 0)
    assert seen.answer(to("cid"), COPY, is_mail=False) == Campaign(1, 1)
    assert seen.answer(to("dan"), TEXT) == Campaign(1, 1)
    assert len(seen) == 2


def test_what_is_older_than_the_window_is_forgotten() -> None:
    clock = Clock()
    seen = Campaigns(clock=clock, window=100)
    seen.answer(to("ann"), TEXT)
    clock.now = 101
    assert seen.answer(to("bob"), TEXT) == Campaign(0, 0)
    assert len(seen) == 1


def test_memory_is_bounded() -> None:
    seen = Campaigns(clock=Clock(), maximum=10)
    for number in range(50):
        seen.answer(to(str(number)), AskCampaign(tuple(range(number * 8, number * 8 + 8))))
    assert len(seen) <= 10
    assert len(seen._seen._by_hash) <= 80


def test_copies_have_one_signature_in_memory() -> None:
    seen = Campaigns(clock=Clock())
    for name in ("ann", "bob", "cid"):
        seen.answer(to(name), AskCampaign(tuple(number << 40 for number in range(1, 9))))
    seen.answer(to("dan"), OTHER)
    assert len({id(each.signature) for each in seen._order}) == 2


def test_a_text_without_a_signature_is_not_remembered() -> None:
    seen = Campaigns(clock=Clock())
    seen.answer(to("ann"), AskCampaign(()))
    assert len(seen) == 0


ANN = Actor("user", "ann", "7")


def report(verdict: str = "phishing", decision: str = "quarantine", signature: Signature = TEXT.sketch) -> Report:
    return Report(verdict, decision, (), 0, "", signature=signature)  # type: ignore[arg-type]


def record(tenant: str | None = None) -> MessageRecord:
    envelope = Envelope("a@b.example", ("ann@c.example",), "192.0.2.1", "mx", tenant)
    return MessageRecord(new_id(), 1_000, 2_000, envelope, 10, "ab" * 32, report("clean", "deliver"))


@both_engines
async def test_a_burst_over_two_processes_is_one_burst(store: Store) -> None:
    one, two = Campaigns(store.campaigns), Campaigns(store.campaigns)
    for name in ("ann", "bob", "cid"):
        one.answer(to(name), TEXT)
    await one.share()
    assert two.answer(to("dan"), COPY) == Campaign(0, 0)
    await two.share()
    assert two.answer(to("eve"), COPY) == Campaign(4, 4)
    one.answer(to("fay"), TEXT)
    await one.share()
    await two.share()
    assert two.answer(to("gus"), COPY) == Campaign(6, 6), "what a process counts replaces what it had counted"
    await one.share()
    assert one.answer(to("hal"), TEXT).copies == 4 + 2, "no process counts what it stored itself"


@both_engines
async def test_mail_that_was_held_as_an_attack_is_known_everywhere(store: Store) -> None:
    one, two = Campaigns(store.campaigns), Campaigns(store.campaigns)
    tenant = new_id()
    one.learn(new_id(), tenant, report("spam"))
    one.learn(new_id(), tenant, report(decision="deliver"))
    await one.share()
    await two.share()
    assert two.answer(to("ann"), COPY).marked == ""
    one.learn(new_id(), None, report())
    await one.share()
    await two.share()
    assert two.answer(to("ann"), COPY).marked == "held"
    assert two.answer(to("ann"), OTHER).marked == ""


@both_engines
async def test_a_report_counts_for_its_tenant_or_for_all(store: Store) -> None:
    ours, theirs = new_id(), new_id()

    def ask(campaigns: Campaigns, tenant: str | None) -> str:
        return campaigns.answer(Envelope("a@b.example", ("x@c.example",), tenant=tenant), COPY).marked

    node = Campaigns(store.campaigns)
    first, second = record(ours), record(theirs)
    for each in (first, second):
        await store.messages.record(each)
    assert await store.feedback.report_wrong(first.ggrid, "should have been held", ANN, ours)
    await node.share()
    assert [ask(node, tenant) for tenant in (ours, theirs, None)] == ["unwanted", "", ""]
    assert await store.feedback.report_wrong(second.ggrid, "should have been held", ANN)
    await node.share()
    assert [ask(node, tenant) for tenant in (ours, theirs, None)] == ["unwanted"] * 3
    assert await store.feedback.report_wrong(first.ggrid, "should have been delivered", ANN, ours)
    await node.share()
    assert ask(node, ours) == "wanted", "the latest word counts"
    late = Campaigns(store.campaigns)
    await late.share()
    assert [ask(late, tenant) for tenant in (ours, theirs)] == ["wanted", "unwanted"], "a new node reads it all"
    await store.campaigns.purge(1 << 60, 1 << 60)
    fresh = Campaigns(store.campaigns)
    await fresh.share()
    assert ask(fresh, ours) == ""


@both_engines
async def test_what_people_say_goes_before_a_verdict(store: Store) -> None:
    node, message = Campaigns(store.campaigns), record()
    await store.messages.record(message)
    await store.feedback.report_wrong(message.ggrid, "should have been delivered", ANN)
    node.learn(new_id(), None, report())
    await node.share()
    assert node.answer(to("ann"), COPY).marked == "wanted"


@both_engines
async def test_a_report_that_was_taken_back_is_forgotten_by_nodes(store: Store) -> None:
    node, message, other = Campaigns(store.campaigns), record(), record()
    for each in (message, other):
        await store.messages.record(each)
    noted = await store.feedback.report_wrong(message.ggrid, "should have been held", ANN)
    assert noted
    await node.share()
    assert node.answer(to("ann"), COPY).marked == "unwanted"
    assert await store.feedback.take_back(message.ggrid, "should have been held", noted.before, ANN)
    late = Campaigns(store.campaigns)
    for one in (node, late):
        await one.share()
        await one.share()
        assert one.answer(to("ann"), COPY).marked == ""
        assert (one._marks, one._said) == ({}, {})
    # What another message of the campaign was reported as stands.
    await store.feedback.report_wrong(other.ggrid, "should have been delivered", ANN)
    again = await store.feedback.report_wrong(message.ggrid, "should have been held", ANN)
    assert again
    await node.share()
    assert node.answer(to("ann"), COPY).marked == "unwanted"
    await store.feedback.take_back(message.ggrid, "should have been held", again.before, ANN)
    await node.share()
    assert node.answer(to("ann"), COPY).marked == "wanted"


class OddStore:
    """A storage whose rows become visible out of order, and which can be away."""

    def __init__(self) -> None:
        self.stored: list[CampaignMark] = []
        self.held: list[HeldSignature] = []
        self.is_away = False

    async def first_mark(self, _most: int) -> int:
        return 0

    async def marks(self, after: int) -> tuple[CampaignMark, ...]:
        return tuple(sorted((mark for mark in self.stored if mark.id > after), key=lambda mark: mark.id))

    async def bursts(self, _process: str, _since: int) -> tuple[object, ...]:
        return ()

    async def mark_held(self, held: list[HeldSignature]) -> None:
        if self.is_away:
            raise StorageError("away")
        self.held += held


async def test_a_mark_that_is_committed_after_a_later_one_is_read() -> None:
    store, clock = OddStore(), Clock()
    node = Campaigns(store, clock)  # type: ignore[arg-type]
    store.stored.append(CampaignMark(6, None, "held", OTHER.sketch))
    await node.share()
    store.stored.append(CampaignMark(5, None, "unwanted", TEXT.sketch))
    clock.now += 1
    await node.share()
    assert node.answer(to("ann"), COPY).marked == "unwanted"
    for _ in range(40):
        clock.now += 1
        await node.share()
    assert node._settled == 6
    assert len(node._unsettled) < 20


async def test_what_could_not_be_stored_is_stored_later() -> None:
    store = OddStore()
    node, ggrid = Campaigns(store, Clock()), new_id()  # type: ignore[arg-type]
    node.learn(ggrid, None, report())
    store.is_away = True
    await node.share()
    store.is_away = False
    await node.share()
    assert [held.ggrid for held in store.held] == [ggrid]


async def test_the_copies_of_a_held_message_are_one_mark() -> None:
    store = OddStore()
    node = Campaigns(store, Clock())  # type: ignore[arg-type]
    other = new_id()
    for _ in range(3):
        node.learn(new_id(), None, report())
    await node.share()
    assert len(store.held) == 1
    store.stored.append(CampaignMark(1, None, "held", store.held[0].signature))
    await node.share()
    for signature in (TEXT.sketch, COPY.sketch):
        node.learn(new_id(), None, report(signature=signature))
    # Another tenant's mail has its own mark, and so has a text that shares only most of the hashes.
    node.learn(other, "t-1", report())
    node.learn(other, None, report(signature=(*TEXT.sketch[:6], 98, 99)))
    await node.share()
    assert [held.ggrid for held in store.held[1:]] == [other, other]


def test_memory_has_an_end_whatever_the_recipients_are() -> None:
    seen = Campaigns(clock=Clock(), maximum=200)
    many = Envelope("a@b.example", tuple(f"r{number}@c.example" for number in range(1_000)))
    for number in range(600):
        seen.answer(many, AskCampaign(tuple(range(number * 8, number * 8 + 8))))
    assert len(seen) == 200
    assert sum(len(each.recipients) for each in seen._order) == 200 * MAX_RECIPIENTS
    # A hash that only one message has, as nearly all do, has no dictionary of its own.
    assert len(seen._seen._by_hash) == 200 * 4
    assert not [each for each in seen._seen._by_hash.values() if isinstance(each, dict)]
    assert seen._counted == {}, "there is no storage that would take it"


def test_a_hash_that_had_two_messages_and_has_one_keeps_no_dictionary() -> None:
    """Else memory grows with mail that comes again, long after as many messages are remembered as may be."""
    seen = Campaigns(clock=Clock(), maximum=10)
    for number in range(100):
        text = AskCampaign(tuple(range(number % 9 * 8, number % 9 * 8 + 8)))
        seen.answer(to(str(number)), text)
    kept = list(seen._seen._by_hash.values())
    assert (len(seen), len(kept)) == (10, 9 * 4)
    assert sum(isinstance(each, dict) for each in kept) == 4, "one of the nine texts is there twice"
    assert seen.answer(to("late"), AskCampaign(tuple(range(8)))).copies in (1, 2)


def test_what_several_messages_share_is_found_and_forgotten() -> None:
    clock = Clock()
    seen = Campaigns(clock=clock, window=100)
    for number, text in enumerate((TEXT, COPY, TEXT)):
        assert seen.answer(to(f"r{number}"), text) == Campaign(number, number)
    clock.now = 200.0
    assert seen.answer(to("late"), AskCampaign(())) == Campaign(0, 0)
    assert seen._seen._by_hash == {}
