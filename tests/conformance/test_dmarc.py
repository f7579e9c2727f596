"""DMARC as RFC 9989 tells it: its rules and its examples as a table, with zones as literals and questions counted.

A row: the section, who wrote (From), the domain that SPF passed for, the domains that DKIM passed for, the DMARC
records by domain ("!" is a name server that fails; "A x" is an address of x), and what comes of it: the result, the
policy and where it stands, what is aligned (S, D), and how many names were asked.
"""
# ruff: noqa: E501  one case, one line

import pytest

from gatepost.auth.dmarc import discover, evaluate, list_author_domains
from gatepost.auth.results import Dkim, Dmarc, Spf
from gatepost.questions import Asking, Dns, DnsAnswer

REJECT = "v=DMARC1; p=reject"
QUARANTINE = "v=DMARC1; p=quarantine"
NONE = "v=DMARC1; p=none"
RUA = "rua=mailto:d@example.com"
LONG = "a.b.c.d.e.f.g.h.i.j.k.example.com"
BANK = {
    "bank.example": "v=DMARC1; p=reject; sp=quarantine; np=reject; psd=y",
    "giant.bank.example": "v=DMARC1; p=none",
    "A mega.bank.example": "192.0.2.1",
}
NP = {"example.com": "v=DMARC1; p=none; sp=quarantine; np=reject", "A here.example.com": "192.0.2.1"}

Row = tuple[str, str, str, str, dict[str, str], str, str, str, int]

ROWS: list[Row] = [
    # Section 4.4: alignment, and the table of it
    ("4.4 relaxed", "news.example.com", "", "foo.example.com", {"example.com": REJECT}, "pass reject", "example.com", "D", 4),
    ("4.4 identical", "news.example.com", "", "news.example.com", {"example.com": REJECT}, "pass reject", "example.com", "D", 3),
    ("4.4 other owner", "news.example.com", "", "foo.example.net", {"example.com": REJECT}, "fail reject", "example.com", "", 3),
    ("4.4 case", "EXAMPLE.com", "Example.COM", "eXample.com", {"example.com": REJECT}, "pass reject", "example.com", "SD", 1),
    ("4.4 suffix in name only", "example.com", "", "notexample.com", {"example.com": REJECT}, "fail reject", "example.com", "", 2),
    ("4.4 same top only", "example.com", "other.com", "", {"example.com": REJECT}, "fail reject", "example.com", "", 2),
    ("4.4.1 any signature", "example.com", "", "list.example evil.example example.com", {"example.com": REJECT}, "pass reject", "example.com", "D", 1),
    ("4.4.1 none aligned", "example.com", "", "list.example evil.example", {"example.com": REJECT}, "fail reject", "example.com", "", 2),
    ("4.4.2 SPF alone", "example.com", "example.com", "", {"example.com": REJECT}, "pass reject", "example.com", "S", 1),
    ("4.4.2 nothing passed", "example.com", "", "", {"example.com": REJECT}, "fail reject", "example.com", "", 1),
    # Section 4.7: tags
    ("4.7 adkim=s subdomain", "example.com", "", "mail.example.com", {"example.com": f"{REJECT}; adkim=s"}, "fail reject", "example.com", "", 1),
    ("4.7 adkim=s equal", "example.com", "", "example.com", {"example.com": f"{REJECT}; adkim=s"}, "pass reject", "example.com", "D", 1),
    ("4.7 adkim=s leaves SPF", "example.com", "mail.example.com", "mail.example.com", {"example.com": f"{REJECT}; adkim=s"}, "pass reject", "example.com", "S", 3),
    ("4.7 aspf=s subdomain", "example.com", "mail.example.com", "", {"example.com": f"{REJECT}; aspf=s"}, "fail reject", "example.com", "", 1),
    ("4.7 aspf=s equal", "example.com", "example.com", "", {"example.com": f"{REJECT}; aspf=s"}, "pass reject", "example.com", "S", 1),
    ("4.7 aspf=s leaves DKIM", "example.com", "mail.example.com", "mail.example.com", {"example.com": f"{REJECT}; aspf=s"}, "pass reject", "example.com", "D", 3),
    ("4.7 aspf=S", "example.com", "mail.example.com", "", {"example.com": f"{REJECT}; aspf=S"}, "fail reject", "example.com", "", 1),
    ("4.7 aspf faulty", "example.com", "mail.example.com", "", {"example.com": f"{REJECT}; aspf=x"}, "pass reject", "example.com", "S", 3),
    ("4.7 p absent", "example.com", "", "", {"example.com": "v=DMARC1"}, "fail none", "example.com", "", 1),
    ("4.7 p absent, rua", "example.com", "", "", {"example.com": f"v=DMARC1; {RUA}"}, "fail none", "example.com", "", 1),
    ("4.7 p absent, sp", "a.example.com", "", "", {"example.com": "v=DMARC1; sp=reject"}, "fail reject", "example.com", "", 3),
    ("4.7 p in capitals", "example.com", "", "", {"example.com": "v=DMARC1; P=REJECT"}, "fail reject", "example.com", "", 1),
    ("4.7 p not second", "example.com", "", "", {"example.com": f"v=DMARC1; {RUA}; p=reject"}, "fail reject", "example.com", "", 1),
    ("4.7 sp for a subdomain", "a.example.com", "", "", {"example.com": "v=DMARC1; p=reject; sp=none"}, "fail none", "example.com", "", 3),
    ("4.7 sp not for itself", "example.com", "", "", {"example.com": "v=DMARC1; p=reject; sp=none"}, "fail reject", "example.com", "", 1),
    ("4.7 sp absent", "a.example.com", "", "", {"example.com": QUARANTINE}, "fail quarantine", "example.com", "", 3),
    ("4.7 sp of a subdomain is ignored", "a.b.example.com", "", "", {"b.example.com": "v=DMARC1; p=reject; sp=reject", "example.com": NONE}, "fail none", "example.com", "", 4),
    ("4.7 np for a missing name", "gone.example.com", "", "", NP, "fail reject", "example.com", "", 4),
    ("4.7 np not for an existing name", "here.example.com", "", "", NP, "fail quarantine", "example.com", "", 4),
    ("4.7 np not for itself", "example.com", "", "", NP, "fail none", "example.com", "", 1),
    ("4.7 np absent: sp", "gone.example.com", "", "", {"example.com": "v=DMARC1; p=none; sp=reject"}, "fail reject", "example.com", "", 3),
    ("4.7 np and sp absent: p", "gone.example.com", "", "", {"example.com": REJECT}, "fail reject", "example.com", "", 3),
    ("4.7 np without sp", "gone.example.com", "", "", {"example.com": "v=DMARC1; p=none; np=reject"}, "fail reject", "example.com", "", 4),
    ("4.7 np, name exists without sp", "here.example.com", "", "", {"example.com": "v=DMARC1; p=none; np=reject", "A here.example.com": "192.0.2.1"}, "fail none", "example.com", "", 4),
    ("4.7 np, name with names below exists", "mid.example.com", "", "", {**NP, "A x.mid.example.com": "192.0.2.1"}, "fail quarantine", "example.com", "", 4),
    ("4.7 np, existence unknown: the milder", "here.example.com", "", "", {"example.com": "v=DMARC1; p=none; np=reject", "A here.example.com": "!"}, "fail none", "example.com", "", 4),
    ("4.7 t=y reject", "example.com", "", "", {"example.com": f"{REJECT}; t=y"}, "fail quarantine", "example.com", "", 1),
    ("4.7 t=y quarantine", "example.com", "", "", {"example.com": f"{QUARANTINE}; t=y"}, "fail none", "example.com", "", 1),
    ("4.7 t=y none", "example.com", "", "", {"example.com": f"{NONE}; t=y"}, "fail none", "example.com", "", 1),
    ("4.7 t=n", "example.com", "", "", {"example.com": f"{REJECT}; t=n"}, "fail reject", "example.com", "", 1),
    ("4.7 t faulty", "example.com", "", "", {"example.com": f"{REJECT}; t=yes"}, "fail reject", "example.com", "", 1),
    ("4.7 t=y on sp", "a.example.com", "", "", {"example.com": "v=DMARC1; p=none; sp=reject; t=y"}, "fail quarantine", "example.com", "", 3),
    ("4.7 t=y on np", "gone.example.com", "", "", {"example.com": "v=DMARC1; p=none; np=reject; t=y"}, "fail quarantine", "example.com", "", 4),
    ("4.7 v in small letters", "example.com", "", "", {"example.com": "v=dmarc1; p=reject"}, "none ", "", "", 2),
    ("4.7 v not first", "example.com", "", "", {"example.com": "p=reject; v=DMARC1"}, "none ", "", "", 2),
    ("4.7 v absent", "example.com", "", "", {"example.com": "p=reject"}, "none ", "", "", 2),
    ("4.7 v longer", "example.com", "", "", {"example.com": "v=DMARC10; p=reject"}, "none ", "", "", 2),
    ("4.7 v with blanks", "example.com", "", "", {"example.com": "v = DMARC1 ;p = reject ; "}, "fail reject", "example.com", "", 1),
    ("4.7 unknown tags", "example.com", "", "", {"example.com": "v=DMARC1; x=1; p=reject; zz"}, "fail reject", "example.com", "", 1),
    ("4.7 pct, rf and ri are gone", "example.com", "", "", {"example.com": f"{REJECT}; pct=0; rf=afrf; ri=1"}, "fail reject", "example.com", "", 1),
    ("4.7 psd faulty is u", "a.b.example.com", "", "example.com", {"b.example.com": f"{REJECT}; psd=x", "example.com": NONE}, "pass none", "example.com", "D", 4),
    # Section 4.10: the walk
    ("4.10 eight questions", LONG, "", "", {"com": NONE}, "fail none", "com", "", 8),
    ("4.10 skipped names", LONG, "", "", {"f.g.h.i.j.k.example.com": REJECT}, "none ", "", "", 8),
    ("4.10 seven labels are asked", LONG, "", "", {"g.h.i.j.k.example.com": REJECT}, "fail reject", "g.h.i.j.k.example.com", "", 8),
    ("4.10 eight labels", "1.2.3.4.5.6.example.com", "", "", {"2.3.4.5.6.example.com": REJECT}, "fail reject", "2.3.4.5.6.example.com", "", 8),
    ("4.10 nine labels", "0.1.2.3.4.5.6.example.com", "", "", {"1.2.3.4.5.6.example.com": REJECT}, "none ", "", "", 8),
    ("4.10 several records count as none", "example.com", "", "", {"example.com": f"{REJECT}|{REJECT}"}, "none ", "", "", 2),
    ("4.10 several, then one above", "a.example.com", "", "", {"a.example.com": f"{NONE}|{NONE}", "example.com": REJECT}, "fail reject", "example.com", "", 3),
    ("4.10 other TXT records beside", "example.com", "", "", {"example.com": f"v=spf1 -all|{REJECT}|hello"}, "fail reject", "example.com", "", 1),
    # Section 4.10.1: which record applies
    ("4.10.1 the author's own first", "a.example.com", "", "", {"a.example.com": NONE, "example.com": REJECT}, "fail none", "a.example.com", "", 1),
    ("4.10.1 then the organisation's", "a.b.example.com", "", "", {"example.com": REJECT}, "fail reject", "example.com", "", 4),
    ("4.10.1 not one in between", "a.b.example.com", "", "", {"b.example.com": REJECT, "example.com": NONE}, "fail none", "example.com", "", 4),
    ("4.10.1 but one with psd=n", "a.b.example.com", "", "", {"b.example.com": f"{REJECT}; psd=n", "example.com": NONE}, "fail reject", "b.example.com", "", 4),
    ("4.10.1 then the suffix's", "mega.bank.example", "", "", BANK, "fail quarantine", "bank.example", "", 4),
    ("4.10.1 suffix, missing name", "fake.bank.example", "", "", BANK, "fail reject", "bank.example", "", 4),
    ("4.10.1 suffix not over the organisation", "x.giant.bank.example", "", "", BANK, "fail none", "giant.bank.example", "", 4),
    ("4.10.1 the suffix itself", "bank.example", "", "", BANK, "fail reject", "bank.example", "", 1),
    ("4.10.1 no record at all", "example.com", "example.com", "", {}, "none ", "", "S", 2),
    ("4.10.1 faulty p without rua", "example.com", "", "", {"example.com": "v=DMARC1; p=rejct"}, "none ", "", "", 1),
    ("4.10.1 faulty p with rua", "example.com", "", "", {"example.com": f"v=DMARC1; p=rejct; {RUA}"}, "fail none", "example.com", "", 1),
    ("4.10.1 faulty sp with rua", "example.com", "", "", {"example.com": f"{REJECT}; sp=x; {RUA}"}, "fail none", "example.com", "", 1),
    ("4.10.1 faulty sp without rua", "example.com", "", "", {"example.com": f"{REJECT}; sp=x"}, "none ", "", "", 1),
    ("4.10.1 faulty np with old size", "example.com", "", "", {"example.com": f"{REJECT}; np=; {RUA}!10m"}, "fail none", "example.com", "", 1),
    ("4.10.1 faulty p, faulty rua", "example.com", "", "", {"example.com": "v=DMARC1; p=x; rua=nobody"}, "none ", "", "", 1),
    ("4.10.1 DNS failed at once", "example.com", "example.com", "", {"example.com": "!"}, "temperror ", "", "", 1),
    ("4.10.1 DNS failed on the way", "a.example.com", "", "", {"example.com": "!"}, "temperror ", "", "", 3),
    ("4.10.1 a failure past the end", "a.b.example.com", "", "", {"b.example.com": f"{REJECT}; psd=n", "com": "!"}, "fail reject", "b.example.com", "", 4),
    # Section 4.10.2: organisational domains
    ("4.10.2 fewest labels", "a.mail.example.com", "", "example.com", {"mail.example.com": REJECT, "example.com": NONE}, "pass none", "example.com", "D", 4),
    ("4.10.2 psd=n cuts off the parent", "a.mail.example.com", "", "example.com", {"mail.example.com": f"{REJECT}; psd=n", "example.com": NONE}, "fail reject", "mail.example.com", "", 4),
    ("4.10.2 psd=n keeps its own", "a.mail.example.com", "", "b.mail.example.com", {"mail.example.com": f"{REJECT}; psd=n", "example.com": NONE}, "pass reject", "mail.example.com", "D", 5),
    ("4.10.2 psd=n of the signer", "example.com", "", "team.example.com", {"example.com": REJECT, "team.example.com": f"{NONE}; psd=n"}, "fail reject", "example.com", "", 3),
    ("4.10.2 psd=y above", "a.mail.example.com", "", "example.com", {"com": f"{REJECT}; psd=y"}, "pass reject", "com", "D", 4),
    ("4.10.2 psd=y keeps neighbours apart", "one.com", "", "two.com", {"com": f"{REJECT}; psd=y"}, "fail reject", "com", "", 2),
    ("4.10.2 u above is an organisation", "one.com", "", "two.com", {"com": REJECT}, "pass reject", "com", "D", 3),
    ("4.10.2 psd=y at the start is itself", "bank.example", "", "mega.bank.example", BANK, "fail reject", "bank.example", "", 3),
    ("4.10.2 nothing found is itself", "example.com", "", "mail.example.com", {"example.com": f"{REJECT}"}, "pass reject", "example.com", "D", 3),
    ("4.10.2 equal names need no walk", "mail.example.com", "mail.example.com", "mail.example.com", {"mail.example.com": NONE, "com": "!"}, "pass none", "mail.example.com", "SD", 1),
    ("4.10.2 DNS failed for alignment", "example.com", "", "mail.example.com", {"example.com": REJECT, "com": "!"}, "temperror reject", "example.com", "", 2),
    ("4.10.2 DNS failed for the signer", "example.com", "", "mail.example.com", {"example.com": REJECT, "mail.example.com": "!"}, "temperror reject", "example.com", "", 3),
    # Section 5.3: authors
    ("5.3.1 U-labels", "bücher.example", "", "xn--bcher-kva.example", {"xn--bcher-kva.example": REJECT}, "pass reject", "xn--bcher-kva.example", "D", 1),
    ("5.3.1 no author", "", "example.com", "", {}, "permerror ", "", "", 0),
    ("5.3.1 a literal is no domain", "[192.0.2.1]", "", "", {}, "permerror ", "", "", 0),
    ("5.3.1 the same author twice", "example.com Example.com", "example.com", "", {"example.com": REJECT}, "pass reject", "example.com", "S", 1),
    ("11.5 two authors, one fails", "evil.example bank.test", "evil.example", "", {"evil.example": NONE, "bank.test": REJECT}, "fail reject", "bank.test", "", 3),
    ("11.5 two fail: the stricter", "a.test b.test", "", "", {"a.test": QUARANTINE, "b.test": REJECT}, "fail reject", "b.test", "", 2),
    ("11.5 two pass", "a.test b.test", "a.test", "a.test b.test", {"a.test": NONE, "b.test": REJECT}, "pass reject", "b.test", "D", 3),
    ("11.5 one without a record", "a.test b.test", "a.test", "", {"a.test": REJECT}, "none ", "", "", 3),
    ("11.5 too many authors", "a.test b.test c.test d.test e.test", "a.test", "", {}, "permerror ", "", "", 5),
    # Appendix B.1: alignment examples
    ("B.1.1 SPF strict", "example.com", "example.com", "", {"example.com": NONE}, "pass none", "example.com", "S", 1),
    ("B.1.1 SPF relaxed", "example.com", "child.example.com", "", {"example.com": NONE}, "pass none", "example.com", "S", 3),
    ("B.1.1 SPF not aligned", "child.example.com", "example.net", "", {"example.com": NONE}, "fail none", "example.com", "", 3),
    ("B.1.2 DKIM strict", "example.com", "", "example.com", {"example.com": NONE}, "pass none", "example.com", "D", 1),
    ("B.1.2 DKIM relaxed", "child.example.com", "", "example.com", {"example.com": NONE}, "pass none", "example.com", "D", 3),
    ("B.1.2 DKIM not aligned", "child.example.com", "", "example.net", {"example.com": NONE}, "fail none", "example.com", "", 3),
    # Appendix B.2: owners' records
    ("B.2.1 monitoring", "example.com", "", "", {"example.com": "v=DMARC1; p=none; rua=mailto:dmarc-feedback@example.com"}, "fail none", "example.com", "", 1),
    ("B.2.5 testing", "test.example.com", "", "", {"test.example.com": "v=DMARC1; p=quarantine; rua=mailto:dmarc-feedback@example.com,mailto:tld-test@thirdparty.example.net; t=y"}, "fail none", "test.example.com", "", 1),
    ("B.2.5 done", "test.example.com", "", "", {"test.example.com": "v=DMARC1; p=reject; rua=mailto:dmarc-feedback@example.com,mailto:tld-test@thirdparty.example.net"}, "fail reject", "test.example.com", "", 1),
    ("B.3.1 session", "example.com", "mail.example.com", "example.com", {"example.com": f"v=DMARC1; p=reject; aspf=r; {RUA}"}, "pass reject", "example.com", "SD", 3),
    # Appendix B.4: walks
    ("B.4.1 simple", "example.com", "example.com", "signing.example.com", {"example.com": REJECT, "signing.example.com": NONE}, "pass reject", "example.com", "SD", 3),
    ("B.4.2 deep", LONG, "example.com", "signing.example.com", {"example.com": REJECT, "signing.example.com": NONE}, "pass reject", "example.com", "SD", 9),
    ("B.4.3 suffix", "giant.bank.example", "mail.giant.bank.example", "mail.mega.bank.example", BANK, "pass none", "giant.bank.example", "S", 4),
    ("B.4.3 suffix, signer alone", "giant.bank.example", "", "mail.mega.bank.example", BANK, "fail none", "giant.bank.example", "", 3),
]  # fmt: skip


class Zone:
    """DMARC records by domain, addresses by "A name"; counts what it is asked."""

    def __init__(self, zone: dict[str, str]) -> None:
        self.zone = {key if " " in key else f"TXT _dmarc.{key}": value for key, value in zone.items()}
        self.names = {key.partition(" ")[2] for key in self.zone}
        self.asked: set[Dns] = set()

    def answer(self, question: Dns) -> DnsAnswer:
        self.asked.add(question)
        found = self.zone.get(f"{question.type} {question.name}")
        if found == "!":
            return DnsAnswer("failed")
        if found:
            return DnsAnswer("found", tuple(found.split("|")))
        exists = any(f".{name}".endswith(f".{question.name}") for name in self.names)
        return DnsAnswer("no-data" if exists else "no-name")


def evaluated(authors: tuple[str, ...], spf: Spf, dkim: tuple[Dkim, ...]) -> Asking[Dmarc]:
    records = yield from discover(authors)
    return (yield from evaluate(authors, spf, dkim, records))


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_rfc_9989(row: Row) -> None:
    _, authors, spf, dkim, records, outcome, place, aligned, asked = row
    zone = Zone(records)
    sender = Spf("pass", spf) if spf else Spf()
    signatures = tuple(Dkim("pass", domain) for domain in dkim.split())
    asking = evaluated(list_author_domains(authors.split()), sender, signatures)
    try:
        questions = next(asking)
        while True:
            questions = asking.send(tuple(map(zone.answer, questions)))
    except StopIteration as stop:
        found = stop.value
    assert (f"{found.result} {found.policy}", found.policy_domain) == (outcome, place), found.reason
    assert ("S" if found.spf_aligned else "") + ("D" if found.dkim_aligned else "") == aligned
    assert len(zone.asked) == asked


def test_the_table_is_whole() -> None:
    assert len(ROWS) >= 80
    assert len({row[0] for row in ROWS}) == len(ROWS)
