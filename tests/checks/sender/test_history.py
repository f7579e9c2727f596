"""The checks of `sender/history`: the tricks, and what looks like them."""

from typing import Any

import msgspec
import pytest
from tests.checks.readings import find_kinds, letter
from tests.known_senders import OFTEN, know_list, know_sender

from gatepost.auth.results import Arc, Authentication, Dkim, Dmarc, Spf
from gatepost.checks.reading import Protected, Reading
from gatepost.checks.sender.history import broken_habit, first_contact, stranger_asks
from gatepost.findings.kinds import Finding
from gatepost.mail.sender_history import NO_HISTORY, SenderHistory, Standing
from gatepost.questions import FacetAge

# Strangers, and who is none.
NO_STANDING, KNOWN_STANDING = Standing(), Standing(proven=FacetAge(3, 9))
CLAIMED = Standing(claimed=FacetAge(1, 1))
LIST = "List-Post: <mailto:l@lists.example>\n"


def met(address: Standing = NO_STANDING, domain: Standing = NO_STANDING) -> SenderHistory:
    return SenderHistory(ready=True, address=address, domain=domain)


@pytest.mark.parametrize(
    ("sender", "known", "kinds"),
    [
        ("a@new.example", met(), ["sender:first-contact"]),
        ("a@known.example", met(domain=KNOWN_STANDING), []),  # a colleague of somebody who is known
        ("a@gmail.com", met(domain=KNOWN_STANDING), ["sender:first-contact"]),  # everybody has that domain
        ("a@gmail.com", met(KNOWN_STANDING, KNOWN_STANDING), []),
        ("a@known.example", met(CLAIMED), []),
        ("a@new.example", NO_HISTORY, []),  # too little is remembered to tell
    ],
)
def test_first_contact(sender: str, known: SenderHistory, kinds: list[str]) -> None:
    reading = msgspec.structs.replace(letter("Hello", sender=sender), sender_history=known)
    assert find_kinds(first_contact, reading) == kinds


@pytest.mark.parametrize(
    "protected",
    [
        Protected(own_domains=frozenset({"new.example"})),
        Protected(partner_domains=frozenset({"new.example"})),
        Protected(host_trusted=True),
    ],
)
def test_the_own_house_and_partners_are_no_strangers(protected: Protected) -> None:
    reading = letter("Hello", sender="a@mail.new.example")
    assert not list(first_contact(msgspec.structs.replace(reading, sender_history=met(), protected=protected)))


def test_people_on_known_lists_are_no_strangers() -> None:
    posted = letter("Hello", sender="a@new.example", fields=LIST)
    reading = msgspec.structs.replace(posted, sender_history=met())
    assert find_kinds(first_contact, reading) == ["sender:first-contact"]
    assert not list(first_contact(know_list(reading)))


def test_no_sender_is_no_stranger() -> None:
    assert not list(first_contact(Reading(sender_history=met())))


# Who asks, and for what.
PAY = "Our bank details have changed. Please send all future payments to our new bank account."
LURE = "Your mailbox has been limited. Verify your account within 24 hours."
PAGE = "https://sign-in.example/x"
AT_LENGTH = "\n" + "We have written about this matter at length. " * 100
WARNED = "\nBeware of phishing emails. Report phishing to us: we will never ask you for your password."
NEVER_MET = SenderHistory(ready=True, hosts={"sign-in.example": FacetAge(), "sender.example": FacetAge()})
LONG_MET = SenderHistory(
    ready=True,
    address=Standing(FacetAge(9, 90)),
    domain=Standing(FacetAge(9, 90)),
    hosts={"sign-in.example": FacetAge(9, 90), "sender.example": FacetAge(9, 90)},
)


@pytest.mark.parametrize(
    ("text", "link", "met", "kinds"),
    [
        (PAY, "", NEVER_MET, ["sender:stranger-asks"]),
        (PAY, "", LONG_MET, []),
        (PAY, "", NO_HISTORY, []),
        (LURE, PAGE, NEVER_MET, ["url:new-host-asks"]),
        (LURE, PAGE, LONG_MET, []),
        (LURE, PAGE, NO_HISTORY, []),
        (LURE, "https://sender.example/x", NEVER_MET, []),  # at home
        ("Here is the programme of the fair.", PAGE, NEVER_MET, []),
        ("Thank you for your order. The invoice is attached, payable within 30 days.", "", NEVER_MET, []),
        (PAY + AT_LENGTH, "", NEVER_MET, ["sender:stranger-asks"]),
        (PAY + WARNED, "", NEVER_MET, ["sender:stranger-asks"]),
        (LURE + AT_LENGTH, PAGE, NEVER_MET, ["url:new-host-asks"]),
    ],
)
def test_stranger_asks(text: str, link: str, met: SenderHistory, kinds: list[str]) -> None:
    reading = msgspec.structs.replace(letter(text, link=link), sender_history=met)
    assert find_kinds(stranger_asks, reading) == kinds


def test_a_known_sender_with_a_page_that_is_new() -> None:
    """A mailbox that was taken over: the sender is known, where it leads to is not."""
    met = msgspec.structs.replace(LONG_MET, hosts={"sign-in.example": FacetAge()})
    reading = msgspec.structs.replace(letter(LURE, link=PAGE), sender_history=met)
    assert find_kinds(stranger_asks, reading) == ["url:new-host-asks"]


@pytest.mark.parametrize(
    "text", [LURE + WARNED, f"Your mailbox has been limited.{AT_LENGTH}Verify your account within 24 hours."]
)
def test_a_known_sender_may_explain_at_length(text: str) -> None:
    met = msgspec.structs.replace(LONG_MET, hosts={"sign-in.example": FacetAge()})
    reading = msgspec.structs.replace(letter(text, link=PAGE), sender_history=met)
    assert find_kinds(stranger_asks, reading) == ["url:new-host-asks"], "it did not prove itself"
    assert not list(stranger_asks(know_sender(reading)))


# Habits that are broken, and habits that never were.
HOST = "192.0.2.1"
FAILS = Authentication(HOST, spf=Spf("softfail"), dmarc=Dmarc("fail"))
ALWAYS = Standing(proven=FacetAge(40, 90))


def find_broken(
    reading: Reading, met: SenderHistory, authentication: Authentication = FAILS, **more: Any
) -> list[Finding]:
    return list(
        broken_habit(msgspec.structs.replace(reading, sender_history=met, authentication=authentication, **more))
    )


@pytest.mark.parametrize(
    ("standing", "broken"),
    [
        (ALWAYS, True),
        (
            Standing(FacetAge(40, 90), FacetAge(4, 80)),
            True,
        ),  # now and then through somebody who breaks signatures
        (Standing(FacetAge(40, 90), FacetAge(5, 80)), False),
        (Standing(FacetAge(4, 90)), False),
        (Standing(FacetAge(8, 13)), False),
        (Standing(claimed=FacetAge(40, 90)), False),  # never proved anything
        (Standing(), False),
    ],
)
def test_a_domain_that_always_proved_itself(standing: Standing, broken: bool) -> None:
    findings = find_broken(letter("Hello"), SenderHistory(ready=True, domain=standing))
    assert [finding.kind for finding in findings] == ["sender:broken-habit"] * broken


@pytest.mark.parametrize(
    "authentication",
    [
        Authentication(HOST, dmarc=Dmarc("pass", dkim_aligned=True)),
        Authentication(HOST, dmarc=Dmarc("none", spf_aligned=True)),
        Authentication(HOST, arc=Arc("pass", 1, ("google.com",), origin="pass")),
        Authentication(HOST, spf=Spf("temperror")),
        Authentication(HOST, dkim=(Dkim("fail"), Dkim("temperror"))),
        Authentication(HOST, dmarc=Dmarc("temperror")),
        Authentication(),  # nobody knows who sent it
    ],
)
def test_proof_is_proof_and_no_answer_is_none(authentication: Authentication) -> None:
    assert not find_broken(letter("Hello"), SenderHistory(ready=True, domain=ALWAYS), authentication)


def test_known_lists_break_signatures() -> None:
    met = SenderHistory(ready=True, domain=ALWAYS)
    for field in ("List-Id: <l.lists.example>\n", LIST):
        (finding,) = find_broken(letter("Hello", fields=field), met)
        assert finding.strength == 1.0
    (finding,) = find_broken(letter("Hello", fields=LIST), msgspec.structs.replace(met, mailing_list=OFTEN))
    assert finding.strength == 0.3
    assert not find_broken(letter("Hello"), met, protected=Protected(host_trusted=True))


@pytest.mark.parametrize(
    ("address", "redirection", "broken"),
    [
        (ALWAYS, FacetAge(), True),
        (Standing(claimed=FacetAge(9, 30)), FacetAge(), True),
        (ALWAYS, FacetAge(1, 3), False),  # it did so before
        (ALWAYS, None, False),  # answers go to the sender
        (Standing(proven=FacetAge(2, 30)), FacetAge(), False),  # hardly known
        (Standing(), FacetAge(), False),
    ],
)
def test_answers_that_never_went_elsewhere(address: Standing, redirection: FacetAge | None, broken: bool) -> None:
    reading = letter("Hello", fields="Reply-To: me@elsewhere.example\n")
    met = SenderHistory(ready=True, address=address, redirection=redirection)
    findings = find_broken(reading, met, Authentication(HOST, dmarc=Dmarc("pass", dkim_aligned=True)))
    assert [finding.kind for finding in findings] == ["sender:new-reply-to"] * broken


def test_a_known_list_has_answers_sent_to_itself() -> None:
    reading = letter("Hello", fields=f"Reply-To: l@lists.example\n{LIST}")
    met, proven = SenderHistory(ready=True, address=ALWAYS, redirection=FacetAge()), Dmarc("pass", dkim_aligned=True)
    (finding,) = find_broken(reading, met, Authentication(HOST, dmarc=proven))
    assert finding.kind == "sender:new-reply-to"
    known = msgspec.structs.replace(met, mailing_list=OFTEN)
    assert not find_broken(reading, known, Authentication(HOST, dmarc=proven))


def test_a_young_memory_has_no_habits() -> None:
    assert not find_broken(letter("Hello"), SenderHistory(domain=ALWAYS))
    assert not find_broken(Reading(), SenderHistory(ready=True, domain=ALWAYS))
