"""A letter as checks on text see it: written as mail, and read by the reader."""

from collections.abc import Callable

import pytest

from gatepost.checks.reading import Reading
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read

Letter = Callable[..., Reading]


@pytest.fixture
def letter() -> Letter:
    """`letter(text, subject, link=…)`: HTML where there is a link or a picture, else plain text."""

    def written(
        text: str = "",
        subject: str = "Hello",
        *,
        link: str = "",
        picture: bool = False,
        sender: str = "Service <desk@sender.example>",
        envelope: str = "desk@sender.example",
        fields: str = "",
    ) -> Reading:
        body, kind = text, "plain"
        if link or picture:
            inside = '<img src="https://pictures.example/x.png">' if picture else "Continue"
            body = f"<p>{text.replace(chr(10), '<br>')}</p>" + (f'<a href="{link}">{inside}</a>' if link else inside)
            kind = "html"
        raw = f"From: {sender}\nTo: ann@house.example\nSubject: {subject}\n{fields}"
        raw += f"Content-Type: text/{kind}; charset=utf-8\n\n{body}\n"
        return Reading(read(raw.encode()), Envelope(envelope, ("ann@house.example",), "192.0.2.1"))

    return written
