"""The checks of `headers/replies`: the tricks, and what looks like them."""

from functools import partial

import msgspec
import pytest
from tests.checks.readings import find_kinds, find_strengths, letter, open_letter
from tests.known_senders import SELDOM, know_list, know_member

from gatepost.checks.headers.replies import fake_bounce, fake_reply, stolen_thread
from gatepost.mail.sender_history import SenderHistory, Standing
from gatepost.questions import FacetAge

AWAY = "https://elsewhere.example/x"


# Answers to nothing.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        ("Please see the offer.", "Re: your order", AWAY, ["header:fake-reply"]),
        ("Bitte ansehen.", "AW: Ihre Bestellung", AWAY, ["header:fake-reply"]),
        ("Fine with me.\n\n> Shall we meet?", "Re: meeting", "", []),  # quotes what it answers
        ("Ann wrote:\nShall we meet?\n\nYes.", "RE: meeting", "", []),
        ("Regarding the offer", "Regarding the offer", "", []),
        ("Hello", "Reorganisation: next steps", "", []),
    ],
)
def test_fake_reply(text: str, subject: str, link: str, kinds: list[str]) -> None:
    assert find_kinds(fake_reply, letter(text, subject, link=link), 0.5) == kinds


# Conversations that never were, and answers that merely lost their thread.
QUOTE = "Please pay today.\n\nFrom: Ann <ann@house.example>\nSent: Friday\nTo: Service\n\nWe will pay on Tuesday."
MET = SenderHistory(ready=True)
LIST = "List-Post: <mailto:l@l.example>\n"


@pytest.mark.parametrize(
    ("text", "subject", "fields", "strength"),
    [
        (QUOTE, "Re: Invoice 88", "", 1.0),
        (QUOTE, "Re: Invoice 88", LIST, 1.0),
        (QUOTE.replace("From:", "> Von:"), "AW: Rechnung 88", "", 1.0),
        (QUOTE, "Re: Invoice 88", "In-Reply-To: <1@house.example>\n", None),
        (QUOTE, "Re: Invoice 88", "References: <1@house.example>\n", None),
        (QUOTE, "Invoice 88", "", None),  # a forward, or a copy
        (QUOTE.replace("house.example", "sender.example"), "Re: Invoice 88", "", None),  # quotes itself
        ("Fine with me.\n\n> Shall we meet?", "Re: meeting", "", None),
    ],
)
def test_invented_thread(text: str, subject: str, fields: str, strength: float | None) -> None:
    reading = msgspec.structs.replace(letter(text, subject, fields=fields), sender_history=MET)
    assert find_strengths(fake_reply, reading) == ([] if strength is None else [strength])


def test_posts_of_a_known_list_may_refer_to_nothing() -> None:
    posted = letter(QUOTE, "Re: Invoice 88", fields=LIST)
    assert not list(fake_reply(know_list(posted)))


def test_it_weighs_little_where_the_sender_may_be_known() -> None:
    (finding,) = fake_reply(letter(QUOTE, "Re: Invoice 88"))
    assert finding.strength == 0.2


# Answers of strangers in other people's conversations, and those of people who belong there.
THREAD = (
    "See the new papers.\n\nFrom: Ann <ann@house.example>\nSent: Friday\nTo: Bert Smith <bert@parts.example>\n"
    "Subject: Pumps\n\nWe need the pumps."
)
BROUGHT = "https://papers.example/x"


@pytest.mark.parametrize(
    ("sender", "text", "link", "strength"),
    [
        ("Karl <karl@stranger.example>", THREAD, BROUGHT, 0.8),
        ("Karl <karl@gmail.com>", THREAD, BROUGHT, 1.0),
        ("Bert Smith <b.smith@stranger.example>", THREAD, BROUGHT, 1.0),  # his name, not his address
        ("Karl <karl@stranger.example>", "Yes.\nOn Friday, Ann <ann@house.example> wrote:\n> Pumps?", BROUGHT, 0.4),
        ("Karl <karl@stranger.example>", THREAD.replace("From:", "> Von:").replace("To:", "> An:"), BROUGHT, 0.8),
        ("Bert Smith <bert@parts.example>", THREAD, BROUGHT, None),  # one of them
        ("Carla <carla@mail.parts.example>", THREAD, BROUGHT, None),  # a colleague
        ("Ben <ben@house.example>", THREAD, BROUGHT, None),  # a colleague of the reader
        ("Karl <karl@stranger.example>", THREAD, "https://www.parts.example/x", None),  # brings what is theirs
        ("Karl <karl@stranger.example>", THREAD, "https://stranger.example/x", None),
        ("Karl <karl@stranger.example>", THREAD, "", None),  # brings nothing
        ("Karl <karl@stranger.example>", THREAD.replace("house.example", "other.example"), BROUGHT, None),
        ("Karl <karl@stranger.example>", THREAD.replace("Bert", "Karl <karl@stranger.example>, Bert"), BROUGHT, None),
    ],
)
def test_stolen_thread(sender: str, text: str, link: str, strength: float | None) -> None:
    fields = "In-Reply-To: <1@house.example>\n"
    reading = letter(f"{link}\n{text}", "Re: Pumps", sender=sender, envelope="", fields=fields)
    reading = msgspec.structs.replace(reading, sender_history=MET)
    assert find_strengths(stolen_thread, reading) == ([] if strength is None else [strength])


def test_a_stolen_thread_needs_an_answer_of_a_stranger() -> None:
    karl = partial(letter, f"{BROUGHT}\n{THREAD}", sender="Karl <karl@stranger.example>", envelope="")
    posted = karl("Re: Pumps", fields=LIST)
    assert list(stolen_thread(know_list(posted))) == []
    assert find_strengths(stolen_thread, know_list(posted, SELDOM)) == [0.8], "anybody can name one"
    assert list(stolen_thread(karl("Pumps"))) == []
    # Where too little is remembered, the sender may be known.
    (finding,) = stolen_thread(karl("Re: Pumps"))
    assert finding.strength == 0.4
    address = Standing(proven=FacetAge(9, 30))
    known = SenderHistory(ready=True, address=address, domain=address)
    met = msgspec.structs.replace(karl("Re: Pumps"), sender_history=known)
    assert list(stolen_thread(met)) == []


# Bounces, and mail that only looks like one.
RETURNING = "Mail delivery failed: returning message to sender"


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (f"{RETURNING}\nSix messages could not reach you. Release them here.", True),
        ("Unzustellbar: wichtige Nachricht\nIhre Nachricht wartet. Hier ansehen.", True),
        # The server speaks.
        ("Undelivered Mail Returned to Sender\nThe following address failed: 550 5.1.1 user unknown", False),
        ("Re: Undelivered Mail Returned to Sender\nIs the mail server broken?", False),  # people who talk about one
        ("Delivered\nYour parcel was delivered.", False),
    ],
)
def test_fake_bounce(written: str, found: bool) -> None:
    assert find_kinds(fake_bounce, open_letter(written, AWAY), 0.5) == ["header:fake-bounce"] * found


def test_a_bounce_that_names_a_list_is_still_false() -> None:
    posted = letter("Six messages could not reach you.", RETURNING, link=AWAY, fields=LIST)
    assert find_kinds(fake_bounce, posted) == ["header:fake-bounce"]
    assert not list(fake_bounce(know_member(posted)))
