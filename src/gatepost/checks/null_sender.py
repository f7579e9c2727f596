"""Mail without an envelope sender that is no report.

The empty reverse path `<>` is for reports on delivery and receipt, so that they cause no others (RFC 5321 section
4.5.5). It also escapes SPF and every block list of senders, so spam uses it for letters.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

NOT_A_REPORT = Kind("sender:null-sender", "The mail has no envelope sender, as only reports have, and is no report")
KINDS = (NOT_A_REPORT,)

_REPORT_TYPES = ("multipart/report", "message/delivery-status", "message/disposition-notification", "message/rfc822")
_STATUS_TYPES = ("multipart/report", "message/delivery-status", "message/global-delivery-status")
_REPORT_SENDERS = (
    "mailer-daemon",
    "postmaster",
    "mail delivery",
    "mdaemon",
    "daemon",
    "bounce",
    "listserv",
    "noreply",
)
_REPORT_MARKS = (
    "undeliver",
    "delivery",
    "returned",
    "failure",
    "out of office",
    "automatic",
    "auto-reply",
    "autoreply",
    "read:",
    "vacation",
    "abwesen",
    "absence",
    "non remis",
    "unzustellbar",
    "warning",
    "rejected",
)


def is_report(reading: Reading) -> bool:
    """Whether the mail is a report on delivery as RFC 3464 has it: no envelope sender, and a part that is one."""
    if reading.envelope.sender.strip("<> "):
        return False
    return any(part.content_type in _STATUS_TYPES for part in reading.message.parts)


def check(reading: Reading) -> Iterator[Finding]:
    # Without the border MTA's word the envelope is simply not known.
    if reading.envelope.sender.strip("<> ") or not reading.envelope.remote_address:
        return
    message = reading.message
    if any(part.content_type in _REPORT_TYPES for part in message.parts):
        return
    if any(name in reading.fields for name in ("auto-submitted", "x-failed-recipients", "list-id")):
        return
    sender = " ".join(f"{each.name} {each}" for each in message.senders[:3]).casefold()
    subject = message.subject.casefold()
    if any(mark in sender for mark in _REPORT_SENDERS) or any(mark in subject for mark in _REPORT_MARKS):
        return
    if reading.sites:
        yield NOT_A_REPORT.at("envelope", subject=message.subject)
