"""The checks of `sender/host_names`: the tricks, and what looks like them."""

import pytest
from tests.checks.readings import find_kinds

from gatepost.auth.results import Authentication, Dmarc, Iprev, Spf
from gatepost.checks.reading import Protected, Reading
from gatepost.checks.sender.sending_host import carries_address, host_names
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read

# What hosts say of themselves.
HOST = "203.0.113.65"


@pytest.mark.parametrize(
    ("helo", "kinds"),
    [
        (HOST, ["helo:bare-ip"]),
        ("friend", ["helo:no-dot"]),
        ("localhost.localdomain", ["helo:local-name"]),
        ("gate.house.lan", ["helo:local-name"]),
        ("mx.notice.example", []),  # a name for documentation
        ("203-0-113-65.smtp.provider.com", []),  # large senders name their hosts so
        ("o20301136500.static.reverse.provider.com", []),
        ("qktfx.whstt5", ["helo:unknown-ending"]),
        ("203-0-113-65.adsl.provider.com", ["helo:dynamic-name"]),
        ("cb007141.dip.provider.com", ["helo:dynamic-name"]),
        ("xdsl-3720.town.provider.com", ["helo:dynamic-name"]),
        ("aol.com", ["helo:freemail"]),
        ("corp.example.com", ["helo:own-domain"]),
        ("mail.provider.com", []),
        (f"[{HOST}]", []),
        ("mail-yw1-f195.google.com", []),
        ("a8-43.smtp-out.amazonses.com", []),
        ("mta65.provider.com", []),
        ("mail.corp.co.za", []),
        ("MX1.Provider.COM.", []),
        ("mx.xn--bcher-kva.de", []),
        ("dynamics.provider.com", []),
        ("relay.corp.example.com", []),
        ("", []),
    ],
)
def test_helo(helo: str, kinds: list[str]) -> None:
    reading = Reading(envelope=Envelope("x@shop.com", ("ann@corp.example.com",), HOST, helo))
    assert find_kinds(host_names, reading) == kinds


@pytest.mark.parametrize(
    "forwarder",
    "privaterelay.appleid.com simplelogin.co duck.com addy.io anonaddy.me mozmail.com".split(),
)
def test_forwarders_that_are_proven_name_their_hosts_as_they_like(forwarder: str) -> None:
    helo = f"203-0-113-65.{forwarder}"
    envelope = Envelope("x@shop.com", ("ann@corp.example.com",), HOST, helo)
    claimed = ["helo:dynamic-name"]
    proofs = {
        "none": (Authentication(), claimed),
        "DNS": (Authentication(host=HOST, host_source="border", iprev=Iprev("pass", helo)), []),
        "SPF": (Authentication(spf=Spf("pass", f"bounces.{forwarder}")), []),
        "SPF of the name": (Authentication(helo=Spf("pass", helo, "helo")), []),
        "DNS that fails": (Authentication(iprev=Iprev("fail", helo)), claimed),
        "SPF of another": (Authentication(spf=Spf("pass", "shop.com")), claimed),
        "SPF that fails": (Authentication(spf=Spf("softfail", forwarder)), claimed),
    }
    found = {
        name: find_kinds(host_names, Reading(envelope=envelope, authentication=proof))
        for name, (proof, _) in proofs.items()
    }
    assert found == {name: kinds for name, (_, kinds) in proofs.items()}


@pytest.mark.parametrize("host", ["10.1.2.3", "192.168.1.2", "127.0.0.1", "172.20.0.1", "::1", "fd00::1"])
def test_hosts_inside_say_what_they_like(host: str) -> None:
    assert list(host_names(Reading(envelope=Envelope("x@shop.com", ("a@b.com",), host, "printer")))) == []


@pytest.mark.parametrize(("trusted", "kinds"), [(False, ["helo:own-domain"]), (True, [])])
def test_own_domains(trusted: bool, kinds: list[str]) -> None:
    protected = Protected(own_domains=frozenset({"corp.com"}), host_trusted=trusted)
    reading = Reading(envelope=Envelope("x@shop.com", ("a@b.com",), HOST, "mail.corp.com"), protected=protected)
    assert find_kinds(host_names, reading) == kinds


@pytest.mark.parametrize("host", ["", "x", "2001:db8::1", "1.2.3.4.5", "a.b.c.d", "1..2.3", "9999.1.1.1"])
def test_any_address_is_read(host: str) -> None:
    assert not carries_address("mail.provider.com", host)


@pytest.mark.parametrize(
    ("sender", "kind", "strength"),
    [
        ("", "multipart/report; boundary=x", 0.5),
        ("", "text/plain", 1.0),  # says that it is a report, in words only
        ("x@shop.com", "multipart/report; boundary=x", 1.0),
    ],
)
def test_reports_on_delivery_are_believed_more(sender: str, kind: str, strength: float) -> None:
    body = "--x\n\nNo such user.\n--x\nContent-Type: message/delivery-status\n\nAction: failed\n--x--\n"
    message = read(f"From: MAILER-DAEMON@shop.com\nSubject: failure notice\nContent-Type: {kind}\n\n{body}".encode())
    (found,) = host_names(Reading(message, Envelope(sender, ("a@b.com",), HOST, HOST)))
    assert (found.kind, found.strength) == ("helo:bare-ip", strength)


# Names of hosts in DNS.
@pytest.mark.parametrize(
    ("iprev", "kinds"),
    [
        (Iprev("permerror"), ["host:no-name"]),
        (Iprev("fail", "mail.bank.example"), ["host:false-name"]),
        (Iprev("pass", "203-0-113-65.dsl.provider.example"), ["host:dynamic-name"]),
        (Iprev("pass", "mail.provider.example"), []),
        (Iprev("temperror"), []),  # an outage says nothing
        (Iprev("none"), []),
    ],
)
def test_reverse_name(iprev: Iprev, kinds: list[str]) -> None:
    reading = Reading(authentication=Authentication("203.0.113.65", "border", iprev=iprev))
    assert find_kinds(host_names, reading) == kinds


def test_a_host_that_the_senders_domain_names_needs_no_name() -> None:
    for aligned, kinds in ((False, ["host:false-name"]), (True, [])):
        dmarc = Dmarc("pass", "shop.example", spf_aligned=aligned, dkim_aligned=not aligned)
        found = Authentication("203.0.113.65", "border", dmarc=dmarc, iprev=Iprev("fail", "mail.service.example"))
        assert find_kinds(host_names, Reading(authentication=found)) == kinds


def test_a_host_from_received_is_not_judged() -> None:
    assert (
        list(host_names(Reading(authentication=Authentication("203.0.113.65", "received", iprev=Iprev("permerror")))))
        == []
    )
