"""The mail of a soak: real messages where they are present, generated, large and hostile ones."""

import base64
import io
import random
import zipfile
from email.message import EmailMessage

from bench import corpus, nasty
from bench.sample import EICAR, MAILS

REAL = 1_500


class Mixture:
    """Messages without end, the same for the same seed; each has its number in it, so no two are alike."""

    def __init__(self, seed: int, tag: str) -> None:
        self._dice = random.Random(seed)
        self._tag = tag
        self._number = 0
        self._real = _real_mail()

    def next(self) -> tuple[bytes, dict[str, object]]:
        """A message and its envelope."""
        self._number += 1
        dice, mark = self._dice, f"{self._tag}-{self._number}"
        sender = f"sender{dice.randrange(300)}@shop{dice.randrange(60)}.example"
        envelope: dict[str, object] = {"envelopeFrom": sender, "envelopeRecipients": ["r@example.org"]}
        share = dice.random()
        if share < 0.70:
            raw, known = dice.choice(self._real)
            return b"X-Soak: %b\r\n" % mark.encode() + raw, known or envelope
        if share < 0.80:
            raw = _with_file(mark, dice)
        elif share < 0.88:
            raw = nasty.message(dice)
        elif share < 0.97:
            raw = nasty.mutation(dice.choice(self._real)[0][:200_000] or b"x", dice)
        elif share < 0.985:
            raw = _large(mark, dice)
        elif share < 0.99:
            raw = b"X-Gatepost-Fault: %b\r\n" % dice.choice(_FAULTS) + _plain(mark)
        else:
            raw = _plain(mark)
        return b"X-Soak: %b\r\n" % mark.encode() + raw, envelope


# What code in a worker can do: never end, take memory, die, raise.
_FAULTS = (b"check:spin", b"parse:spin", b"check:grow", b"check:die", b"parse:die", b"check:crash")


def _real_mail() -> list[tuple[bytes, dict[str, object]]]:
    try:
        return [(mail.raw, mail.envelope) for mail in corpus.mail(REAL, max_bytes=300_000)]
    except corpus.NotPresentError:
        made: list[tuple[bytes, dict[str, object]]] = []
        for mail in MAILS:
            message = EmailMessage()
            message["From"], message["To"], message["Subject"] = mail.sender, mail.to[0], mail.subject
            message.set_content(mail.text)
            made.append((message.as_bytes(), {}))
        return made


def _plain(mark: str) -> bytes:
    return f"From: ann@example.org\r\nTo: bob@example.com\r\nSubject: {mark}\r\n\r\nSee you on Tuesday.\r\n".encode()


def _with_file(mark: str, dice: random.Random) -> bytes:
    """A file in a zip: a harmless one, a script, or the test virus."""
    name, content = dice.choice(
        (
            ("notes.txt", b"notes"),
            ("invoice.js", b"WScript.Echo(1)"),
            ("a.com", EICAR.encode()),
            ("b.bin", b"\0" * 9999),
        )
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "ann@example.org", "bob@example.com", f"Files {mark}"
    message.set_content("The files that you asked for.")
    message.add_attachment(packed.getvalue(), maintype="application", subtype="zip", filename="files.zip")
    return message.as_bytes()


def _large(mark: str, dice: random.Random) -> bytes:
    size = dice.randrange(1 << 20, 8 << 20)
    body = base64.encodebytes(dice.randbytes(size))
    head = f"From: ann@example.org\nTo: bob@example.com\nSubject: {mark}\nContent-Type: application/octet-stream\n"
    return head.encode() + b"Content-Transfer-Encoding: base64\n\n" + body
