"""Haste: within 24 hours, final notice, or else.

Every lure needs it, so that nobody stops to think. Reminders and sales need it as well: alone it weighs next to
nothing, and beside other signs it says that somebody is being pressed.
"""

from collections.abc import Iterator

from gatepost.checks.wording import shown, wording
from gatepost.findings import Finding, Kind, Reading

URGENCY = Kind("text:urgency", "The text presses for time")
KINDS = (URGENCY,)
THEMES = frozenset({"urgency"})


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    words = said.said("urgency")
    if len(words) >= 2 or (words and "urgency" in said.in_subject):
        strength = min(1.0, 0.35 * len(words)) * (0.5 if said.size > 4_000 else 1.0)
        yield URGENCY.at("text", strength=round(strength, 2), words=shown(words))
