"""DMARC beyond the table of RFC 9989: how records are read, what stays open after a failure, what an attack costs."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.asking import run_asking
from tests.auth.resolver import Resolver

from gatepost.auth.dmarc import (
    MAX_AUTHORS,
    MAX_SIGNERS,
    MAX_WALK,
    discover,
    evaluate,
    list_author_domains,
    list_walk,
)
from gatepost.auth.dmarc_record import DmarcRecord, is_dmarc, parse_record
from gatepost.auth.results import Dkim, Dmarc, Spf
from gatepost.questions import Asking, DnsAnswer

NO_SPF = Spf()
REJECT = {"TXT _dmarc.example.com": "v=DMARC1; p=reject"}


def judged(author: str, spf: Spf = NO_SPF, dkim: tuple[Dkim, ...] = ()) -> Asking[Dmarc]:
    authors = list_author_domains(author.split())
    records = yield from discover(authors)
    return (yield from evaluate(authors, spf, dkim, records))


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ("v=DMARC1", DmarcRecord()),
        ("v=DMARC1;", DmarcRecord()),
        ("v=DMARC1; p=reject", DmarcRecord("reject", "reject", "reject")),
        ("v=DMARC1;p=reject;sp=quarantine;np=none", DmarcRecord("reject", "quarantine", "none")),
        ("v=DMARC1; p=reject; p=none", DmarcRecord("reject", "reject", "reject")),
        ("v=DMARC1; p=none; sp=reject", DmarcRecord("none", "reject", "reject")),
        ("v=DMARC1; adkim=s; aspf=r", DmarcRecord(strict_dkim=True)),
        ("v=DMARC1; adkim=r; aspf= S ", DmarcRecord(strict_spf=True)),
        ("v=DMARC1; psd=Y", DmarcRecord(psd="y")),
        ("v=DMARC1; psd=n; t=Y", DmarcRecord(psd="n", testing=True)),
        ("v=DMARC1; p=reject; sp=oops", DmarcRecord(applies=False)),
        ("v=DMARC1; p=reject; sp=oops; rua=mailto:a@b.example", DmarcRecord()),
        ("v=DMARC1; p=; rua=x, https://b.example/r", DmarcRecord()),
        ("v=DMARC1; p=reject; rua=;;;=;=x;y=", DmarcRecord("reject", "reject", "reject")),
        ("v=DMARC1; " + "x=1;" * 200 + "p=reject", DmarcRecord()),  # past the bound on tags
    ],
)
def test_reading(text: str, record: DmarcRecord) -> None:
    assert is_dmarc(text)
    assert parse_record(text) == record


@pytest.mark.parametrize(
    "text", ["", "v=DMARC1x", " v=DMARC1", "v=DMARC2", "V=dmarc1", "v=spf1", "v=DMARC1;" + "x" * 9_000]
)
def test_not_a_record(text: str) -> None:
    assert not is_dmarc(text)


@pytest.mark.parametrize(
    ("spf", "dkim", "result"),
    [
        (Spf("temperror", "example.com"), (), "temperror"),
        (Spf("temperror", "mail.example.com"), (), "temperror"),
        (Spf("temperror", "down.evil.example"), (), "fail"),  # a sender must not turn a fail into a shrug
        (Spf(), (Dkim("temperror", "example.com"),), "temperror"),
        (Spf(), (Dkim("temperror", "evil.example"),), "fail"),
        (Spf("temperror", "example.com"), (Dkim("pass", "example.com"),), "pass"),
        (Spf("fail", "example.com"), (Dkim("fail", "example.com"),), "fail"),
        (Spf("permerror", "example.com"), (Dkim("permerror", "example.com"),), "fail"),
        (Spf("softfail", "example.com"), (), "fail"),
        (Spf("neutral", "example.com"), (Dkim("policy", "example.com"),), "fail"),
    ],
)
def test_only_a_failure_that_could_align_leaves_it_open(spf: Spf, dkim: tuple[Dkim, ...], result: str) -> None:
    assert Resolver(REJECT).run(judged("example.com", spf, dkim)).result == result


@pytest.mark.parametrize(
    ("author", "spf", "dkim", "aligned"),
    [
        ("example.com", "", "example.com", True),
        ("example.com", "bounce.example.com", "", True),
        ("a.example.co.uk", "", "b.example.co.uk", True),
        ("a.github.io", "", "b.github.io", False),
        ("one.co.uk", "two.co.uk", "", False),
        ("example.com", "", "example.net", False),
    ],
)
def test_without_a_record_the_suffix_list_tells(author: str, spf: str, dkim: str, aligned: bool) -> None:
    passed = Spf("pass", spf) if spf else Spf("fail", author)
    found = Resolver({}).run(judged(author, passed, (Dkim("pass", dkim),) if dkim else (Dkim("fail", author),)))
    assert (found.result, found.policy, found.spf_aligned or found.dkim_aligned) == ("none", "", aligned)


def test_walk_is_asked_in_two_round_trips() -> None:
    dns = Resolver({"TXT _dmarc.com": "v=DMARC1; p=none"})
    dns.run(judged("a.b.c.d.example.com"))
    assert (dns.trips, len(dns.asked)) == (2, 6)


def test_usual_mail_costs_one_question() -> None:
    dns = Resolver(REJECT)
    dns.run(judged("example.com", Spf("pass", "bulk.example"), (Dkim("pass", "example.com"),)))
    assert dns.asked == ["TXT _dmarc.example.com", "TXT _dmarc.com"]
    dns = Resolver(REJECT)
    dns.run(judged("example.com", Spf("pass", "example.com"), (Dkim("pass", "example.com"),)))
    assert dns.asked == ["TXT _dmarc.example.com"]


@pytest.mark.parametrize(
    ("author", "signers", "most"),
    [
        (".".join("abcdefghij" * 10) + ".example.com", [], MAX_WALK),
        (
            "example.com",
            [".".join(f"x{n}abcdefghijkl") + ".example.com" for n in range(200)],
            2 + MAX_SIGNERS * MAX_WALK,
        ),
        ("example.com", [f"evil{n}.example" for n in range(200)], 2),
        (" ".join(f"a{n}.b.c.d.e.f.g.test{n}" for n in range(200)), [], MAX_AUTHORS * MAX_WALK),
    ],
)
def test_cost_is_bounded(author: str, signers: list[str], most: int) -> None:
    dns = Resolver(REJECT)
    dns.run(judged(author, dkim=tuple(Dkim("pass", domain) for domain in signers)))
    assert len(dns.asked) <= most


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=40).map(".".join))
def test_targets_climb(domain: str) -> None:
    names = list_walk(domain)
    assert names[0] == domain
    assert len(names) <= MAX_WALK
    assert "." not in names[-1]
    assert all(longer.endswith(f".{shorter}") for longer, shorter in pairwise(names))


TAGS = st.sampled_from(
    ["p=reject", "sp=", "np=none", "psd=y", "psd=n", "t=y", "adkim=s", "rua=mailto:a@b", ";", "=", " ", "é", "\x00"]
)
RECORDS = st.lists(TAGS | st.text(max_size=5), max_size=12).map(lambda tags: "v=DMARC1;" + ";".join(tags)) | st.text(
    max_size=50
)
ANSWERS = st.builds(
    DnsAnswer, st.sampled_from(["found", "no-data", "no-name", "failed"]), st.lists(RECORDS, max_size=2).map(tuple)
)
DOMAINS = st.sampled_from(["example.com", "a.example.com", "b.a.example.com", "com", "evil.example", ""]) | st.text(
    max_size=20
)
RESULTS = st.sampled_from(["pass", "fail", "none", "temperror", "permerror"])


@settings(max_examples=300, deadline=None)
@given(
    st.data(),
    st.lists(DOMAINS, max_size=6),
    st.builds(Spf, RESULTS, DOMAINS),
    st.lists(st.builds(Dkim, RESULTS, DOMAINS), max_size=4),
)
def test_no_answer_makes_it_raise(data: st.DataObject, authors: list[str], spf: Spf, dkim: list[Dkim]) -> None:
    def run() -> Asking[Dmarc]:
        named = list_author_domains(authors)
        records = yield from discover(named)
        return (yield from evaluate(named, spf, tuple(dkim), records))

    found = run_asking(run(), lambda _: data.draw(ANSWERS))
    if found.result == "pass":
        assert found.spf_aligned or found.dkim_aligned or len(list_author_domains(authors)) > 1
    if found.result == "fail":
        assert found.policy


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert isinstance(parse_record(text), DmarcRecord)
