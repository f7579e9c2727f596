"""SPF beyond the published suite: whose name is checked, what an attack may cost, and that nothing raises."""

from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.asking import run_asking
from tests.auth.resolver import Resolver

from gatepost.auth import spf
from gatepost.auth.sending_host import MAX_ADDRESSES
from gatepost.auth.spf import MAX_QUESTIONS, check_host, explain, parse_sender, verify
from gatepost.questions import Dns, DnsAnswer

HOST = ip_address("192.0.2.1")
HOST6 = ip_address("2001:db8::1")

IDENTITIES = {
    "TXT example.com": "v=spf1 ip4:192.0.2.0/24 -all",
    "TXT mx.example.org": "v=spf1 a -all",
    "A mx.example.org": "192.0.2.1",
    "TXT xn--bcher-kva.example": "v=spf1 ip4:192.0.2.1 -all",
    "TXT down.example": "FAILED",
    "TXT silent.example": "hello",
}


@pytest.mark.parametrize(
    ("mail_from", "helo", "mail_result", "helo_result"),
    [
        ("a@example.com", "mx.example.org", ("pass", "example.com", "mfrom"), ("none", "", "helo")),
        ("<a@example.com>", "mx.example.org", ("pass", "example.com", "mfrom"), ("none", "", "helo")),
        ("<@relay.example,@b.example:a@example.com>", "x", ("pass", "example.com", "mfrom"), ("none", "", "helo")),
        ('"odd@local"@EXAMPLE.com.', "x", ("pass", "example.com", "mfrom"), ("none", "", "helo")),
        ("jö@bücher.example", "x", ("pass", "xn--bcher-kva.example", "mfrom"), ("none", "", "helo")),
        ("", "mx.example.org", ("pass", "mx.example.org", "helo"), ("pass", "mx.example.org", "helo")),
        ("<>", "MX.example.org", ("pass", "mx.example.org", "helo"), ("pass", "mx.example.org", "helo")),
        ("", "", ("none", "", "helo"), ("none", "", "helo")),
        ("", "[192.0.2.1]", ("none", "[192.0.2.1]", "helo"), ("none", "[192.0.2.1]", "helo")),
        ("a@silent.example", "mx.example.org", ("none", "silent.example", "mfrom"), ("pass", "mx.example.org", "helo")),
        ("a@nowhere.example", "nohost", ("none", "nowhere.example", "mfrom"), ("none", "nohost", "helo")),
        ("a@down.example", "mx.example.org", ("temperror", "down.example", "mfrom"), ("none", "", "helo")),
        ("no-domain", "mx.example.org", ("none", "no-domain", "mfrom"), ("pass", "mx.example.org", "helo")),
        ("a@[192.0.2.1]", "mx.example.org", ("none", "[192.0.2.1]", "mfrom"), ("pass", "mx.example.org", "helo")),
    ],
)
def test_whose_name_is_checked(mail_from: str, helo: str, mail_result: object, helo_result: object) -> None:
    by_mail, by_helo = Resolver(IDENTITIES).run(verify(HOST, mail_from, helo))
    assert (by_mail.result, by_mail.domain, by_mail.scope) == mail_result
    assert (by_helo.result, by_helo.domain, by_helo.scope) == helo_result


def test_unknown_host_asks_nothing() -> None:
    dns = Resolver(IDENTITIES)
    by_mail, by_helo = dns.run(verify(None, "a@example.com", "mx.example.org"))
    assert (by_mail.result, by_helo.result, dns.asked) == ("none", "none", [])


def test_absence_has_its_reason() -> None:
    reasons = [Resolver(IDENTITIES).run(check_host(parse_sender(HOST, f"a@{name}", ""))).reason for name in (
        "silent.example", "nowhere.example", "nodots",
    )]  # fmt: skip
    assert reasons == ["no record", "no such name", "not a domain name"]


CHAIN = {f"TXT c{n}.example": f"v=spf1 include:c{n + 1}.example -all" for n in range(20)}
WIDE = {
    "TXT wide.example": "v=spf1 " + " ".join(f"mx:m{n}.example" for n in range(10)) + " -all",
    **{f"MX m{n}.example": tuple(f"10 h{n}-{m}.example" for m in range(10)) for n in range(10)},
    **{f"A h{n}-{m}.example": "198.51.100.1" for n in range(10) for m in range(10)},
}
OWN = {
    "TXT own.example": "v=spf1 " + " ".join(f"mx:%{{p}}.m{n}.example" for n in range(10)) + " -all",
    "PTR 1.2.0.192.in-addr.arpa": tuple(f"p{n}.example" for n in range(50)),
    "A p9.example": "192.0.2.1",
    **{f"MX p9.example.m{n}.example": tuple(f"10 h{n}-{m}.example" for m in range(10)) for n in range(10)},
    **{f"A h{n}-{m}.example": "198.51.100.1" for n in range(10) for m in range(10)},
}


@pytest.mark.parametrize(
    ("zone", "domain", "result", "most"),
    [
        (CHAIN, "c0.example", "permerror", 11),
        ({"TXT a.example": "v=spf1 redirect=a.example"}, "a.example", "permerror", 11),
        ({"TXT a.example": "v=spf1 include:a.example"}, "a.example", "permerror", 11),
        ({"TXT a.example": "v=spf1 include:a.example redirect=a.example"}, "a.example", "permerror", 11),
        (WIDE, "wide.example", "fail", 111),
        (OWN, "own.example", "fail", MAX_QUESTIONS),
        ({"TXT a.example": "v=spf1 " + "a:%{i}.b.example " * 10 + "-all"}, "a.example", "permerror", 4),
        ({"TXT a.example": "v=spf1 " + "exists:%{s}.b.example " * 300}, "a.example", "permerror", 4),
        ({"TXT a.example": "v=spf1 " + "ip4:10.0.0.1 " * 600 + "-all"}, "a.example", "permerror", 1),
        ({"TXT a.example": "v=spf1 " + "ip4:10.0.0.1 " * 500 + "-all"}, "a.example", "fail", 1),
        ({"TXT a.example": "v=spf1 x=" + "y" * 9_000 + " +all"}, "a.example", "permerror", 1),
        ({"TXT a.example": "v=spf1 mx -all", "MX a.example": ("1 x.example",) * 11}, "a.example", "permerror", 2),
        ({"TXT a.example": "v=spf1 mx -all", "MX a.example": ("0 ",)}, "a.example", "fail", 2),
        (
            {"TXT a.example": "v=spf1 ptr -all", "PTR 1.2.0.192.in-addr.arpa": ("b.example",) * 5_000},
            "a.example",
            "fail",
            2,
        ),
        (
            {
                "TXT a.example": "v=spf1 exists:%{p}.a.example -all",
                "PTR 1.2.0.192.in-addr.arpa": ("b.example",) * 5_000,
            },
            "a.example",
            "fail",
            13,
        ),
    ],
)
def test_cost_is_bounded(zone: dict[str, Any], domain: str, result: str, most: int) -> None:
    dns = Resolver(zone)
    assert dns.run(check_host(parse_sender(HOST, f"a@{domain}", "mx.example"))).result == result
    assert len(dns.asked) <= most


def test_the_bound_is_reached() -> None:
    dns = Resolver(OWN)
    dns.run(check_host(parse_sender(HOST, "a@own.example", "")))
    assert len(dns.asked) == MAX_QUESTIONS


def test_only_so_many_addresses_are_looked_at() -> None:
    for others, result in ((MAX_ADDRESSES - 1, "pass"), (MAX_ADDRESSES, "fail")):
        zone = {"TXT a.example": "v=spf1 a -all", "A a.example": (*("198.51.100.1",) * others, "192.0.2.1")}
        assert Resolver(zone).run(check_host(parse_sender(HOST, "a@a.example", ""))).result == result


def test_exchangers_cost_one_round_trip() -> None:
    dns = Resolver(WIDE)
    dns.run(check_host(parse_sender(HOST, "a@wide.example", "")))
    assert dns.trips == 21


@pytest.mark.parametrize(
    ("record", "host", "result"),
    [
        ("v=spf1 exists:%{l}.example.com -all", HOST, "fail"),
        ("v=spf1 include:%{l}.example.com -all", HOST, "fail"),
        ("v=spf1 exists:%{o}.ok.example.com -all", HOST, "pass"),
        ("v=spf1 ip6:2001:db8::%eth0/64 -all", HOST6, "permerror"),
        ("v=spf1 ip6:2001:db8::/64 -all", HOST6, "pass"),
        ("v=spf1 exists:%{d0}.example.com -all", HOST, "permerror"),
        ("v=spf1 exists:%{d99999999999}.example.com -all", HOST, "permerror"),
        ("v=spf1 a:foo%%_ -all", HOST, "permerror"),
    ],
)
def test_odd_terms(record: str, host: Any, result: str) -> None:
    """An international local part matches nothing (RFC 8616 section 4)."""
    zone = {"TXT example.com": record, "A example.com.ok.example.com": "127.0.0.2"}
    assert Resolver(zone).run(check_host(parse_sender(host, "jörg@example.com", ""))).result == result


def test_dns_failure_is_not_absence() -> None:
    for term, failing in (("a", "A"), ("mx", "MX"), ("exists:example.com", "A"), ("include:b.example.com", "TXT")):
        name = "b.example.com" if failing == "TXT" else "example.com"
        zone = {"TXT example.com": f"v=spf1 {term} -all", f"{failing} {name}": "FAILED"}
        assert Resolver(zone).run(check_host(parse_sender(HOST, "a@example.com", ""))).result == "temperror"
    zone = {"TXT example.com": "v=spf1 ptr -all", "PTR 1.2.0.192.in-addr.arpa": "FAILED"}
    assert Resolver(zone).run(check_host(parse_sender(HOST, "a@example.com", ""))).result == "fail"


def test_first_matching_exchanger_wins_over_a_later_failure() -> None:
    zone = {
        "TXT example.com": "v=spf1 mx -all",
        "MX example.com": ("10 a.example.com", "20 b.example.com"),
        "A a.example.com": "192.0.2.1",
        "A b.example.com": "FAILED",
    }
    assert Resolver(zone).run(check_host(parse_sender(HOST, "a@example.com", ""))).result == "pass"


def test_explanation_is_bounded() -> None:
    zone = {"TXT example.com": "v=spf1 -all exp=why.example.com", "TXT why.example.com": "%{s}" * 2_000 + "%{t}"}
    sender = parse_sender(HOST, "a" * 10_000 + "@example.com", "")
    dns = Resolver(zone)
    shown = dns.run(explain(sender, dns.run(check_host(sender))))
    assert len(shown) == spf.MAX_EXPANDED


PIECES = (
    "a mx ptr all include exists ip4 ip6 redirect= exp= : / // 24 = - + ? ~ %{ } % d l2r- p h 1.2.3.4 ::1 . b.example"
)
TERMS = st.sampled_from([*PIECES.split(), " ", "example.com", "\x00", "é"])
RECORDS = st.lists(TERMS, max_size=30).map(lambda terms: "v=spf1 " + "".join(terms)) | st.text(max_size=200)
RECORD_TEXTS = RECORDS | st.sampled_from(["10 mx.example.com", "192.0.2.1", "2001:db8::1", "", "host.example.com"])
ANSWERS = st.builds(
    DnsAnswer,
    st.sampled_from(["found", "no-data", "no-name", "failed"]),
    st.lists(RECORD_TEXTS, max_size=4).map(tuple),
)


@settings(max_examples=300, deadline=None)
@given(st.data(), st.text(max_size=60), st.text(max_size=30), st.sampled_from([HOST, HOST6]))
def test_no_answer_makes_it_raise(data: st.DataObject, local: str, helo: str, host: Any) -> None:
    asked = []

    def answer(question: Dns) -> DnsAnswer:
        asked.append(question)
        return data.draw(ANSWERS)

    by_mail, by_helo = run_asking(verify(host, f"{local}@example.com", helo), answer)
    assert len(asked) <= 2 * MAX_QUESTIONS
    assert {by_mail.scope, by_helo.scope} <= {"mfrom", "helo"}


@settings(max_examples=500)
@given(RECORDS)
def test_any_text_is_read(text: str) -> None:
    assert isinstance(spf.parse_record(text), spf.SpfRecord | spf.SpfRecordError)


def test_limits_are_the_standards() -> None:
    assert (spf.MAX_LOOKUPS, spf.MAX_VOID, spf.MAX_HOSTS) == (10, 2, 10)
