"""Answers to nothing: `Re:` or `Fwd:` in the subject, and no reference to any message.

A reader who believes in an old conversation trusts what comes next. Mail programs have written In-Reply-To or
References into answers for decades (RFC 5322 section 3.6.4). Some old ones and web forms do not, and people type
`Re:` by hand; a forward starts anew in some programs. So it weighs little, and less where the text does quote
something.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

FAKE = Kind("header:fake-reply", "The subject claims an answer or forward, but the mail refers to no other")
KINDS = (FAKE,)

_ANSWER = re.compile(
    r"\s{0,5}(?:re|aw|sv|antw|rv|res|odp|ynt|vs|回复|回覆|答复|返信)\s{0,2}(?:\[\d{1,3}\])?\s{0,2}[:：]", re.IGNORECASE
)
_REFERENCES = (
    "in-reply-to",
    "references",
    "thread-index",
    "thread-topic",
    "x-ms-has-attach",
    "resent-from",
    "x-forwarded-message-id",
)
_QUOTES = (
    *("\n>", "\n|", "-----original message", "-------- original", "\nfrom:", "\nvon:", "\nde:", "\nda:"),
    *("wrote:", "schrieb", "a écrit", "escribió", "escreveu", "ha scritto", "schreef", "写道", "пишет"),
)


def claims_answer(reading: Reading) -> bool:
    """Whether the subject says that this is an answer, and no field says to what."""
    answers = _ANSWER.match(reading.message.subject)
    return bool(answers) and not any(name in reading.fields for name in _REFERENCES)


def check(reading: Reading) -> Iterator[Finding]:
    if not claims_answer(reading) or reading.is_discussion:
        return
    quoted = any(quote in text.visible[:20_000].casefold() for text in reading.message.texts[:4] for quote in _QUOTES)
    if not quoted:
        yield FAKE.at("Subject", subject=reading.message.subject)
