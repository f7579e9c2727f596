"""Whole messages, judged on who sent them and where they lead: attacks beside innocent twins, by the shipped policy."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatepost.analysis.verdict import judge
from gatepost.checks.reading import Reading
from gatepost.checks.registry import CHECKS
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read
from gatepost.policy.rules import shipped_policy

DELIVERED = {"clean", "bulk"}


def verdict(raw: str, sender: str, helo: str = "mail.provider.com", host: str = "203.0.113.9") -> str:
    envelope = Envelope(sender, ("ann@corp.com",), host, helo)
    reading = Reading(read(raw.encode()), envelope, now=1_773_144_000.0)
    findings = [finding for check in CHECKS for finding in check.run(reading)]
    return judge(findings, [], shipped_policy()).verdict


def html(header: str, *links: tuple[str, str]) -> str:
    body = "".join(f'<p><a href="{url}">{text}</a></p>' for url, text in links)
    return (
        f"{header}\nTo: ann@corp.com\nDate: Tue, 10 Mar 2026 12:00:00 +0000\nMessage-ID: <1.2@host.com>\n"
        f"MIME-Version: 1.0\nContent-Type: text/html\n\n<html><body><p>Hello Ann</p>{body}</body></html>\n"
    )


ATTACKS = {
    "a brand that leads elsewhere": (
        html("From: PayPal Service <info@tradestars.com>\nSubject: Notice", ("https://evil-shop.icu/x", "Log in")),
        "info@tradestars.com",
    ),
    "a brand shown, another site behind": (
        html("From: Desjardins <x@desjardins.com>\nSubject: Avis", ("http://broken.com/a", "www.desjardins.com")),
        "nobody@server.com",
    ),
    "a domain that looks like another": (
        html("From: Support <x@paypa1.com>\nSubject: Notice", ("https://paypa1.com/login#ann@corp.com", "Log in")),
        "x@paypa1.com",
    ),
    "no address and an answer to a free mailbox": (
        html(
            "From: Microsoft account team\nReply-To: x1@gmail.com\nSubject: Sign-in", ("mailto:x1@gmail.com", "Report")
        ),
        "bounce@evil.com",
    ),
}
TWINS = {
    "a newsletter with click counters": (
        html(
            (
                "From: The Shop <news@mail.shop.com>\nReply-To: help@shop.com\nSubject: Sale\n"
                "List-Unsubscribe: <https://shop.us1.list-manage.com/u>"
            ),
            ("https://shop.us1.list-manage.com/c?e=1", "www.shop.com"),
            ("https://shop.us1.list-manage.com/u?e=ann@corp.com", "Unsubscribe"),
        ),
        "bounce-mc.us1_1.2-ann=corp.com@mail1.mcsv.net",
    ),
    "a password reset": (
        html("From: Forge <noreply@forge.com>\nSubject: Reset", ("https://forge.com/reset?t=9f8e7d", "Reset password")),
        "noreply@forge.com",
    ),
    "the brand itself": (
        html("From: PayPal <service@paypal.com>\nSubject: Receipt", ("https://www.paypal.com/a", "www.paypal.com")),
        "service@paypal.com",
    ),
    "a friend with a link": (
        html("From: Bob <bob@gmail.com>\nSubject: Look", ("https://news.com/story", "this")),
        "bob@gmail.com",
    ),
    "a colleague with a shortened link": (
        html("From: Bob <bob@corp.com>\nSubject: Slides", ("https://bit.ly/abc", "slides")),
        "bob@corp.com",
    ),
    "a list that rewrites the sender": (
        html(
            'From: "bob@example.com via dev" <dev@lists.org>\nReply-To: bob@example.com\nSubject: [dev] x\n'
            "List-Post: <mailto:dev@lists.org>\nList-Id: <dev.lists.org>",
            ("https://lists.org/archive", "archive"),
        ),
        "dev-bounces@lists.org",
    ),
    "a survey by a shop": (
        html(
            "From: Shop <hi@shop.com>\nSubject: Survey",
            ("https://shop.typeform.com/to/x", "Start"),
            ("https://shop.com", "Us"),
        ),
        "hi@shop.com",
    ),
    "a small firm that resells": (
        html("From: Makita Tool Shop <info@toolshop.com>\nSubject: Offer", ("https://toolshop.com/makita", "Drills")),
        "info@toolshop.com",
    ),
    "a server's nightly report": (
        (
            "From: root@db1.corp.com\nTo: ann@corp.com\nSubject: cron\nDate: Tue, 10 Mar 2026 12:00:00 +0000\n"
            "Message-ID: <1@db1.corp.com>\n\ndisk 80% http://192.168.0.5:8080/\n"
        ),
        "root@db1.corp.com",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_held(name: str) -> None:
    raw, sender = ATTACKS[name]
    assert verdict(raw, sender) not in DELIVERED


@pytest.mark.parametrize("name", TWINS)
def test_twins_are_delivered(name: str) -> None:
    raw, sender = TWINS[name]
    assert verdict(raw, sender) in DELIVERED


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.sampled_from(
            ["From", "To", "Reply-To", "Date", "Received", "Message-ID", "X-Mailer", "Subject", "List-Post"]
        )
    ),
    st.lists(st.text(max_size=40), min_size=1),
    st.text(max_size=40),
    st.text(max_size=40),
)
def test_no_header_or_envelope_breaks_a_check(names: list[str], values: list[str], sender: str, helo: str) -> None:
    lines = [f"{name}: {values[at % len(values)]}" for at, name in enumerate(names)]
    raw = "\n".join([*lines, "Content-Type: text/html", "", f'<a href="http://{helo}">{sender}</a>'])
    reading = Reading(read(raw.encode("utf-8", "replace")), Envelope(sender, (sender, helo), "203.0.113.9", helo))
    for check in CHECKS:
        list(check.run(reading))
