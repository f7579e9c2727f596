"""What an attacker gains by the usual tricks: the share of caught mail that is still caught after each of them.

Unwanted messages are rebuilt as plain or HTML mail with the same header, envelope and visible text, first as they are
and then with one trick each, so that every trick starts from the same mail; the whole analysis judges each. The model
is the shipped one, which has seen these messages: the figures compare tricks, they are no detection rates.
"""

import base64
import random
from collections.abc import Callable
from html import escape

from bench import corpus
from gatepost import names
from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.mail import links
from gatepost.mail.message import Envelope, Message
from gatepost.mail.reader import read
from gatepost.questions import Answer, Antivirus, Dns, DnsAnswer, Lookup, LookupAnswer, Question

COUNT = 400
NOW = 1_794_302_520.0
_LOOKALIKES = str.maketrans("aeopcxyi", "аеорсхуі")
_LEET = str.maketrans("oieas", "01345")
# A paragraph of an ordinary working day, as spammers paste them.
GOOD = (
    "Thanks for the notes from the meeting on the project. I have attached the draft of the report, and would like to "
    "discuss the questions about the budget before we change the schedule. The test fails on my machine, but the patch "
    "looks fine; could you review it and reply to the list? We can talk about it after lunch in the office. "
) * 6

Trick = Callable[[str, random.Random], tuple[str, str]]


def run() -> str:
    """Every trick on the same messages."""
    try:
        mail = corpus.mail(COUNT * 4)
    except corpus.NotPresentError as absence:
        return f"not run: {absence}"
    names.preload_suffixes()
    links.preload_wrappers()
    unwanted = [each for each in mail if each.label in ("spam", "phish")][:COUNT]
    read_mail = [(each, read(each.raw)) for each in unwanted]
    chosen = [(each, message) for each, message in read_mail if len(_visible(message)) > 200]
    rows = [_row(name, trick, chosen) for name, trick in TRICKS.items()]
    head = f"{len(chosen)} unwanted messages, rebuilt.\n\n| Trick | Held | The model's points, mean |\n|---|---|---|\n"
    return head + "\n".join(rows)


def _row(name: str, trick: Trick, chosen: list[tuple[corpus.Mail, Message]]) -> str:
    held, points = 0, 0.0
    for number, (mail, message) in enumerate(chosen):
        plain, html = trick(_visible(message), random.Random(number))
        report = _judged(_rebuilt(message, plain, html), mail)
        held += report.decision != "deliver"
        points += sum(line.counted for line in report.lines if line.kind.startswith("text:model")) / 100
    return f"| {name} | {held / len(chosen):.1%} | {points / len(chosen):.2f} |"


def _visible(message: Message) -> str:
    return max((each.visible for each in message.texts if not each.attached), key=len, default="")[:6000]


def _rebuilt(message: Message, plain: str, html: str) -> bytes:
    """The head of the message as far as the checks read it, and a new body."""
    halves = [_part("plain", plain)] * bool(plain) + [_part("html", html)] * bool(html)
    body = halves[0]
    if len(halves) > 1:
        inside = b"".join(b"--edge\r\n" + half for half in halves)
        body = b"Content-Type: multipart/alternative; boundary=edge\r\n\r\n" + inside + b"--edge--\r\n"
    kept = [field for field in message.headers.fields if not field.name.startswith(("content-", "mime-version"))]
    return b"".join(field.raw.rstrip(b"\r\n") + b"\r\n" for field in kept) + b"MIME-Version: 1.0\r\n" + body


def _part(form: str, content: str) -> bytes:
    head = f"Content-Type: text/{form}; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    return head.encode() + base64.encodebytes(content.encode("utf-8", "replace")).replace(b"\n", b"\r\n")


def _judged(raw: bytes, mail: corpus.Mail) -> Report:
    told = mail.envelope
    remote, helo = told.get("remoteAddress"), told.get("senderHelo")
    envelope = Envelope(
        str(told["envelopeFrom"]),
        ("recipient@example.org",),
        str(remote) if remote else None,
        str(helo) if helo else None,
    )
    asking = analyse(raw, envelope, Context(now=NOW))
    try:
        questions = next(asking)
        while True:
            questions = asking.send(tuple(map(_answer, questions)))
    except StopIteration as stop:
        report: Report = stop.value
    return report


def _answer(question: Question) -> Answer:
    if isinstance(question, Lookup):
        return LookupAnswer()
    return DnsAnswer("no-name") if isinstance(question, Dns) else Antivirus()


def _page(shown: str, more: str = "") -> str:
    return f"<html><body><p>{escape(shown).replace(chr(10), '<br>')}</p>{more}</body></html>"


def _some(shown: str, dice: random.Random, change: Callable[[str], str]) -> str:
    """Every other longer word, changed."""
    return " ".join(change(w) if len(w) > 3 and "://" not in w and dice.random() < 0.5 else w for w in shown.split(" "))


def _image(shown: str, _dice: random.Random) -> tuple[str, str]:
    link = next((word for word in shown.split() if word.startswith("http")), "http://pictures.test/")
    return "", f'<html><body><a href="{escape(link)}"><img src="http://pictures.test/1.png"></a></body></html>'


TRICKS: dict[str, Trick] = {
    "none, plain text": lambda shown, _: (shown, ""),
    "none, HTML": lambda shown, _: ("", _page(shown)),
    "good words after the text": lambda shown, _: (shown + "\n\n" + GOOD, ""),
    "good words before the text": lambda shown, _: (GOOD + "\n\n" + shown, ""),
    "good words, hidden": lambda shown, _: ("", _page(shown, f'<div style="display:none">{GOOD}</div>')),
    "good words in the plain half only": lambda shown, _: (GOOD, _page(shown)),
    "look-alike letters in half of the words": lambda shown, d: (
        _some(shown, d, lambda w: w.translate(_LOOKALIKES)),
        "",
    ),
    "zero-width spaces in half of the words": lambda shown, d: (_some(shown, d, "\u200b".join), ""),
    "digits for letters in half of the words": lambda shown, d: (_some(shown, d, lambda w: w.translate(_LEET)), ""),
    "blanks between letters in half of the words": lambda shown, d: (_some(shown, d, " ".join), ""),
    "noise in base64 after the text": lambda shown, d: (
        shown + "\n" + base64.encodebytes(d.randbytes(1500)).decode(),
        "",
    ),
    "text as a picture": _image,
    "quoted as a reply": lambda shown, _: ("\n".join("> " + line for line in shown.split("\n")), ""),
}
