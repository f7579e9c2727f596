"""What a sender can write to get held mail delivered: every claim, pairs of them, and honest prose.

    python -m bench.claims [--count N] [--pairs]

Messages that are held get one thing more: fields of lists, newsletters, answers and machines, a signature that nobody
made, links to the sender's own site, a disclaimer, or two kilobytes of honest prose (visible, hidden, quoted, or
below a signature). Nothing of that proves anything, so all of them should stay held. `never` are the messages with a
finding that nothing may excuse: extortion, credentials, payroll, gift cards, malware.
"""

import argparse
import email
import email.policy
from collections.abc import Callable, Iterable, Iterator, Sequence
from email.message import Message as Email
from html import escape
from itertools import combinations

import msgspec

from bench.corpus import Mail, mail
from bench.equal import judge

UNWANTED = frozenset({"spam", "phish", "fraud"})
NEVER_EXCUSED = frozenset(
    "text:extortion text:credential-lure text:payroll-change text:gift-cards file:malware file:eicar".split()
)
MAX_BYTES = 100_000
PROSE = (
    "Dear all, thank you for coming to the meeting last Thursday. We went through the minutes of the spring "
    "session and agreed on the dates for the autumn walk. Margaret will ask the farmer whether we may cross the "
    "lower meadow again, and Peter has offered to bring the projector for the talk on swallows. The treasurer "
    "reported that the roof of the shed is mended and that the rain butt no longer leaks. We still need two "
    "people who help to repaint the fence before the frost. If the weather holds, we meet on Saturday at ten by "
    "the old mill, with gloves and something to eat. The children planted beans along the south wall, and the "
    "first of them have come up. Last year the slugs took nearly all, so Harriet has put out a row of slates and "
    "looks under them every morning. The library has lent us the two volumes on hedges that we asked for, and "
    "they are on the shelf in the hall for anyone who would like to read them. Our neighbours from the allotments "
    "asked whether we would share the cost of a load of gravel for the path. Everybody present thought that this "
    "was fair. The choir sings on the second Sunday of the month, and there will be soup afterwards. Robert has "
    "written a short history of the pond, from the first survey to the new sluice, which we hope to print for the "
    "anniversary. Corrections are welcome. Please remember to close the gate behind you, because the sheep are "
    "out on the hill. The next issue of our little paper comes out at the end of the month. "
)
CLAIMS: dict[str, tuple[tuple[str, str], ...]] = {
    "unsubscribe": (
        ("List-Unsubscribe", "<https://{domain}/leave>"),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
    ),
    "precedence": (("Precedence", "bulk"),),
    "list": (
        ("List-Id", "<talk.{domain}>"),
        ("List-Post", "<mailto:talk@{domain}>"),
        ("List-Unsubscribe", "<mailto:talk-leave@{domain}>"),
        ("Sender", "talk-bounces@{domain}"),
        ("Precedence", "list"),
    ),
    "answer": (
        ("In-Reply-To", "<a1@recipient.example>"),
        ("References", "<a0@recipient.example> <a1@recipient.example>"),
    ),
    "automatic": (("Auto-Submitted", "auto-generated"), ("X-Auto-Response-Suppress", "All")),
    "service": (("Feedback-ID", "1:2:3:{domain}"), ("X-Mailer", "Mailing service")),
    "forwarded": (
        ("Resent-From", "a@recipient.example"),
        ("X-Forwarded-For", "a@recipient.example"),
        ("ARC-Seal", "i=1; a=rsa-sha256; d={domain}; s=a; b=AAAA"),
    ),
    "signature": (
        (
            "DKIM-Signature",
            "v=1; a=rsa-sha256; d={domain}; s=a; h=from; bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b=AAAA",
        ),
    ),
}


class Result(msgspec.Struct, frozen=True):
    """What one addition did: of so many held messages this many are delivered, and of those that nothing may excuse."""

    name: str
    held: int
    delivered: int
    never: int
    never_delivered: int


def list_additions(pairs: bool) -> dict[str, Callable[[bytes], bytes | None]]:
    """Return what can be added, by name; an addition returns None where a message has no place for it."""
    single: dict[str, Callable[[bytes], bytes | None]] = {
        name: lambda raw, fields=fields: add_fields(raw, fields)  # type: ignore[misc]
        for name, fields in CLAIMS.items()
    }
    single |= {
        "own links": lambda raw: edit_texts(raw, _add_links),
        "disclaimer": lambda raw: edit_texts(raw, _add_disclaimer),
        "prose below": lambda raw: edit_texts(raw, lambda text, html, _: _append(text, _paragraph(PROSE, html), html)),
        "prose above": lambda raw: edit_texts(raw, lambda text, html, _: _prepend(text, _paragraph(PROSE, html), html)),
        "prose hidden": lambda raw: edit_texts(raw, _hide_prose),
        "prose quoted": lambda raw: edit_texts(raw, _quote_prose),
        "prose below signature": lambda raw: edit_texts(raw, _sign_prose),
    }
    if pairs:
        for one, two in combinations(tuple(single), 2):
            single[f"{one} + {two}"] = lambda raw, one=one, two=two: _both(raw, single[one], single[two])  # type: ignore[misc]
    return single


def _both(raw: bytes, one: Callable[[bytes], bytes | None], two: Callable[[bytes], bytes | None]) -> bytes | None:
    first = one(raw)
    return two(first) if first is not None else None


def add_fields(raw: bytes, fields: Iterable[tuple[str, str]]) -> bytes:
    """Return the message with these fields on top, made for the domain of its sender."""
    domain = find_domain(raw)
    head = "".join(f"{name}: {value.format(domain=domain)}\r\n" for name, value in fields)
    return head.encode() + raw


def find_domain(raw: bytes) -> str:
    """Return the domain of From; a made-up one where there is none."""
    sender = str(email.message_from_bytes(raw[:60_000]).get("From", ""))
    domain = sender.rpartition("@")[2].strip("> \t\r\n\"'").lower()
    return domain if domain.isascii() and domain.replace(".", "").replace("-", "").isalnum() else "sender.example"


def edit_texts(raw: bytes, edit: Callable[[str, bool, str], str]) -> bytes | None:
    """Return the message with every visible text edited; None where the standard library cannot write it again."""
    message = email.message_from_bytes(raw, policy=email.policy.compat32)
    domain, changed = find_domain(raw), False
    for part in message.walk():
        if part.get_content_type() not in ("text/plain", "text/html") or part.get_filename():
            continue
        text = _read_text(part)
        if text is None:
            continue
        del part["Content-Transfer-Encoding"]
        part.set_payload(edit(text, part.get_content_type() == "text/html", domain).encode("utf-8", "replace"))
        part.set_param("charset", "utf-8")
        part["Content-Transfer-Encoding"] = "8bit"
        part.set_payload(part.get_payload(decode=True))
        changed = True
    try:
        return _write(message) if changed else None
    except (ValueError, LookupError, TypeError, KeyError, UnicodeError, AttributeError):
        return None


def _read_text(part: Email) -> str | None:
    try:
        content = part.get_payload(decode=True)
        return content.decode(part.get_content_charset("utf-8"), "replace") if isinstance(content, bytes) else None
    except (LookupError, ValueError):
        return None


def _write(message: Email) -> bytes:
    """Base64 for every text: the generator of the standard library writes 8-bit bytes only where they were parsed."""
    from email import encoders

    for part in message.walk():
        if part.get_content_type() in ("text/plain", "text/html") and isinstance(part.get_payload(), bytes):
            del part["Content-Transfer-Encoding"]
            encoders.encode_base64(part)
    return message.as_bytes()


def _paragraph(text: str, html: bool) -> str:
    return f"<p>{escape(text)}</p>" if html else f"\n\n{text}\n"


def _append(text: str, more: str, html: bool) -> str:
    at = text.lower().rfind("</body") if html else -1
    return text[:at] + more + text[at:] if at >= 0 else text + more


def _prepend(text: str, more: str, html: bool) -> str:
    at = text.lower().find("<body") if html else -1
    at = text.find(">", at) + 1 if at >= 0 else 0
    return text[:at] + more + text[at:]


def _add_links(text: str, html: bool, domain: str) -> str:
    first, second = f"https://www.{domain}/", f"https://www.{domain}/about"
    more = f'<p><a href="{first}">Home</a> <a href="{second}">About us</a></p>' if html else f"\n{first}\n{second}\n"
    return _append(text, more, html)


def _add_disclaimer(text: str, html: bool, _domain: str) -> str:
    words = (
        "This message and its attachments are confidential and meant for the addressee alone. We will never ask "
        "for your password by e-mail. Beware of phishing: never share your password or your PIN with anybody. If "
        "you receive a suspicious e-mail, do not click on any link and report it to us. Please consider the "
        "environment before printing."
    )
    return _append(text, _paragraph(words, html), html)


def _hide_prose(text: str, html: bool, _domain: str) -> str:
    return _append(text, f'<div style="display:none">{escape(PROSE)}</div>', html) if html else text


def _quote_prose(text: str, html: bool, _domain: str) -> str:
    if html:
        return _append(text, f"<blockquote>{escape(PROSE)}</blockquote>", html)
    return text + "\n" + "\n".join(f"> {line.strip()}." for line in PROSE.split(".")) + "\n"


def _sign_prose(text: str, html: bool, _domain: str) -> str:
    return _append(text, f"<p>-- <br>{escape(PROSE)}</p>" if html else f"\n-- \n{PROSE}\n", html)


def list_held(count: int) -> Iterator[tuple[Mail, frozenset[str]]]:
    """Yield so many bad messages that are held, each with its tags."""
    for message in mail(1_000_000, seed=11, max_bytes=MAX_BYTES):
        if count <= 0:
            return
        if message.label in UNWANTED:
            report = judge(message)
            if report.decision != "deliver":
                count -= 1
                yield message, frozenset(report.tags)


def measure(held: Sequence[tuple[Mail, frozenset[str]]], name: str, add: Callable[[bytes], bytes | None]) -> Result:
    """Return what one addition does to these messages."""
    tried = delivered = never = never_delivered = 0
    for message, tags in held:
        raw = add(message.raw)
        if raw is None:
            continue
        changed = Mail(raw, message.corpus, message.label, message.path, message.envelope)
        is_delivered = judge(changed).decision == "deliver"
        is_never = not tags.isdisjoint(NEVER_EXCUSED)
        tried, delivered = tried + 1, delivered + is_delivered
        never, never_delivered = never + is_never, never_delivered + (is_never and is_delivered)
    return Result(name, tried, delivered, never, never_delivered)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="so many held messages")
    parser.add_argument("--pairs", action="store_true", help="two additions at once, too")
    given = parser.parse_args()
    held = list(list_held(given.count))
    print(f"{'added':40} {'held':>6} {'delivered':>10} {'never':>6} {'delivered':>10}")
    for name, add in list_additions(given.pairs).items():
        result = measure(held, name, add)
        print(
            f"{name:40} {result.held:6} {result.delivered:10} {result.never:6} {result.never_delivered:10}", flush=True
        )


if __name__ == "__main__":
    main()
