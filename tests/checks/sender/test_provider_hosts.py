"""The check of `sender/host_names` that knows providers: the trick, and what looks like it."""

import pytest
from tests.checks.readings import find_kinds
from tests.known_senders import SELDOM, know_list

from gatepost.auth.results import Authentication, Dkim
from gatepost.checks.reading import Protected, Reading
from gatepost.checks.sender.sending_host import provider_absent
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read

HOP = "Received: from mx.rented.example (mx.rented.example [192.0.2.7]) by mx.house.example; Tue, 10 Nov 2026\n"
LIST = "List-Post: <mailto:l@lists.example>\n"


@pytest.mark.parametrize(
    ("sender", "header", "found"),
    [
        ("ann@gmail.com", HOP, 1),
        ("ann@hotmail.co.uk", HOP + "Message-ID: <1@rented.example>\n", 1),
        ("ann@yahoo.com", HOP + "DKIM-Signature: d=rented.example\n", 1),
        ("ann@gmail.com", HOP.replace("mx.rented.example", "mail-a.google.com"), 0),
        ("ann@gmail.com", HOP + "Message-ID: <CAF1@mail.gmail.com>\n", 0),
        ("ann@gmail.com", HOP + "List-Id: <l.lists.example>\n", 1),
        ("ann@gmail.com", HOP + LIST, 1),
        ("ann@gmail.com", HOP + "Sender: l@lists.example\n", 1),
        ("ann@gmail.com", HOP + "Resent-From: bob@house.example\n", 1),
        ("ann@gmail.com", HOP + "X-Forwarded-For: ann@gmail.com\nARC-Seal: i=1\n", 1),
        ("ann@gmail.com", "", 0),  # a draft: nothing is known of its way
        ("ann@shop.example", HOP, 0),
        ("ann@fastmail.com", HOP, 0),  # whose customers send through hosts of their own as well
    ],
)
def test_provider_absent(sender: str, header: str, found: int) -> None:
    message = read(f"From: Ann <{sender}>\n{header}\ntext\n".encode())
    reading = Reading(message, Envelope(sender, remote_address="192.0.2.7"))
    assert find_kinds(provider_absent, reading) == ["sender:provider-absent"] * found


def test_a_known_list_passes_the_mail_of_its_members_on() -> None:
    message = read(f"From: Ann <ann@gmail.com>\n{HOP}{LIST}\ntext\n".encode())
    reading = Reading(message, Envelope("l-bounces@lists.example", remote_address="192.0.2.7"))
    assert not list(provider_absent(know_list(reading)))
    assert list(provider_absent(know_list(reading, SELDOM)))


def test_a_list_that_keeps_the_fields_of_its_members_says_where_a_post_came_from() -> None:
    top = "Received: from lists.example (lists.example [192.0.2.7]) by mx.house.example with ESMTP\n"
    taken = "Received: from x.net (x.net [198.51.100.9]) by mx.lists.example with ESMTP for <l@lists.example>\n"

    def look(hop: str) -> int:
        message = read(f"From: Ann <ann@gmail.com>\n{top}{hop}{LIST}\ntext\n".encode())
        reading = Reading(message, Envelope("l-bounces@lists.example", remote_address="192.0.2.7"))
        return len(list(provider_absent(know_list(reading))))

    assert look(taken) == 1
    assert look(taken.replace("x.net", "mail-x.google.com")) == 0
    assert look("") == 0


def test_signed_trusted_and_returned_mail_is_believed() -> None:
    message = read(f"From: Ann <ann@gmail.com>\n{HOP}\ntext\n".encode())
    signed = Authentication(dkim=(Dkim("pass", "gmail.com"),))
    envelope = Envelope("ann@gmail.com", remote_address="192.0.2.7")
    assert not list(provider_absent(Reading(message, envelope, signed)))
    assert not list(provider_absent(Reading(message, envelope, protected=Protected(host_trusted=True))))
    assert not list(provider_absent(Reading(message, Envelope("", remote_address="192.0.2.7"))))
