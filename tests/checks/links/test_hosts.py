"""The checks of `links/hosts`: the tricks, and what looks like them."""

from collections.abc import Callable

import msgspec
import pytest
from tests.checks.readings import find_kinds, find_strengths, letter, link, links_to, mail_from
from tests.known_senders import SELDOM, know_list, know_member, know_sender

from gatepost.auth.results import Authentication, Dkim, Dmarc
from gatepost.checks.links.hosts import (
    MAX_NEW_HOSTS,
    find_link_away,
    foreign_target,
    free_names,
    ip_hosts,
    measure_mention,
    new_hosts,
    picture_host,
    plain_notice,
)
from gatepost.checks.links.urls import url_form
from gatepost.checks.reading import Protected, Reading
from gatepost.mail.message import Link, Message
from gatepost.mail.sender_history import SenderHistory
from gatepost.questions import FacetAge


# Endings where names cost nothing.
@pytest.mark.parametrize(
    ("url", "sender", "found"),
    [
        ("https://x.icu/", "x@shop.com", ["url:cheap-ending"]),
        ("https://shop.com/", "x@x.click", ["sender:cheap-ending"]),
        ("https://x.top/", "x@x.top", ["sender:cheap-ending", "url:cheap-ending"]),
        ("https://shop.com/", "x@shop.com", []),
        ("https://top.com/", "x@click.com", []),
        ("https://shop.de/xyz.top", "x@shop.co.uk", []),
        ("https://192.0.2.1/", "x", []),
        # Pages, forms and senders on services for anybody.
        ("https://x.web.app/login", "x@shop.com", ["url:free-hosting"]),
        ("https://storage.googleapis.com/b/x.html", "x@shop.com", ["url:free-hosting"]),
        ("https://forms.office.com/r/x", "x@shop.com", ["url:form-service"]),
        ("https://shop.com/", "noreply@x-1.firebaseapp.com", ["sender:free-hosting"]),
        ("https://x-1.firebaseapp.com/", "noreply@x-1.firebaseapp.com", ["sender:free-hosting"]),
        ("https://www.google.com/", "x@shop.com", []),
        ("https://notweb.app/", "x@shop.com", []),
        ("https://form.typeform.com/x", "x@typeform.com", []),  # the service itself
        ("https://shop.com/", "ann@yandex.ru", []),
    ],
)
def test_names_that_cost_nothing(url: str, sender: str, found: list[str]) -> None:
    assert find_kinds(free_names, mail_from(sender, links=[link(url)])) == found


def test_some_endings_say_less() -> None:
    (strength,) = find_strengths(free_names, mail_from("x@a.shop"))
    assert 0 < strength < 1


# Names that providers make from addresses.
@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("142.132.167.72.host.provider.com", "142.132.167.72"),
        ("ip-203-0-113-9.vps.provider.co.uk", "203.0.113.9"),
        ("ec2-203-0-113-9.compute.provider.com", "203.0.113.9"),
        ("vps203-0-113-9.provider.com", "203.0.113.9"),
        ("static.203-0-113-9.provider.com", "203.0.113.9"),
        ("www.provider.com", ""),
        ("v10-0-22-4.docs.provider.com", ""),  # a version, or an address of nobody outside
        ("192-168-1-20.local.provider.com", ""),
        ("2026-11-10-2.files.provider.com", ""),  # a date
        ("203-0-113.provider.com", ""),
        ("1-800-555-1234.provider.com", ""),  # a telephone number
        ("203-0-113-9.com", ""),  # somebody bought that name
        ("203.0.113.9", ""),  # a bare address is another finding
    ],
)
def test_machine_names(host: str, address: str) -> None:
    reading = mail_from("x@shop.com", links=links_to(host))
    found = [(finding.kind, finding.facts["address"], finding.about) for finding in ip_hosts(reading)]
    assert found == ([("url:machine-name", address, f"https://{host}/")] if address else [])


@pytest.mark.parametrize(
    ("domain", "found"),
    [("ip-203-0-113-9.provider.com", ["sender:machine-name"]), ("db-3.provider.com", []), ("", [])],
)
def test_machine_names_of_senders(domain: str, found: list[str]) -> None:
    assert find_kinds(ip_hosts, mail_from(f"root@{domain}")) == found


# Links to bare addresses.
@pytest.mark.parametrize(
    ("host", "kinds"),
    [
        ("8.8.8.8", ["url:ip-host"]),
        ("[2606:4700::1111]", ["url:ip-host"]),
        ("192.168.1.1", []),  # a router's own report
        ("127.0.0.1", []),
        ("[fe80::1]", []),
        ("4chan.example", []),
        ("1.2.3.4.example", []),
        ("", []),
    ],
)
def test_numeric_host(host: str, kinds: list[str]) -> None:
    link = Link(f"http://{host}/", f"http://{host}/", host, "", "1", "text")
    assert find_kinds(ip_hosts, Reading(Message(links=(link, link)))) == kinds


def test_one_among_many_says_less() -> None:
    links = links_to("8.8.8.8", "a.example", "b.example", "c.example")
    assert find_strengths(ip_hosts, Reading(Message(links=links))) == [0.5]


# Sites that nobody was sent to before.
NEVER, OFTEN = FacetAge(), FacetAge(9, 30)


def find_sites(reading: Reading, hosts: dict[str, FacetAge], protected: Protected | None = None) -> list[str]:
    met = SenderHistory(ready=True, hosts=hosts)
    reading = msgspec.structs.replace(reading, sender_history=met, protected=protected or Protected())
    return [finding.facts["host"] for finding in new_hosts(reading)]


@pytest.mark.parametrize(
    ("link", "hosts", "found"),
    [
        ("https://a.pages.example/x", {"pages.example": NEVER}, ["pages.example"]),
        ("https://a.pages.example/x", {"pages.example": OFTEN}, []),
        ("https://www.sender.example/x", {"sender.example": NEVER}, []),  # as new as the sender
        ("https://a.pages.example/x", {}, []),  # was not asked for
    ],
)
def test_new_hosts(link: str, hosts: dict[str, FacetAge], found: list[str]) -> None:
    assert find_sites(letter("See", link=link), hosts) == found


def test_the_finding_is_about_its_link() -> None:
    reading = letter("See", link="https://a.pages.example/x")
    met = SenderHistory(ready=True, hosts={"pages.example": NEVER})
    (finding,) = new_hosts(msgspec.structs.replace(reading, sender_history=met))
    assert (finding.kind, finding.about) == ("url:new-host", "https://a.pages.example/x")


def test_own_and_partner_sites_are_not_new() -> None:
    reading = letter("See", link="https://a.pages.example/x")
    for protected in (Protected(frozenset({"pages.example"})), Protected(partner_domains=frozenset({"pages.example"}))):
        assert find_sites(reading, {"pages.example": NEVER}, protected) == []


def test_a_known_list_links_to_all_sorts_of_things() -> None:
    reading = letter("See", link="https://a.pages.example/x", fields="List-Post: <mailto:l@lists.example>\n")
    assert find_sites(reading, {"pages.example": NEVER}) == ["pages.example"], "anybody can name a list"
    met = SenderHistory(ready=True, hosts={"pages.example": NEVER})
    assert not list(new_hosts(know_list(msgspec.structs.replace(reading, sender_history=met))))


def test_a_few_are_enough() -> None:
    hosts = {f"p{number}.example": NEVER for number in range(10)}
    reading = letter(" ".join(f"https://www.{host}/" for host in hosts))
    assert len(find_sites(reading, hosts)) == MAX_NEW_HOSTS


# All links to one stranger.
@pytest.mark.parametrize(
    ("urls", "sender", "found"),
    [
        (["https://evil.com/"], "x@shop.com", ["url:foreign-target"]),
        (["https://a.evil.com/", "https://b.evil.com/"], "x@shop.com", ["url:foreign-target"]),
        (["https://evil.com/", "https://shop.com/"], "x@shop.com", ["url:foreign-target"]),  # a lure would add it
        (["https://www.shop.com/"], "x@mail.shop.com", []),
        (["https://www.shop.co.uk/"], "x@mail.shop.com", []),  # one name under two endings
        (["https://www.youtube.com/"], "x@shop.com", []),
        (["https://shop.us1.list-manage.com/"], "x@shop.com", []),
        (["https://news.com/"], "ann@gmail.com", []),  # what friends send
        ([], "x@shop.com", []),
    ],
)
def test_link_domains(urls: list[str], sender: str, found: list[str]) -> None:
    assert find_kinds(foreign_target, mail_from(sender, links=map(link, urls))) == found


def test_links_to_the_own_site_of_a_known_sender() -> None:
    reading = letter("See https://www.sender.example/", link="https://evil.com/")
    assert find_strengths(foreign_target, reading) == [0.5]
    assert not list(foreign_target(know_sender(reading)))


def test_a_member_of_a_known_list_leads_to_one_stranger() -> None:
    posted = letter("See", link="https://evil.com/", fields="List-Post: <mailto:l@lists.example>\n")
    assert find_kinds(foreign_target, posted) == ["url:foreign-target"]
    assert not list(foreign_target(know_member(posted)))


def test_an_address_in_plain_text_says_nothing() -> None:
    assert not find_kinds(foreign_target, mail_from("x@shop.com", links=[link("https://evil.com/", source="text")]))


def test_the_click_host_of_the_service_that_signed_the_mail_is_no_stranger() -> None:
    """Beside proof by DMARC alone, and not where the key only tests (RFC 6376 section 3.6.1)."""
    reading = mail_from("x@shop.com", links=[link("https://click.mailer.net/x")])
    proof = Dmarc("pass", "shop.com")
    for dkim, dmarc, is_home in (
        (Dkim("pass", "mailer.net"), proof, True),
        (Dkim("pass", "e.mailer.net"), proof, True),
        (Dkim("pass", "mailer.net", testing=True), proof, False),
        (Dkim("fail", "mailer.net"), proof, False),
        (Dkim("pass", "other.net"), proof, False),
        (Dkim("pass", "mailer.net"), Dmarc("none", "shop.com"), False),
    ):
        seen = msgspec.structs.replace(reading, authentication=Authentication(dkim=(dkim,), dmarc=dmarc))
        assert find_kinds(foreign_target, seen) == ([] if is_home else ["url:foreign-target"])
        assert find_kinds(plain_notice, seen) == (["url:leads-home"] if is_home else [])


# Where a lure leads.
LIST = "List-Post: <mailto:l@lists.example>\n"


@pytest.mark.parametrize("domain", ["gmail.com", "freemail.hu", "company.onmicrosoft.com"])
def test_proof_of_a_provider_is_none_of_who_writes(domain: str) -> None:
    """Anybody has a free mailbox: the words of such mail are not bounded, and a lure loses nothing."""
    reading = mail_from(f"x@{domain}", links=[link(f"https://{domain}/x")])
    seen = msgspec.structs.replace(reading, authentication=Authentication(dmarc=Dmarc("pass", domain)))
    away = find_link_away(seen)
    assert away
    assert (find_kinds(plain_notice, seen), away.distance) == ([], 1.0)


@pytest.mark.parametrize(
    ("link", "fields", "known", "distance"),
    [
        ("https://elsewhere.example/x", "", [], 1.0),
        ("https://www.sender.example/x", "", [], 1.0),
        ("https://elsewhere.example/x", LIST, [], 1.0),
        ("https://www.sender.example/x", LIST, [], 1.0),
        ("https://elsewhere.example/x", "", [know_sender], 1.0),
        ("https://www.sender.example/x", "", [know_sender], 0.15),
        ("https://elsewhere.example/x", LIST, [know_list], 1.0),
        ("https://www.sender.example/x", LIST, [know_list], 1.0),
        ("https://www.sender.example/x", LIST, [know_list, know_sender], 0.045),
        ("https://elsewhere.example/x", "", [know_list], 1.0),  # it names no list
        ("https://www.paypal.com/signin", "", [], 0.2),  # the company's own site catches nothing
        ("https://www.paypal.com/r?to=https://evil.example/", "", [], 1.0),
        ("https://docs.google.com/forms/x", "", [], 1.0),  # strangers have pages there
    ],
)
def test_how_far_it_leads(link: str, fields: str, known: list[Callable[[Reading], Reading]], distance: float) -> None:
    reading = letter("text", link=link, fields=fields)
    for prove in known:
        reading = prove(reading)
    way = find_link_away(reading)
    assert way is not None
    assert way.distance == pytest.approx(distance)
    assert way.link.url == link


@pytest.mark.parametrize("link", ["", "mailto:ann@elsewhere.example"])
def test_nothing_to_follow(link: str) -> None:
    assert find_link_away(letter("text", link=link)) is None


def test_a_stranger_who_links_home_may_lure() -> None:
    """Whoever buys a domain can sign for it, and lead to it."""
    reading = letter("text", link="https://www.sender.example/x")
    for stranger in (know_sender(reading, SELDOM), know_sender(reading, NEVER), know_sender(reading, aligned=False)):
        way = find_link_away(stranger)
        assert way is not None
        assert way.distance == 1.0


# Pictures from where anybody can put some.
@pytest.mark.parametrize(
    ("picture", "target", "found"),
    [
        ("https://i.imgur.com/logo.png", "https://shop.com/", ["url:picture-host"]),
        ("https://upload.wikimedia.org/logo.png", "https://shop.com/", ["url:picture-host"]),
        ("https://ci3.googleusercontent.com/proxy/x", "https://shop.com/", ["url:picture-host"]),
        ("https://images.shop.com/logo.png", "https://shop.com/", []),
        ("https://cdn.mailing.net/logo.png", "https://shop.com/", []),
        ("https://lh3.googleusercontent.com/a/photo", "https://shop.com/", []),
        ("https://i.imgur.com/album.png", "https://i.imgur.com/album", []),
    ],
)
def test_picture_host(picture: str, target: str, found: list[str]) -> None:
    links = [link(target), link(picture, source="image")]
    assert find_kinds(picture_host, mail_from("x@shop.com", links=links)) == found


def with_picture(fields: str) -> Reading:
    reading = letter("Hello", fields=fields)
    shown = (link("https://i.imgur.com/x.png", source="image"),)
    return msgspec.structs.replace(reading, message=msgspec.structs.replace(reading.message, links=shown))


@pytest.mark.parametrize(
    "field", ["In-Reply-To: <a@b.example>\n", LIST, "Resent-From: a@b.example\n", "X-Forwarded-Message-Id: <a@b>\n"]
)
def test_pictures_in_claimed_conversations(field: str) -> None:
    assert find_strengths(picture_host, with_picture(field)) == [1.0]


def test_pictures_in_conversations() -> None:
    assert not list(picture_host(know_sender(with_picture("In-Reply-To: <a@b.example>\n"))))
    assert not list(picture_host(know_member(with_picture(LIST))))


def test_pictures_of_a_known_sender_say_less() -> None:
    reading = with_picture("")
    assert find_strengths(picture_host, know_sender(reading)) == [0.7]
    signed = Authentication(dkim=(Dkim("pass", "sender.example"),))
    claimed = msgspec.structs.replace(reading, authentication=signed)
    assert find_strengths(picture_host, claimed) == [1.0]


# What one host is called says less in the digest of a weblog, which leads to many.
@pytest.mark.parametrize(("others", "strength"), [(0, 1.0), (11, 1.0), (12, 0.4), (100, 0.4)])
def test_one_host_among_many_sites(others: int, strength: float) -> None:
    hosts = ["a-b-c-d-e.example.com", *(f"site{number}.com" for number in range(others))]
    reading = Reading(Message(links=links_to(*hosts)))
    assert measure_mention(reading) == strength
    assert find_strengths(url_form, reading) == [strength]
