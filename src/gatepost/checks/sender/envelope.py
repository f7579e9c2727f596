"""The envelope: its sender (MAIL FROM) compared with From, and addresses that are none."""

import re
from collections.abc import Iterator

from gatepost.checks.known_names import is_freemail, is_tenant
from gatepost.checks.phrases import find_phrases
from gatepost.checks.reading import Reading, check
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding
from gatepost.findings.strengths import coefficients
from gatepost.names import normal_domain, org_domain

# Addresses that are made for bounces: VERP, SRS and BATV have = or + in them, the others say so.
_BOUNCE_MARKS = ("=", "+", "bounce", "return", "owner-", "-request", "-errors", "noreply", "no-reply", "mailer")
_SERVER_ACCOUNTS = frozenset("nobody www-data apache httpd www root wwwrun daemon webmaster anonymous".split())
_REPORT_TYPES = ("multipart/report", "message/delivery-status", "message/disposition-notification", "message/rfc822")
_STATUS_TYPES = ("multipart/report", "message/delivery-status", "message/global-delivery-status")
_REPORT_SENDERS = tuple("mailer-daemon;postmaster;mail delivery;mdaemon;daemon;bounce;listserv;noreply".split(";"))
_REPORT_MARKS = tuple(
    "undeliver;delivery;returned;failure;out of office;automatic;auto-reply;autoreply;read:;vacation;abwesen;"
    "absence;non remis;unzustellbar;warning;rejected".split(";")
)


# How some servers write the empty sender where they file mail: sendmail's `Return-Path: <MAILER-DAEMON>`.
_EMPTY_SENDERS = frozenset({"", "mailer-daemon"})
# What notices of mail systems speak of; an undelivered mail sounds like an undelivered parcel.
_OF_REPORTS = frozenset({"bounce", "mailbox", "parcel"})
(_BARE_REPORT,) = coefficients("bare-report", "report")


def measure_care(reading: Reading) -> float:
    """Return the factor for what careless programs do. Servers that are badly set up report that mail could not be
    delivered (RFC 3464): without envelope sender, in a part of its own type or as mail systems write without one. It is
    1 unless the mail is such a report and brings nothing by which its reader could be caught: no file, no other
    address, no story, and no link but the names of hosts."""
    if reading.envelope.sender.strip("<> ").lower() not in _EMPTY_SENDERS or reading.message.reply_to:
        return 1.0
    phrases = find_phrases(reading)
    links = [link for link in reading.web_links if link.source != "text" or link.url != f"http://{link.host}/"]
    if links or "://" in phrases.text or reading.has_attachment or not phrases.themes.keys() <= _OF_REPORTS:
        return 1.0
    is_report = any(part.content_type in _STATUS_TYPES for part in reading.message.parts)
    is_report = is_report or (is_from_mail_system(reading) and bool(SERVER_SAYS.search(phrases.text[:5_000])))
    return _BARE_REPORT if is_report else 1.0


_MAIL_SYSTEMS = tuple(
    "mailer-daemon;postmaster;mail delivery;maildelivery;mdaemon;daemon;mail-daemon;bounce;mailsystem".split(";")
)
# In small letters: the reply of a server that refused a message, or a field of a report.
SERVER_SAYS = re.compile(
    r"(?<![\d.])[45][0-9]{2}[ -](?:#?[45]\.\d{1,3}\.\d{1,3}|\w)"
    r"|(?:final|original)-recipient|x-failed-recipients|diagnostic|smtp|mx "
)


def is_from_mail_system(reading: Reading) -> bool:
    """Return whether a sender has a name of those that mail systems write under."""
    senders = " ".join(f"{sender.name} {sender}" for sender in reading.message.senders[:3]).casefold()
    return any(system in senders for system in _MAIL_SYSTEMS)


@check(
    kinds.SENDER_ENVELOPE_FREEMAIL,
    kinds.SENDER_ENVELOPE_SCRIPT,
    kinds.SENDER_NULL_SENDER,
    kinds.SENDER_RETURN_PATH_MISMATCH,
    needs={"envelope-differs", "envelope-empty"},
)
def envelope(reading: Reading) -> Iterator[Finding]:
    """Envelope senders that have nothing to do with From, or are missing (RFC 5321 section 3.6.3 and 4.5.5).

    Bulk senders, lists and forwarders use bounce addresses of their own, so a difference alone says little: such
    addresses are left out where they show what they are. A company that writes through a free mailbox, or through the
    own account of a web server (`nobody@`, `www-data@`: a script on a site that was broken into), is another matter.

    The empty reverse path `<>` is for reports on delivery and receipt, so that they cause no others. It also escapes
    SPF and every block list of senders, so spam uses it for letters.
    """
    if reading.envelope.sender.strip("<> "):
        yield from _compare_with_from(reading)
    # Without the border MTA's word the envelope is simply not known.
    elif reading.envelope.remote_address and reading.sites and not _may_be_delivery_report(reading):
        yield kinds.SENDER_NULL_SENDER.at("envelope", subject=reading.message.subject)


def _compare_with_from(reading: Reading) -> Iterator[Finding]:
    local, _, envelope = reading.envelope.sender.strip("<> ").lower().rpartition("@")
    senders = reading.message.senders
    if not local or not senders or not senders[0].domain:
        return
    shown = normal_domain(senders[0].domain)
    if org_domain(envelope) == org_domain(shown) or any(mark in local for mark in _BOUNCE_MARKS):
        return
    if is_tenant(envelope) or reading.is_known_list or reading.is_known_sender:
        return
    if local in _SERVER_ACCOUNTS:
        kind = kinds.SENDER_ENVELOPE_SCRIPT
    else:
        kind = (
            kinds.SENDER_ENVELOPE_FREEMAIL
            if is_freemail(envelope) and not is_freemail(shown)
            else kinds.SENDER_RETURN_PATH_MISMATCH
        )
    yield kind.at("envelope", envelope=reading.envelope.sender, sender=senders[0])


def _may_be_delivery_report(reading: Reading) -> bool:
    """Return whether anything marks the mail as a report or an automatic answer, which have no envelope sender."""
    message = reading.message
    if any(part.content_type in _REPORT_TYPES for part in message.parts):
        return True
    if reading.is_known_list:
        return True
    sender = " ".join(f"{each.name} {each}" for each in message.senders[:3]).casefold()
    subject = message.subject.casefold()
    return any(mark in sender for mark in _REPORT_SENDERS) or any(mark in subject for mark in _REPORT_MARKS)


# RFC 5321 sections 4.1.2 and 4.5.3.1.3, as far as mail servers keep to them: dots may stand anywhere in a local part
# (Japanese providers gave such names away), and a bounce address may be longer than 64 characters.
_ADDRESS = re.compile(
    r"""(?:"(?>[^"\\]|\\.)*+"|[^\s\x00-\x20\x7f()<>\[\]:;@\\,"]+)"""  # a quoted string, or characters that need none
    r"@(?:\[[^\[\]\s]+\]|[\w-]{1,63}(?:\.[\w-]{1,63})*\.?)\Z"  # an address literal, or a name
)
MAX_ADDRESS = 254
MAX_LOOKED_AT = 100


@check(kinds.ENVELOPE_MALFORMED_SENDER, kinds.ENVELOPE_MALFORMED_RECIPIENT, needs={"odd-envelope"})
def malformed_envelope(reading: Reading) -> Iterator[Finding]:
    """Envelope addresses that are none (RFC 5321 section 4.1.2): `plain`, `a b@example.org`, 300 letters before the @.

    A mail server takes the envelope from SMTP, where such addresses are refused. A border that passes them on got them
    from a program that does not speak SMTP properly, as simple mass mailers do, or has lost the real ones. A sender
    that nobody can answer also escapes SPF and block lists.
    """
    sender = reading.envelope.sender.strip("<> ")
    if is_malformed_sender(sender):
        yield kinds.ENVELOPE_MALFORMED_SENDER.at("envelope", sender=sender[:MAX_ADDRESS])
    for recipient in reading.envelope.recipients[:MAX_LOOKED_AT]:
        if is_malformed_recipient(recipient):
            yield kinds.ENVELOPE_MALFORMED_RECIPIENT.at("envelope", recipient=recipient.strip("<> ")[:MAX_ADDRESS])
            return


def is_malformed_sender(address: str) -> bool:
    """Return whether a bare address is none; the empty sender is that of reports."""
    return address.lower() not in _EMPTY_SENDERS and _is_malformed(address)


def is_malformed_recipient(recipient: str) -> bool:
    """Return whether an address, in brackets or not, is none; `postmaster` needs no domain (section 4.1.1.3)."""
    address = recipient.strip("<> ")
    return address.lower() != "postmaster" and _is_malformed(address)


def _is_malformed(address: str) -> bool:
    return len(address) > MAX_ADDRESS or not _ADDRESS.match(address)
