"""What of a message is remembered: the same thing has the same key, whoever spells it, and no input breaks it."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Outcome, Report
from gatepost.analysis.stages import Context
from gatepost.mail.message import Envelope, Field, Headers, Link, Message
from gatepost.mail.reader import read
from gatepost.mail.sender_history import (
    ALL_MAIL,
    KNOWN_DAYS,
    MAX_HOSTS,
    NO_HISTORY,
    Facet,
    Facets,
    Standing,
    add_hosts,
    collect_facets,
    facet_key,
    facet_of,
    make_history_question,
    read_history,
    scope_key,
)
from gatepost.names import Address
from gatepost.questions import (
    MAX_FACETS,
    Answer,
    AskSightings,
    Dns,
    DnsAnswer,
    FacetAge,
    Question,
    Questions,
    Sightings,
)


def written(header: str, text: str = "") -> Message:
    return read(f"{header}\nTo: ann@house.example\n\n{text}\n".encode())


def test_the_facets_of_a_letter() -> None:
    message = written(
        "From: Eve <Eve@Mail.Partner.example>\nReply-To: eve@elsewhere.example",
        "https://www.partner.example/a http://b.partner.example/ https://x.shop.example",
    )
    assert collect_facets(message, Envelope()) == Facets(
        "eve@mail.partner.example", "partner.example", True, ("partner.example", "shop.example")
    )


@pytest.mark.parametrize(
    ("reply", "sender", "redirects"),
    [
        ("eve@partner.example", "", False),
        ("desk@lists.partner.example", "", False),
        ("ann@house.example", "", False),
        ("list@carrier.example", "<bounce@out.carrier.example>", False),
        ("eve@elsewhere.example", "", True),
        ("nobody", "", False),
    ],
)
def test_answers_that_go_elsewhere(reply: str, sender: str, redirects: bool) -> None:
    message = written(f"From: eve@partner.example\nReply-To: {reply}")
    assert collect_facets(message, Envelope(sender)).redirects is redirects


POST = "From: eve@partner.example\nList-Id: Dev <Dev.lists.example>\nList-Post: <mailto:dev@lists.example>"


@pytest.mark.parametrize(
    ("header", "host", "named"),
    [
        (POST, "192.0.2.7", "dev.lists.example 192.0.2.0/24"),
        (POST, "192.0.2.200", "dev.lists.example 192.0.2.0/24"),
        (POST, "198.51.100.7", "dev.lists.example 198.51.100.0/24"),
        (POST, "2001:db8:1:2::7", "dev.lists.example 2001:db8:1::/48"),
        (POST.replace("Dev <Dev.lists.example>", "<other.example>"), "192.0.2.7", "other.example 192.0.2.0/24"),
        ("List-Post: <mailto:dev@lists.example>", "192.0.2.7", "mailto:dev@lists.example 192.0.2.0/24"),
        (POST, "mx.lists.example", "dev.lists.example mx.lists.example"),  # no address
        (POST, None, ""),  # nobody knows who sent it
        ("From: eve@partner.example", "192.0.2.7", ""),
        ("List-Id: ", "192.0.2.7", ""),
    ],
)
def test_a_list_is_known_by_its_name_and_its_network(header: str, host: str | None, named: str) -> None:
    assert collect_facets(written(header), Envelope(remote_address=host)).mailing_list == named


def test_a_sender_is_asked_for_as_proven_and_as_claimed() -> None:
    asked = make_history_question(Facets("eve@partner.example", "partner.example", True, ("a.example", "b.example")))
    kinds = [[facet_of(each) for each in keys] for keys in (asked.keys, asked.proven, asked.claimed)]
    assert kinds == [
        [Facet.HOST, Facet.HOST, Facet.REDIRECTION],
        [Facet.PROVEN_ADDRESS, Facet.PROVEN_DOMAIN],
        [Facet.CLAIMED_ADDRESS, Facet.CLAIMED_DOMAIN],
    ]
    assert make_history_question(Facets()) == AskSightings()
    listed = make_history_question(
        Facets("a@b.example", "b.example", True, ("a.example",), "dev.lists.example 192.0.2.0")
    )
    assert [facet_of(each) for each in listed.keys] == [Facet.HOST, Facet.REDIRECTION, Facet.LIST]


def test_answers_come_back_to_what_was_asked() -> None:
    asked = Facets("eve@partner.example", "partner.example", True, ("a.example", "b.example"))
    one, two, three, four, five, six, seven = (FacetAge(n, n) for n in range(1, 8))
    met = read_history(asked, Sightings(True, (one, two, three), (four, five), (six, seven)))
    assert met.hosts == {"a.example": one, "b.example": two}
    assert met.redirection == three
    assert (met.address, met.domain) == (Standing(four, six), Standing(five, seven))
    assert read_history(asked, Sightings()) == NO_HISTORY, "too young to tell"
    assert read_history(asked, Sightings(True, (one,))) == NO_HISTORY, "an answer to something else"
    inside = read_history(Facets(hosts=("c.example",)), Sightings(True, (one,)))
    assert add_hosts(met, inside).hosts.keys() == {"a.example", "b.example", "c.example"}
    assert add_hosts(met, NO_HISTORY) == met


@pytest.mark.parametrize("redirects", [False, True])
@pytest.mark.parametrize("hosts", [(), ("a.example", "b.example")])
@pytest.mark.parametrize("sender", ["", "eve@partner.example"])
def test_the_answer_on_a_list_comes_back_to_it(sender: str, hosts: tuple[str, ...], redirects: bool) -> None:
    redirects = redirects and bool(sender)
    asked = Facets(sender, sender.partition("@")[2], redirects, hosts, "dev.lists.example 192.0.2.0/24")
    question = make_history_question(asked)
    ages = {key: FacetAge(number, number) for number, key in enumerate(question.keys, 1)}
    both = (FacetAge(8, 8), FacetAge(9, 9)) if sender else ()
    met = read_history(asked, Sightings(True, tuple(ages.values()), both, both))
    assert met.mailing_list == ages[facet_key(Facet.LIST, asked.mailing_list)]
    assert met.hosts == {host: ages[facet_key(Facet.HOST, host)] for host in hosts}
    assert met.redirection == (ages[facet_key(Facet.REDIRECTION, sender)] if redirects else None)
    unlisted = msgspec.structs.replace(asked, mailing_list="")
    assert read_history(unlisted, Sightings(True, tuple(ages.values()), both, both)) == NO_HISTORY


def test_keys() -> None:
    """They lie in databases: another way to make them would make everybody a stranger."""
    assert facet_key(Facet.HOST, "shop.example") == 2_865_444_857_042_509_382
    assert scope_key(None) == scope_key("") == 0
    assert scope_key("AB") == scope_key("ab") != 0
    assert facet_of(ALL_MAIL) == Facet.SCOPE


@settings(deadline=None)
@given(st.text(), st.sampled_from(Facet))
def test_any_text_has_a_key_that_fits_a_column(text: str, facet: Facet) -> None:
    number = facet_key(facet, text)
    assert -(1 << 63) <= number < 1 << 63
    assert facet_of(number) == facet
    assert facet_key(facet, text) == number


@settings(deadline=None)
@given(st.text(max_size=40), st.text(max_size=40), st.lists(st.text(max_size=20), max_size=60))
def test_no_message_asks_for_more_than_is_answered(local: str, domain: str, hosts: list[str]) -> None:
    links = tuple(Link(host, f"https://{host}/", host, "", "1", "html") for host in hosts)
    message = Message(
        headers=Headers((Field("list-id", f"<{local}>", b""),)),
        senders=(Address("", local, domain),),
        links=links,
        reply_to=(Address("", local, "r.example"),),
    )
    asked = make_history_question(collect_facets(message, Envelope(local, remote_address=domain)))
    assert len(asked.keys) <= MAX_HOSTS + 2 < MAX_FACETS


def steps(raw: bytes, context: Context, answer: Callable[[Question], Answer]) -> tuple[list[Questions], Report]:
    """What an analysis asks, step by step, and its report."""
    asked: list[Questions] = []
    asking = analyse(raw, Envelope("eve@partner.example", ("ann@house.example",), "192.0.2.1"), context)
    try:
        asked.append(next(asking))
        while True:
            asked.append(asking.send(tuple(map(answer, asked[-1]))))
    except StopIteration as stop:
        return asked, stop.value


def unknown(question: Question) -> Answer:
    if isinstance(question, AskSightings):
        return Sightings(
            True, *((FacetAge(),) * len(keys) for keys in (question.keys, question.proven, question.claimed))
        )
    return DnsAnswer("no-name")


def known(question: Question) -> Answer:
    if isinstance(question, AskSightings):
        return Sightings(
            True,
            *((FacetAge(KNOWN_DAYS, 30),) * len(keys) for keys in (question.keys, question.proven, question.claimed)),
        )
    return DnsAnswer("no-name")


def test_a_list_is_asked_for_and_excuses_where_it_is_known() -> None:
    name = b'From: "ann@bank.example via dev" <'
    raw = b"List-Post: <mailto:dev@lists.example>\n" + LETTER.replace(b"From: ", name).replace(
        b"example\n", b"example>\n", 1
    )
    asked, report = steps(raw, Context(now=0, sender_history=True), known)
    (question,) = (each for step in asked for each in step if isinstance(each, AskSightings))
    assert question.keys[-1] == facet_key(Facet.LIST, "mailto:dev@lists.example 192.0.2.0/24")
    assert "sender:display-name-spoof" not in report.tags
    _, strange = steps(raw, Context(now=0, sender_history=True), unknown)
    assert {"sender:display-name-spoof", "bulk:discussion-list"} <= set(strange.tags)


LETTER = b"From: eve@partner.example\nTo: ann@house.example\n\nSee https://pages.example/\n"
PARTS = b"""From: eve@partner.example
To: ann@house.example
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b

See https://pages.example/
--b
Content-Type: application/octet-stream
Content-Disposition: attachment; filename=a.url

[InternetShortcut]
URL=https://www.inside.example/
--b--
"""


def test_it_is_asked_in_the_first_step_beside_dns() -> None:
    asked, report = steps(LETTER, Context(now=0, sender_history=True), unknown)
    assert any(isinstance(each, Dns) for each in asked[0])
    assert [sum(isinstance(each, AskSightings) for each in step) for step in asked] == [1, *[0] * (len(asked) - 1)]
    assert {"sender:first-contact", "url:new-host"} <= set(report.tags)


def test_links_in_files_are_asked_for_when_they_are_known() -> None:
    asked, report = steps(PARTS, Context(now=0, sender_history=True), unknown)
    wanted = [each for step in asked for each in step if isinstance(each, AskSightings)]
    assert [each.keys for each in wanted] == [
        (facet_key(Facet.HOST, "pages.example"),),
        (facet_key(Facet.HOST, "inside.example"),),
    ]
    found = {line.facts["host"] for line in report.lines if line.kind == "url:new-host"}
    assert found == {"pages.example", "inside.example"}


def test_nobody_is_asked_where_nobody_remembers() -> None:
    asked, report = steps(LETTER, Context(now=0), unknown)
    assert not any(isinstance(each, AskSightings) for step in asked for each in step)
    assert not {"sender:first-contact", "url:new-host"} & set(report.tags)


@pytest.mark.parametrize(
    "said",
    [Sightings(), DnsAnswer("failed"), Sightings(True), Sightings(True, (FacetAge(),) * 64)],
)
def test_too_young_or_odd_answers_say_nothing(said: Answer) -> None:
    _, report = steps(
        LETTER,
        Context(now=0, sender_history=True),
        lambda question: said if isinstance(question, AskSightings) else DnsAnswer("no-name"),
    )
    assert not {"sender:first-contact", "url:new-host"} & set(report.tags)
    assert report.outcomes == ()


def test_a_skipped_stage_asks_nothing_and_says_so() -> None:
    context = Context(now=0, sender_history=True, skip={"sender-history": "it crashed"})
    asked, report = steps(LETTER, context, unknown)
    assert not any(isinstance(each, AskSightings) for step in asked for each in step)
    assert report.outcomes == (Outcome("sender-history", "skipped", "it crashed"),)
