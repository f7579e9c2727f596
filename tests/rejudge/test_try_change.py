"""What stored findings lead to with other lists, without the message."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import FileSeen, Line, ListNote, Report
from gatepost.analysis.stages import Context
from gatepost.auth.results import Authentication, Dmarc
from gatepost.findings.kinds import Finding
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME, make_custom_list
from gatepost.lists.entries import UnkeyedEntry
from gatepost.lists.rulings import Ruling, Subject
from gatepost.lists.unkeyed import CompiledLists, UnkeyedLists
from gatepost.mail.message import Envelope
from gatepost.policy.layers import Effective, Policies, override, unchanged_policies
from gatepost.policy.rules import shipped_policy
from gatepost.questions import DnsAnswer, Hit, Lookup, LookupAnswer
from gatepost.rejudge.judging import lists_then, rejudge, rule_by
from gatepost.rejudge.try_change import EFFORT, Change, ListEdit, Messages, Trying
from gatepost.store.message_records import MessageRecord

POLICY = shipped_policy()
MAIL = (
    b"From: Ann <ann@sender.example>\r\nTo: b@rcpt.example\r\nSubject: offer\r\nContent-Type: text/html\r\n\r\n"
    b'<p>wire it today</p><a href="https://evil.example/login">https://bank.example/</a>'
)
LINK = Subject("link", "https://evil.example/a/b", "html")
SUBJECTS = (
    Subject("envelope", "bounce@sender.example", "envelope"),
    Subject("from", "ann@sender.example", "From"),
    Subject("host", "192.0.2.1", "sending host"),
    LINK,
    Subject("file", "ab" * 32, "1.2"),
    Subject("type", "exe", "1.2"),
)

FILES = (
    FileSeen("1.2/a.zip", "zip", 9, "cd" * 32, ("a.zip",)),
    FileSeen("1.2/a.zip/Setup 7.PDF.exe", "pe", 9, "ab" * 32, ("x/Setup 7.PDF.exe",)),
)


def analysed(*hits: Hit, unkeyed: UnkeyedLists | None = None) -> Report:
    """A real analysis whose lists answer these hits."""
    context = Context(now=0.0, lists=CompiledLists(unkeyed or UnkeyedLists()))
    run = analyse(MAIL, Envelope("bounce@sender.example", ("b@rcpt.example",), "192.0.2.1"), context)
    questions = next(run)
    try:
        while True:
            answers: tuple[Any, ...] = tuple(
                LookupAnswer(hits) if isinstance(question, Lookup) else DnsAnswer("no-name") for question in questions
            )
            questions = run.send(answers)
    except StopIteration as stop:
        report: Report = stop.value
        return report


IOC = make_custom_list("ioc", "url", "block", "", "", 5)
CUSTOM = {"tenant:ioc": IOC.counts_as}
PHRASE = UnkeyedEntry("blocked-phrases", "global", "wire it today", "wire it today")


@pytest.mark.parametrize(
    "report",
    [
        analysed(),
        analysed(Hit("blocked-senders", "global", "sender.example", "no")),
        analysed(Hit("blocked-senders", "global", "sender.example"), Hit("allowed-ips", "tenant", "192.0.2.0/24")),
        analysed(Hit("allowed-senders", "global", "sender.example")),
        analysed(Hit("allowed-urls", "tenant", "evil.example")),
        analysed(Hit("blocked-urls", "global", "evil.example"), Hit("allowed-urls", "tenant", "evil.example/login")),
        analysed(unkeyed=UnkeyedLists(entries={"blocked-phrases": (PHRASE,)})),
        analysed(Hit("ioc", "tenant", "evil.example"), unkeyed=UnkeyedLists(custom={"tenant:ioc": "blocked-urls"})),
    ],
)
def test_judging_again_gives_the_same(report: Report) -> None:
    again = rejudge(report, POLICY, ruling_then(report))
    assert (again.verdict, again.decision, again.tags, again.score) == (
        report.verdict,
        report.decision,
        report.tags,
        report.score,
    )
    assert set(again.lists) == set(report.lists)
    assert [line.kind for line in again.lines] == [line.kind for line in report.lines]
    assert [line.counted for line in again.lines] == [line.counted for line in report.lines]


def ruling_then(report: Report) -> Ruling:
    standing = lists_then(report, CUSTOM)
    return rule_by(report, standing.matches, standing.custom)


def stored(
    verdict: Any = "clean", lines: tuple[Line, ...] = (), notes: tuple[ListNote, ...] = (), **more: Any
) -> Report:
    decision: Any = "deliver" if verdict == "clean" else "quarantine"
    aligned = Authentication(dmarc=Dmarc("pass", "sender.example", dkim_aligned=True))
    fields: dict[str, Any] = {"subjects": SUBJECTS, "authentication": aligned, "files": FILES} | more
    return Report(verdict, decision, (), 0, "", lines, lists=notes, **fields)


class Tried:
    """What a change of one list did to reports, one after the other; entries by their keys."""

    def __init__(self, edit: ListEdit, *reports: Report, custom: Mapping[str, str] = {}, effort: int = EFFORT) -> None:
        self.trying = Trying(Change((edit,)), unchanged_policies(), Messages(), effort)
        self._ask = partial(lists_then, custom=custom)
        for report in reports:
            self.consider(report)

    def consider(self, report: Report) -> None:
        record = MessageRecord(new_id(), 1, 2, Envelope(), 1, "00" * 32, report)
        self.trying.take([record], [self._ask])
        trial = self.trying.finish()
        self.considered, self.hit, self.flipped = trial.considered, trial.hit, trial.flipped
        self.hits = {key: count for (_, _, key), count in trial.hits.items()}
        self.flips = {key: count for (_, _, key), count in trial.entry_flips.items()}

    @property
    def exhausted(self) -> bool:
        return self.trying.effort <= 0


tried = Tried


def adding(name: str, *keys: str, scope: Any = "global") -> ListEdit:
    return ListEdit(BY_NAME[name], scope, keys)


@pytest.mark.parametrize(
    ("name", "key", "hits", "flips"),
    [
        ("blocked-senders", "ann@sender.example", 1, 1),
        ("blocked-senders", "bounce@sender.example", 1, 1),
        ("blocked-senders", "sender.example", 1, 1),
        ("blocked-senders", "other.example", 0, 0),
        ("allowed-senders", "ann@sender.example", 1, 0),
        # An allow is for the author, not for the envelope.
        ("allowed-senders", "bounce@sender.example", 0, 0),
        ("blocked-ips", "192.0.2.0/24", 1, 1),
        ("blocked-ips", "192.0.3.0/24", 0, 0),
        ("blocked-urls", "evil.example/a", 1, 1),
        ("blocked-urls", "evil.example/b", 0, 0),
        ("blocked-files", "ab" * 32, 1, 1),
        ("blocked-file-types", "exe", 1, 1),
        ("blocked-file-names", "setup*.exe", 1, 1),
        ("blocked-file-names", "*.pdf.exe", 1, 1),
        ("blocked-file-names", "setup.exe", 0, 0),
    ],
)
def test_what_an_entry_would_have_done(name: str, key: str, hits: int, flips: int) -> None:
    trial = tried(adding(name, key), stored())
    assert (trial.hits.get(key, 0), trial.flips.get(key, 0), trial.hit, trial.flipped) == (hits, flips, hits, flips)
    assert trial.considered == 1


def test_an_allow_flips_what_it_may_lift() -> None:
    report = analysed()
    assert report.decision == "quarantine", "the example has to be held for this"
    lifted = report.verdict in ("spam", "suspicious", "bulk")
    trial = tried(adding("allowed-ips", "192.0.2.1"), report)
    assert (trial.hit, trial.flipped) == (1, int(lifted))


def test_entries_count_alone_and_together() -> None:
    both = tried(adding("blocked-urls", "evil.example", "evil.example/a", "absent.example"), stored(), stored())
    assert (both.hits["evil.example"], both.hits["evil.example/a"], both.hits.get("absent.example", 0)) == (2, 2, 0)
    assert (both.hit, both.flipped) == (2, 2)


BLOCKED = ListNote("blocked-senders", "global", "sender.example", "blocked", "From")


def test_what_is_blocked_already_does_not_flip() -> None:
    report = stored("policy", notes=(BLOCKED,))
    assert tried(adding("blocked-senders", "sender.example"), report).flipped == 0
    assert tried(adding("blocked-urls", "evil.example"), report).flipped == 0
    trial = tried(adding("allowed-senders", "sender.example", scope="tenant"), report)
    assert (trial.hit, trial.flipped) == (1, 1), "a tenant's allow beats a global block of senders"
    assert tried(adding("allowed-senders", "sender.example"), report).flipped == 0, "in one scope it does not"


def test_a_deletion_flips_what_only_that_entry_held() -> None:
    change = ListEdit(BY_NAME["blocked-senders"], "global", ("sender.example",), adding=False)
    assert tried(change, stored("policy", notes=(BLOCKED,))).flipped == 1
    assert tried(change, stored()).flipped == 1, "as if it had been there all the time"
    other = ListNote("blocked-ips", "global", "192.0.2.1", "blocked", "sending host")
    phrase = ListNote("blocked-phrases", "global", "wire it", "blocked", "text")
    custom = ListNote("ioc", "tenant", "evil.example", "blocked", "html")
    for note in (other, phrase, custom):
        trial = tried(change, stored("policy", notes=(BLOCKED, note)), custom=CUSTOM)
        assert (trial.hit, trial.flipped) == (1, 0), note


def test_a_custom_list_counts_for_its_kind() -> None:
    change = ListEdit(IOC, "tenant", ("evil.example",))
    assert (tried(change, stored()).hit, tried(change, stored()).flipped) == (1, 1)


@pytest.mark.parametrize(
    ("name", "countable"),
    [("blocked-urls", True), ("blocked-file-types", True), ("blocked-file-names", True),
     ("blocked-phrases", False), ("own-domains", False),
     ("protected-people", False), ("protected-names", False), ("trusted-relays", False)],
)  # fmt: skip
def test_what_stored_keys_can_tell(name: str, countable: bool) -> None:
    assert BY_NAME[name].is_countable is countable


def test_names_that_patterns_block_already_do_not_flip() -> None:
    note = ListNote("blocked-file-names", "global", "setup*.exe", "blocked", "1.2/a.zip/Setup 7.PDF.exe")
    held = stored("policy", notes=(note,))
    assert ruling_then(held).blocks[0].hit.key == "setup*.exe"
    trial = tried(adding("blocked-file-names", "setup*.exe", "*.pdf.exe"), held)
    assert (trial.hit, trial.flipped) == (1, 0)
    change = ListEdit(BY_NAME["blocked-file-names"], "global", ("setup*.exe",), adding=False)
    assert (tried(change, held).hit, tried(change, held).flipped) == (1, 1)


def test_the_comparison_of_names_is_bounded() -> None:
    names = tuple("a" * 400 + str(number) for number in range(2_000))
    report = stored(files=(FileSeen("1.2", "zip", 9, "ab" * 32, names),))
    patterns = (f"*{'a' * (3 + number % 90)}b*{'a' * (3 + number // 90)}*" for number in range(500))
    trial = tried(adding("blocked-file-names", *patterns), report, effort=20_000)
    assert trial.exhausted


def test_the_work_is_bounded() -> None:
    """Two thousand links and five hundred entries that each cover another one: it stops, and says how far it came."""
    links = tuple(Subject("link", f"https://h{number}.example/", "html") for number in range(2_000))
    report = stored(subjects=links)
    trial = tried(adding("blocked-urls", *(f"h{number}.example" for number in range(500))), effort=20_000)
    seen = 0
    while not trial.exhausted:
        trial.consider(report)
        seen += 1
    assert 1 <= seen == trial.considered <= 3
    assert trial.hits["h7.example"] == seen


def test_what_a_model_finds_takes_the_place_of_what_it_found_then() -> None:
    kind = "text:learnt-unwanted"
    line = Line(kind, "It reads like mail that was reported", "text", {}, 45, 45, "spam", strength=0.1)
    heavier = override(POLICY, f'[kinds."{kind}"]\nweight = 20.0\n[groups.learnt]\ncap = 20.0\n')
    policies = Policies(Effective(heavier))
    change = Change(finds=lambda report: Finding(kind, "text", {}, 1.0) if report.subject else None)
    trying = Trying(change, policies, Messages())
    reports = (stored(subject="a"), stored(subject="b", lines=(line,)), stored(lines=(line,)))
    records = [MessageRecord(new_id(), 1, 2, Envelope(), 1, "00" * 32, report) for report in reports]
    trying.take(records, [partial(lists_then, custom={})] * 3)
    trial = trying.finish()
    assert (trial.considered, trial.flipped) == (3, 2)
    for tried in trial.flips:
        assert [each.weight[1] for each in tried.lines if each.tag == kind and each.weight[1] is not None] == [20.0]
