"""Envelope senders that have nothing to do with From (RFC 5321 section 3.6.3, RFC 5322 section 3.6.2).

Bulk senders, lists and forwarders use bounce addresses of their own, so a difference alone says little: such addresses
are left out where they show what they are. A company that writes through somebody's free mailbox, or through the own
account of a web server (`nobody@`, `www-data@`: a script on a site that was broken into), is another matter.
"""

from collections.abc import Iterator

from gatepost.checks.wellknown import is_freemail, is_tenant
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import normal_domain, org_domain

FREE = Kind("sender:envelope-freemail", "The mail was sent through a free mailbox under another domain's name")
SCRIPT = Kind("sender:envelope-script", "The mail was sent by a server's own account under another domain's name")
MISMATCH = Kind("sender:return-path-mismatch", "The envelope sender is of another organisation than the sender shown")
KINDS = (FREE, SCRIPT, MISMATCH)

# Addresses that are made for bounces: VERP, SRS and BATV have = or + in them, the others say so.
_BOUNCE_MARKS = ("=", "+", "bounce", "return", "owner-", "-request", "-errors", "noreply", "no-reply", "mailer")
_SERVER_ACCOUNTS = frozenset("nobody www-data apache httpd www root wwwrun daemon webmaster anonymous".split())
_LIST_FIELDS = ("list-id", "list-unsubscribe", "list-post", "mailing-list", "precedence", "resent-from", "sender")


def check(reading: Reading) -> Iterator[Finding]:
    local, _, envelope = reading.envelope.sender.strip("<> ").lower().rpartition("@")
    senders = reading.message.senders
    if not local or not senders or not senders[0].domain:
        return
    shown = normal_domain(senders[0].domain)
    if org_domain(envelope) == org_domain(shown) or any(mark in local for mark in _BOUNCE_MARKS):
        return
    if is_tenant(envelope) or any(name in reading.fields for name in _LIST_FIELDS):
        return
    if local in _SERVER_ACCOUNTS:
        kind = SCRIPT
    else:
        kind = FREE if is_freemail(envelope) and not is_freemail(shown) else MISMATCH
    yield kind.at("envelope", envelope=reading.envelope.sender, sender=senders[0])
