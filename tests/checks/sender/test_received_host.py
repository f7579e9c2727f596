"""The checks of `sender/received_host`: the tricks, and what looks like them."""

import msgspec
import pytest
from tests.checks.readings import find_kinds, letter
from tests.known_senders import know_list, know_sender

from gatepost.auth.results import Authentication, Dkim, Iprev
from gatepost.checks.headers.fields import desktop_program
from gatepost.checks.reading import Reading
from gatepost.checks.sender.sending_host import MAX_HOPS, find_border_hop, received_host
from gatepost.mail.message import Envelope

# The border took the mail from a forwarding server, whose own field follows.
TOP = "from mx.club.org (mx.club.org [192.0.2.25]) by mail.house.com (8.15/8.15) with ESMTP for <ann@house.com>"
LINE = "from shop.net (1-113-0-203.adsl.provider.net [203.0.113.1])"
BY = "by mx.club.org (8.15/8.15) with ESMTP id x for <ann@club.org>"


def received(*hops: str, more: str = "") -> str:
    return "".join(f"Received: {hop}; Tue, 10 Mar 2026 10:00:00 +0000\n" for hop in hops) + more


def at_border(reading: Reading, host: str = "192.0.2.25", helo: str = "mx.club.org") -> Reading:
    envelope = Envelope("desk@sender.example", ("ann@house.com",), host, helo)
    return msgspec.structs.replace(reading, envelope=envelope)


# The server to which a forwarding address leads took the mail from a host that is no mail server.
@pytest.mark.parametrize(
    ("hops", "kinds"),
    [
        ((TOP, f"{LINE} {BY}"), ["host:recorded-line"]),
        ((TOP, f"from friend (1-113-0-203.adsl.provider.net [203.0.113.1]) {BY}"), ["helo", "host:recorded-line"]),
        ((TOP, f"from friend ([203.0.113.1]) {BY}"), ["helo", "host:recorded-no-name"]),
        ((TOP, f"from shop.net (unknown [203.0.113.1]) {BY}"), ["host:recorded-no-name"]),
        ((TOP, f"from unknown (HELO shop.net) (203.0.113.1) {BY}"), ["host:recorded-no-name"]),
        ((TOP, f"from a.net (b.shop.net [203.0.113.1] (may be forged)) {BY}"), ["host:recorded-false-name"]),
        ((TOP, f"from shop.qqqq (mail.shop.net [203.0.113.1]) {BY}"), ["helo"]),
        # Mail servers
        ((TOP, f"from mail.shop.net (mail.shop.net [203.0.113.1]) {BY}"), []),
        ((TOP, f"from a.shop.net (203-0-113-1.shop.net [203.0.113.1]) {BY}"), []),
        ((TOP, f"from a.shop.net (o203-0-113-1.smtp.big.net [203.0.113.1]) {BY}"), []),
        # A customer who signed in, a user of the server, a relay of the same house
        ((TOP, f"{LINE} {BY.replace('ESMTP', 'ESMTPSA')}"), []),
        ((TOP, f"{LINE} by mx.sender.example (8.15/8.15) with ESMTP for <bob@sender.example>"), []),
        ((TOP, f"{LINE.replace('shop.net', 'pc.club.org')} {BY}"), []),
        # The sender's own provider, which is not on the recipient's side
        ((TOP.replace("club", "provider"), f"{LINE} by mx.provider.org with ESMTP for <ann@house.com>"), []),
        # A server that does not look for names, and one with a name of its own making
        ((TOP, f"from shop.net ([203.0.113.1]) {BY.replace('(8.15/8.15)', '(Exchange)')}"), []),
        ((TOP, f"from <host> (1-113-0-203.adsl.provider.net [203.0.113.1]) {BY}"), []),
        ((TOP,), []),
        ((), []),
    ],
)
def test_received_host(hops: tuple[str, ...], kinds: list[str]) -> None:
    expected = ["host:recorded-helo" if kind == "helo" else kind for kind in kinds]
    assert find_kinds(received_host, at_border(letter("Hello", fields=received(*hops)))) == expected


LIST = "List-Post: <mailto:a@b.example>\n"


@pytest.mark.parametrize("more", [LIST, "List-Id: <a.b.example>\n", "Resent-From: bob@club.org\n"])
def test_mail_that_says_that_it_was_passed_on_is_looked_at(more: str) -> None:
    reading = at_border(letter("Hello", fields=received(TOP, f"{LINE} {BY}", more=more)))
    assert find_kinds(received_host, reading) == ["host:recorded-line"]


LISTS = "List-Post: <mailto:talk@lists.org>\n"
FROM_LIST = "from lists.org (lists.org [192.0.2.25]) by mail.house.com (8.15/8.15) with ESMTP for <ann@house.com>"
EXPANDED = "(majordomo@lists.org) by lists.org via listexpand id S1"
TO_LIST = "by mx.hoster.net (Postfix) with ESMTP id 1 for <talk@lists.org>"


@pytest.mark.parametrize(
    ("hops", "found"),
    [
        ((FROM_LIST, EXPANDED, f"{LINE} {TO_LIST}"), [("host:recorded-line", 0.5)]),
        ((FROM_LIST, f"{LINE} by lists.org (Postfix) with ESMTP id 1"), [("host:recorded-line", 0.5)]),
        ((FROM_LIST, EXPANDED, f"from friend (unknown [203.0.113.1]) {TO_LIST}"),
         [("host:recorded-helo", 1.0), ("host:recorded-no-name", 1.0)]),
        ((FROM_LIST, EXPANDED, f"from mail.shop.net (mail.shop.net [203.0.113.1]) {TO_LIST}"), []),
        # The author signed in at the list's own server, or handed the mail to a provider.
        ((FROM_LIST, f"{LINE} by lists.org (Postfix) with ESMTPSA id 1"), []),
        ((FROM_LIST, f"from mx.provider.net (mx.provider.net [198.51.100.7]) {TO_LIST}",
          f"{LINE} by mx.provider.net (Postfix) with ESMTPSA"), []),
        ((FROM_LIST, EXPANDED, f"from mx2.lists.org (mx2.lists.org [203.0.113.5]) {TO_LIST}"), []),
    ],
)  # fmt: skip
def test_the_hop_by_which_a_post_came_to_its_list(hops: tuple[str, ...], found: list[tuple[str, float]]) -> None:
    reading = at_border(letter("Hello", fields=received(*hops, more=LISTS)))
    for each in (reading, know_list(reading)):
        assert [(finding.kind, finding.strength) for finding in received_host(each)] == found
    assert not list(received_host(at_border(letter("Hello", fields=received(*hops))))), "it names no list"


def test_whoever_poses_as_a_list_is_still_looked_at() -> None:
    """A field that says that a list took the mail from a good host does not hide who handed it to us."""
    good = f"from mail.shop.net (mail.shop.net [198.51.100.7]) {TO_LIST}"
    top = f"{LINE} by mail.house.com (8.15/8.15) with ESMTP for <ann@house.com>"
    alone = find_kinds(received_host, at_border(letter("Hello", fields=received(top))))
    posing = at_border(letter("Hello", fields=received(top, good, more=LISTS)))
    assert find_kinds(received_host, posing) == alone == ["host:recorded-line"]


def test_a_known_list_takes_mail_from_its_members() -> None:
    reading = at_border(letter("Hello", fields=received(TOP, f"{LINE} {BY}", more=LIST)))
    assert not list(received_host(know_list(reading)))


def test_a_known_sender_may_have_a_host_without_a_name() -> None:
    hop = f"from shop.net (unknown [203.0.113.1]) {BY}"
    reading = at_border(letter("Hello", fields=received(TOP, hop, more="DKIM-Signature: v=1; d=sender.example\n")))
    signed = msgspec.structs.replace(reading, authentication=Authentication(dkim=(Dkim("pass", "sender.example"),)))
    for stranger in (reading, signed, know_sender(reading, aligned=False)):
        assert find_kinds(received_host, stranger) == ["host:recorded-no-name"]
    assert not list(received_host(know_sender(reading)))


def test_reports_come_from_whatever_server_there_is() -> None:
    reading = at_border(letter("Hello", sender="MAILER-DAEMON@sender.example", fields=received(TOP, f"{LINE} {BY}")))
    assert not list(received_host(reading))


def test_what_the_border_recorded_counts_less_and_not_beside_dns() -> None:
    hop = LINE + " by mail.house.com (8.15/8.15) with ESMTP for <ann@house.com>"
    reading = at_border(letter("Hello", fields=received(hop)), "203.0.113.1", "shop.net")
    (finding,) = received_host(reading)
    assert (finding.kind, finding.strength) == ("host:recorded-line", 0.6)
    known = Authentication(iprev=Iprev("pass", "1-113-0-203.adsl.provider.net"))
    assert not list(received_host(msgspec.structs.replace(reading, authentication=known)))


def test_a_hop_inside_the_house_is_passed() -> None:
    inside = "from localhost (localhost [127.0.0.1]) by mail.house.com with ESMTP"
    found = find_border_hop(at_border(letter("Hello", fields=received(inside, TOP, f"{LINE} {BY}"))))
    assert found is not None
    assert (found[0], found[1].address) == (2, "203.0.113.1")


def test_no_more_hops_are_read_than_allowed() -> None:
    many = [f"from a{number}.house.com (a{number}.house.com [192.0.2.1]) by b.house.com" for number in range(40)]
    found = find_border_hop(letter("Hello", fields=received(*many)))
    assert found is not None
    assert found[0] == MAX_HOPS - 1


UNSUBSCRIBE = "List-Unsubscribe: <https://sender.example/>\n"


@pytest.mark.parametrize(
    ("hops", "more", "kinds"),
    [
        ((TOP, f"{LINE} {BY}"), "", ["host:desktop-program"]),
        ((TOP, f"{LINE} {BY}", "from pc by shop.net with ESMTPA"), "", []),
        ((TOP, f"{LINE} {BY}"), UNSUBSCRIBE, ["host:desktop-program"]),
        ((TOP, f"{LINE} {BY}"), LIST, ["host:desktop-program"]),
        ((TOP, f"{LINE} {BY.replace('ESMTP', 'ESMTPA')}"), "", []),
    ],
)
def test_desktop_programs_at_a_forwarding_server(hops: tuple[str, ...], more: str, kinds: list[str]) -> None:
    fields = received(*hops, more=more + "X-Mailer: Microsoft Outlook Express 6.00.2900.2180\n")
    assert find_kinds(desktop_program, at_border(letter("Hello", fields=fields))) == kinds


def test_software_of_known_newsletters_keeps_the_name_of_a_program() -> None:
    fields = received(TOP, f"{LINE} {BY}", more=UNSUBSCRIBE + "X-Mailer: Microsoft Outlook Express 6.00.2900.2180\n")
    reading = at_border(letter("Hello", fields=fields))
    assert not list(desktop_program(know_sender(reading)))
    assert list(desktop_program(know_sender(reading, aligned=False)))
