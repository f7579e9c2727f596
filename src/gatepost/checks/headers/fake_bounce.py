"""Bounces that are none: a subject like a returned mail's, in front of a letter with links.

`Mail delivery failed: returning message to sender`, and below: release your messages here. Genuine reports are
`multipart/report` (RFC 6522), or at least come from a mail system with an empty envelope sender, or carry the returned
message or the words of the server that refused it. Many mail systems write reports of their own kind, so anything
that looks like one is believed.
"""

import re
from collections.abc import Iterator

from gatepost.checks.phrases import find_phrases, quote
from gatepost.findings import Reading
from gatepost.kinds import HEADER_FAKE_BOUNCE, Finding

KINDS = (HEADER_FAKE_BOUNCE,)
THEMES = frozenset({"bounce"})

_REPORTS = ("multipart/report", "message/")
_SYSTEMS = (
    "mailer-daemon",
    "postmaster",
    "mail delivery",
    "maildelivery",
    "mdaemon",
    "daemon",
    "mail-daemon",
    "bounce",
    "mailsystem",
)
_SERVER_SAYS = re.compile(
    r"(?<![\d.])[45][0-9]{2}[ -](?:#?[45]\.\d{1,3}\.\d{1,3}|\w)"
    r"|(?:final|original)-recipient|x-failed-recipients|diagnostic|smtp|mx "
)


def check(reading: Reading) -> Iterator[Finding]:
    phrases = find_phrases(reading)
    message = reading.message
    is_reply = message.subject[:3].lower() in ("re:", "aw:", "fw:")
    if "bounce" not in phrases.in_subject or not reading.web_links or is_reply:
        return
    if reading.is_discussion or not reading.envelope.sender.strip("<> "):
        return
    if any(part.content_type.startswith(_REPORTS) for part in message.parts):
        return
    senders = " ".join(f"{sender.name} {sender}" for sender in message.senders[:3]).casefold()
    if any(system in senders for system in _SYSTEMS) or _SERVER_SAYS.search(phrases.text[:5_000]):
        return
    yield HEADER_FAKE_BOUNCE.at("Subject", subject=message.subject, words=quote(phrases.of("bounce")))
