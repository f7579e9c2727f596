"""The guard against leaks: what tells who collected a mail, when, or for whom, is nothing that the model can see."""

from importlib.util import find_spec

import pytest

from gatepost.mail.reader import read
from gatepost.textmodel.features import Features, extract_features

BODY = (
    "Hello,\n\nthe second draft of the report is ready, and I would like to hear what you think of the last chapter.\n"
    "Shall we meet about it in the office tomorrow?\n"
)


def seen(body: str = BODY, subject: str = "the draft", **fields: str) -> Features:
    head = {"From": "Ann <ann@a.example>", "To": "bob@b.example", **{k.replace("_", "-"): v for k, v in fields.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return extract_features(read(f"{lines}Subject: {subject}\r\n\r\n{body}".encode()))


@pytest.mark.parametrize(
    "traced",
    [
        seen(Date="Mon, 12 Feb 2007 10:00:00 +0100"),
        seen(Received="from speedy.example by plg2.example; Mon, 12 Feb 2007 10:00:00 +0100"),
        seen(X_Mailer="Microsoft Outlook Express 6.00"),
        seen(User_Agent="Mutt/1.5"),
        seen(Message_ID="<20070212.4711@collector.example>"),
        seen(To="phishing@pot"),
        seen(Delivered_To="someone@spamtrap.example"),
        seen(Return_Path="<bounce-17@lists.example>"),
        seen(X_Folder="inbox"),
        seen(X_Spam_Status="Yes, score=17"),
        seen(Sender="owner@lists.example"),
        seen(subject="[ILUG] the draft"),
        seen(subject="Re: the draft"),
        seen(BODY + "-- \nBob, bob@b.example, +44 20 1234\n"),
        seen(BODY + "_______________________________________________\nList mailing list\nList@lists.example\n"),
        seen(BODY + "> On Monday somebody asked about patches\n> and others answered\n"),
        seen(BODY.replace("the office", "the office ann@a.example")),
    ],
)
def test_a_trace_changes_no_word(traced: Features) -> None:
    assert (traced.text, traced.rest) == (seen().text, seen().rest)


@pytest.mark.parametrize("name", ["Date", "Received", "X_Mailer", "User_Agent", "Message_ID", "To", "X_Folder"])
def test_a_header_field_of_the_way_changes_nothing_at_all(name: str) -> None:
    assert seen(**{name: "something 17"}) == seen()


@pytest.mark.skipif(find_spec("sklearn") is None, reason="not run: scikit-learn is not installed")
def test_a_model_of_traces_alone_cannot_tell_collections_apart() -> None:
    """The same letters in two collections, all of one side wanted and all of the other unwanted."""
    from tools.training import Example, learn

    letters = [BODY.replace("second", word) for word in ("third", "fourth", "fifth", "sixth")]
    one = [seen(text, Date="Mon, 12 Feb 2007 10:00:00 +0100", X_Mailer="Old") for text in letters]
    other = [seen(text, Date="Tue, 10 Mar 2026 10:00:00 +0000", User_Agent="New") for text in letters]
    examples = [Example(each, "ham", "old_one") for each in one * 8] + [
        Example(each, "spam", "new_one") for each in other * 8
    ]
    model = learn(examples)
    assert all(abs(model.score(each).unwanted - 0.5) < 0.02 for each in (*one, *other))
