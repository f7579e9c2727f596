"""The checks of `headers/habits`: the tricks, and what looks like them."""

import pytest
from tests.checks.readings import find_kinds
from tests.known_senders import SELDOM, know_list, know_member, know_sender

from gatepost.checks.headers.fields import desktop_program, field_habits
from gatepost.checks.reading import Protected, Reading
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read

ANSWER, LIST = "In-Reply-To: <1@a.example>\n", "List-Post: <mailto:l@lists.example>\n"


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ("Date: Tue, 10 Nov 2026 09:12:00\n", "header:odd-date"),
        ("From: Prize Desk ,_<x@shop.example>\n", "header:odd-from"),
        ('From: "Winner     #a7f"<x@shop.example>\n', "header:odd-from"),
        ("From: Shop<x@shop.example>\n", "header:odd-from"),
        ("SUBJECT: x\n", "header:odd-spelling"),
        ("From: Bücher <x@shop.example>\n", "header:raw-characters"),
        ("Subject: Grüße\n", "header:raw-characters"),
        ("X-Priority: 1 (Highest)\n", "header:high-priority"),
        ("Importance: High\n", "header:high-priority"),
        ("X-PHP-Originating-Script: 33:mail.php\n", "header:script"),
        ("Date: Tue, 10 Nov 2026 09:12:00 +0000 (UTC)\n", None),
        ("Date: 10 Nov 2026 09:12 GMT\n", None),
        ("Date: Tue, 10-Nov-2026 9:12:00 -0400\n", None),
        ("Date: whenever\n", None),  # which is no date at all, and another finding
        ('From: "Shop, The" <x@shop.example>\n', None),
        ("From: <x@shop.example>\n", None),
        ("From: x@shop.example\n", None),
        ("From: =?utf-8?q?B=C3=BCcher?= <x@shop.example>\n", None),
        ("From: Bücher <x@bücher.example>\n", None),  # RFC 6532
        ("Subject: x\nX-Priority: 3\n", None),
        (f"X-Priority: 1\n{ANSWER}", "header:high-priority"),
        (f"X-Priority: 1\n{LIST}", "header:high-priority"),
        ("", None),
    ],
)
def test_field_habits(header: str, kind: str | None) -> None:
    reading = Reading(read(f"{header}X-Other: x\n\ntext\n".encode()))
    assert find_kinds(field_habits, reading) == ([kind] if kind else [])


def test_answers_of_known_senders_and_posts_of_known_lists_may_be_flagged() -> None:
    answer = Reading(read(f"X-Priority: 1\n{ANSWER}\ntext\n".encode()))
    post = Reading(read(f"X-Priority: 1\n{LIST}\ntext\n".encode()))
    assert not list(field_habits(know_sender(answer)))
    assert not list(field_habits(know_member(post)))
    for claimed in (know_sender(answer, SELDOM), know_sender(answer, aligned=False), know_list(post, SELDOM)):
        assert find_kinds(field_habits, claimed) == ["header:high-priority"]


HOP = "Received: from home (unknown [192.0.2.7]) by mx.house.example; Tue, 10 Nov 2026 09:12:00 +0000\n"
FIRST = "Received: from pc by mail.shop.example with ESMTPSA; Tue, 10 Nov 2026 09:11:00 +0000\n"
OUTLOOK = "X-Mailer: Microsoft Outlook Express 6.00\n"


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (HOP + OUTLOOK, 1),
        (OUTLOOK, 1),  # a border that has not written its own field yet
        (HOP + "User-Agent: Mozilla Thunderbird\n", 1),
        (HOP + FIRST + OUTLOOK, 0),
        (FIRST + OUTLOOK, 0),
        (HOP + "X-Mailer: newsletter 1.0\n", 0),
        (HOP, 0),
    ],
)
def test_desktop_program(header: str, found: int) -> None:
    reading = Reading(read(f"From: x@shop.example\n{header}\ntext\n".encode()), Envelope(remote_address="192.0.2.7"))
    assert find_kinds(desktop_program, reading) == ["host:desktop-program"] * found


@pytest.mark.parametrize(
    "protected", [Protected(own_domains=frozenset({"shop.example"})), Protected(host_trusted=True)]
)
def test_own_users_may_deliver_with_a_desktop_program(protected: Protected) -> None:
    message = read(f"From: x@shop.example\n{HOP}{OUTLOOK}\ntext\n".encode())
    reading = Reading(message, Envelope(remote_address="192.0.2.7"), protected=protected)
    assert not list(desktop_program(reading))


def test_a_second_name_of_a_program_hides_nothing() -> None:
    one, two = "X-Mailer: Microsoft Outlook, Build 10.0.2627\n", "X-Mailer: Mailing service\n"
    for header in (one, two + one, one + two):
        reading = Reading(
            read(f"From: a@b.example\n{header}\ntext\n".encode()), Envelope("a@b.example", (), "192.0.2.1")
        )
        assert find_kinds(desktop_program, reading) == ["host:desktop-program"]
