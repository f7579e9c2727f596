"""Oddities of the message itself: broken or ambiguous MIME, and budgets that ran out while it was read.

The readers note what was odd (`Message.defects`); this check turns each note into a finding. Honest mailers make some
of these faults, so most weigh little; a budget that ran out means that something was not read.
"""

from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import BY_ID, Finding
from gatepost.mail.defects import DEFECTS

KINDS = tuple(sorted(DEFECTS, key=lambda kind: kind.id))
NEEDS = frozenset({"defect"})


def check(reading: Reading) -> Iterator[Finding]:
    for defect in reading.message.defects:
        kind = BY_ID[defect.kind]
        yield kind.at(defect.where, detail=defect.detail) if defect.detail else kind.at(defect.where)
