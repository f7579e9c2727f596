"""Precedence of lists, and the limits of what an allow may do."""

import pytest

from gatepost.analysis.verdict import Judgement, judge
from gatepost.findings.kinds import Finding
from gatepost.lists.rulings import Ruling, Subject, rule_on
from gatepost.policy.rules import shipped_policy
from gatepost.questions import Hit, Scope

SUBJECTS = (
    Subject("envelope", "bounce@mailer.example", "envelope"),
    Subject("from", "ann@shop.example", "From"),
    Subject("host", "192.0.2.9", "sending host"),
    Subject("link", "https://a.example/x", "1"),
    Subject("link", "https://b.example/y", "1"),
    Subject("file", "a" * 64, "2/a.zip"),
    Subject("type", "docm", "2/a.docm"),
)


def ruled(*hits: tuple[str, Scope, str], authenticated: bool = True, custom: dict[str, str] | None = None) -> Ruling:
    return rule_on([Hit(*hit) for hit in hits], SUBJECTS, authenticated=authenticated, custom=custom)


def names(ruling: Ruling) -> tuple[list[str], list[str], list[str], list[str]]:
    return (
        [match.hit.list for match in ruling.blocks],
        [match.hit.list for match in ruling.allows],
        [match.hit.list for match in ruling.cleared],
        [match.hit.list for match, _ in ruling.refused],
    )


BS, AS, BI, AI = "blocked-senders", "allowed-senders", "blocked-ips", "allowed-ips"
BU, AU, BF, AF = "blocked-urls", "allowed-urls", "blocked-files", "allowed-files"


@pytest.mark.parametrize(
    ("hits", "blocks", "allows", "cleared", "refused"),
    [
        ([(BS, "global", "shop.example")], [BS], [], [], []),
        ([(BS, "global", "mailer.example")], [BS], [], [], []),
        ([(AS, "global", "mailer.example")], [], [], [], []),  # the envelope sender is not allowed, only From is
        ([(AS, "global", "shop.example")], [], [AS], [], []),
        ([(BS, "global", "shop.example"), (AS, "global", "ann@shop.example")], [BS], [], [], [AS]),
        ([(BS, "tenant", "shop.example"), (AS, "tenant", "ann@shop.example")], [BS], [], [], [AS]),
        ([(BS, "global", "shop.example"), (AS, "tenant", "shop.example")], [], [AS], [], [BS]),
        ([(BS, "tenant", "shop.example"), (AS, "global", "shop.example")], [BS], [], [], [AS]),
        ([(BI, "global", "192.0.2.0/24"), (AI, "tenant", "192.0.2.9")], [], [AI], [], [BI]),
        ([(BI, "global", "192.0.2.0/24"), (AS, "tenant", "shop.example")], [BI], [AS], [], []),  # another pair stands
        ([(BU, "global", "a.example"), (AU, "tenant", "a.example")], [BU], [], [], [AU]),  # not for links
        ([(BU, "global", "b.example"), (AU, "global", "a.example")], [BU], [], [AU], []),  # link by link
        ([(BF, "global", "a" * 64), (AF, "tenant", "a" * 64)], [BF], [], [], [AF]),
        ([("blocked-file-types", "global", "docm")], ["blocked-file-types"], [], [], []),
        ([(BS, "global", "other.example")], [], [], [], []),
    ],
)
def test_precedence(
    hits: list[tuple[str, Scope, str]], blocks: list[str], allows: list[str], cleared: list[str], refused: list[str]
) -> None:
    assert names(ruled(*hits)) == (blocks, allows, cleared, refused)


def test_an_allowed_sender_must_prove_itself() -> None:
    ruling = ruled((AS, "tenant", "shop.example"), authenticated=False)
    assert names(ruling) == ([], [], [], [AS])
    assert "not authenticated" in ruling.refused[0][1]


def test_an_allowed_host_vouches_for_an_allowed_sender() -> None:
    ruling = ruled((AS, "tenant", "shop.example"), (AI, "global", "192.0.2.9"), authenticated=False)
    assert names(ruling)[1] == [AS, AI]


def test_a_refused_allow_does_not_beat_a_block() -> None:
    ruling = ruled((BS, "global", "shop.example"), (AS, "tenant", "shop.example"), authenticated=False)
    assert names(ruling) == ([BS], [], [], [AS])


def test_custom_lists_count_for_the_usual_one_of_their_kind_and_category() -> None:
    assert names(ruled(("our-list", "tenant", "a.example"), custom={"tenant:our-list": BU}))[0] == ["our-list"]
    assert names(ruled(("friends", "tenant", "shop.example"), custom={"tenant:friends": AS}))[1] == ["friends"]
    assert names(ruled(("sites", "tenant", "a.example"), custom={"tenant:sites": AU}))[2] == ["sites"]
    # The envelope sender is not allowed by a custom list either.
    assert names(ruled(("friends", "tenant", "mailer.example"), custom={"tenant:friends": AS}))[1] == []
    # A list of that name in the other scope is another list.
    assert names(ruled(("friends", "global", "shop.example"), custom={"tenant:friends": AS}))[1] == []
    assert ruled(("useless", "tenant", "a.example"), custom={"tenant:useless": ""}) == Ruling()


def test_a_list_of_links_says_nothing_about_senders() -> None:
    """The domain alone is the same key in both, but not the same entry."""
    assert ruled(("sites", "tenant", "shop.example"), custom={"sites": AU}) == Ruling()
    assert ruled(("feed", "global", "shop.example"), custom={"feed": BU}) == Ruling()
    assert ruled(("senders", "global", "a.example"), custom={"senders": BS}) == Ruling()


SUSPICIOUS = [Finding("file:executable", "2/a.exe", about="b" * 64)]
ALLOWED: tuple[str, Scope, str] = (AS, "tenant", "shop.example")


def judged(findings: list[Finding], *hits: tuple[str, Scope, str]) -> Judgement:
    return judge(findings, (), shipped_policy(), ruled(*hits))


@pytest.mark.parametrize(
    ("findings", "hits", "verdict"),
    [
        (SUSPICIOUS, [], "suspicious"),
        (SUSPICIOUS, [ALLOWED], "clean"),
        ([Finding("bulk:unsubscribe", "x")], [ALLOWED], "clean"),
        ([Finding("file:encrypted-archive", "2")], [], "unscannable"),
        ([Finding("file:encrypted-archive", "2")], [ALLOWED], "clean"),
        ([Finding("limit:archive-depth", "2")], [ALLOWED], "unscannable"),
        ([Finding("auth:dmarc-reject", "From")], [ALLOWED], "spoofing"),
        ([Finding("file:eicar", "2", about="a" * 64)], [ALLOWED], "malware"),
        ([Finding("file:eicar", "2", about="a" * 64)], [(AF, "tenant", "a" * 64)], "clean"),
        ([Finding("file:eicar", "2", about="c" * 64)], [(AF, "tenant", "a" * 64)], "malware"),
        ([], [(BS, "global", "shop.example")], "policy"),
        ([Finding("file:eicar", "2", about="a" * 64)], [(BS, "global", "shop.example")], "malware"),
        ([], [(BI, "global", "192.0.2.9"), ALLOWED], "policy"),
    ],
)
def test_what_an_allow_may_lift(findings: list[Finding], hits: list[tuple[str, Scope, str]], verdict: str) -> None:
    assert judged(findings, *hits).verdict == verdict


def test_an_allowed_link_clears_its_own_findings_only() -> None:
    on_a = Finding("url:text-mismatch", "1", about="https://a.example/x")
    on_b = Finding("url:ip-host", "1", about="https://b.example/y")
    lines = {line.kind: line for line in judged([on_a, on_b], (AU, "tenant", "a.example")).lines}
    assert lines["url:text-mismatch"].counted == 0
    assert "allowed-urls: a.example" in lines["url:text-mismatch"].note
    assert lines["url:ip-host"].counted == lines["url:ip-host"].weight > 0


def test_what_is_lifted_keeps_its_tags_and_says_why() -> None:
    judgement = judged(SUSPICIOUS, ALLOWED)
    assert judgement.tags == ("file:executable", "list:allowed-senders")
    assert "allowed-senders: shop.example (tenant)" in judgement.reason
    assert sum(line.counted for line in judgement.lines) == judgement.score
    assert [(note.list, note.effect) for note in judgement.lists] == [("allowed-senders", "allowed")]
