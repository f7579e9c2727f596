"""Invitations in another's name (RFC 5546): the calendar shows the organiser that the file names, not who sent it.

Calendar services and assistants do send for others, so it weighs little. A calendar program enters the invitation by
itself, with its links, even where the mail itself was moved to junk.
"""

from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import FILE_CALENDAR_ORGANIZER, Finding
from gatepost.names import org_domain

KINDS = (FILE_CALENDAR_ORGANIZER,)
NEEDS = frozenset({"trait"})

_INVITING = (("REQUEST",), ("PUBLISH",))


def check(reading: Reading) -> Iterator[Finding]:
    invitations = [file for file in reading.files if file.traits and file.seen("calendar-method") in _INVITING]
    if not invitations:
        return
    message = reading.message
    own = {org_domain(address.domain) for address in (*message.senders, *message.reply_to)}
    # Invitations of one's own come back as answers of those who were invited.
    own |= {org_domain(recipient.domain) for recipient in message.recipients}
    for file in invitations:
        for organiser in file.seen("calendar-organizer"):
            if org_domain(organiser.rpartition("@")[2]) not in own:
                yield FILE_CALENDAR_ORGANIZER.at(file.path, about=file.document, organiser=organiser)
