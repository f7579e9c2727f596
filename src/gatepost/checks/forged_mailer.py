"""Mail that claims a mail program and lacks what that program always writes.

`X-Mailer: Microsoft Outlook Express 6.00` comes with an X-MimeOLE field and a Message-ID of three groups of hex digits;
The Bat! puts the time into its Message-ID; Apple's programs use a UUID. Mass-mailing tools copy the name of the program
and not its habits. Lists and gateways may take fields away, so mail of discussion lists is left out.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from gatepost.findings import Finding, Kind, Reading

FORGED = Kind("header:forged-mailer", "The mail claims to be written with a program that writes otherwise")
NAMELESS = Kind("header:odd-mailer", "The mail program's name is a few random characters")
KINDS = (FORGED, NAMELESS)

_UUID = r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"


class _Habit(msgspec.Struct, frozen=True):
    """What a program writes: the form of its Message-ID, and fields of which at least one is there."""

    claim: re.Pattern[str]
    identifier: re.Pattern[str] | None
    fields: tuple[str, ...] = ()


def _habit(claim: str, identifier: str | None, *fields: str) -> _Habit:
    return _Habit(re.compile(claim), re.compile(identifier) if identifier else None, fields)


_HABITS = (
    # Hotmail and MSN, through which Outlook Express sent as well, write their own identifiers.
    _habit(r"Microsoft Outlook Express \d", r"<(?:[0-9a-f]{12}\$[0-9a-f]{8}\$[0-9a-f]{8}@|[^@$]{1,200}@)", "x-mimeole"),
    _habit(r"Microsoft Office Outlook,? ", None, "x-mimeole", "thread-index"),
    _habit(r"Microsoft Outlook,? Build ", None, "x-mimeole", "thread-index"),
    _habit(
        r"The Bat! \(", r"<\d{1,12}\.(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])(?:[01]\d|2[0-3])[0-5]\d[0-5]\d@"
    ),
    _habit(r"Apple Mail \(|(?:iPhone|iPad) Mail \(", rf"<{_UUID}(?:\.\w+)?@"),
    _habit(r"(?:Mozilla )?Thunderbird[ /]\d", rf"<(?:[0-9A-Fa-f]{{8}}\.\d{{6,8}}|{_UUID}|[\w.-]{{1,80}})@"),
    _habit(r"QUALCOMM Windows Eudora", r"<[\d.]{10,}[\w.]*@|<v0\d+[a-z0-9]+@"),
)
# "6pHng", "SufxM" and "2" are filled in by a machine: nobody names a program so.
_RANDOM = re.compile(
    r"(?:\d{1,6}|(?=[A-Za-z0-9]{2,6}\Z)(?:\d+[A-Za-z]|[A-Za-z]+\d+[A-Za-z]).*|[A-Za-z]{1,3}[a-z][A-Z])\Z"
)


def check(reading: Reading) -> Iterator[Finding]:
    claimed = reading.fields.get("x-mailer") or reading.fields.get("user-agent")
    if not claimed or reading.is_discussion:
        return
    claimed = claimed.strip()
    for habit in _HABITS:
        if habit.claim.match(claimed):
            missing = _missing(habit, reading.fields)
            if missing:
                yield FORGED.at("X-Mailer", claimed=claimed, missing=missing)
            return
    if _RANDOM.match(claimed):
        yield NAMELESS.at("X-Mailer", claimed=claimed)


def _missing(habit: _Habit, fields: Mapping[str, str]) -> str:
    identifier = fields.get("message-id")
    if habit.identifier and identifier and not habit.identifier.match(identifier.strip()):
        return "its form of Message-ID"
    if habit.fields and not any(name in fields for name in habit.fields):
        return habit.fields[0]
    return ""
