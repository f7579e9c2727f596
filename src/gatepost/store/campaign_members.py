"""The messages of a campaign: those near a message in time that something joins to it, with what each of them has.

What joins is in `search_conditions.describe_campaign`. Rows are read from the message on, backwards and forwards, by
the same plan and within the same budget as a search; the records of those that may belong to it say whether they do,
and by what. Both are bounded, and the answer says where there may be more.
"""

from collections.abc import Mapping, Sequence

import msgspec

from gatepost.analysis.report import shown_sender
from gatepost.store.engine import Row
from gatepost.store.record_packing import Detail
from gatepost.store.search_conditions import RecordFacts, fits
from gatepost.store.search_language import Expression

# How many records are compared on each side of the message.
MAX_COMPARED = 500
DAYS = 7


class CampaignMember(msgspec.Struct, frozen=True):
    """A message of a campaign. `joined_by` are the names of what joins it to the first one."""

    ggrid: str
    completed: int
    tenant: str | None
    verdict: str
    decision: str
    subject: str
    sender: str
    recipients: tuple[str, ...]
    hosts: tuple[str, ...]
    files: tuple[tuple[str, str], ...]
    joined_by: tuple[str, ...]


class Campaign(msgspec.Struct, frozen=True):
    """A campaign: how many of its messages each of its joints joins, and the messages, newest first. With `more` there
    may be others, before `since` or after `until`."""

    joints: Mapping[str, int]
    members: tuple[CampaignMember, ...]
    since: int
    until: int
    more: bool = False


def describe_member(
    row: Row, detail: Detail, joints: Mapping[str, Expression], hosts: Sequence[str]
) -> CampaignMember | None:
    """A message with what joins it; None where nothing does. The row has its ggrid and when it was completed."""
    ggrid, completed = row
    facts = RecordFacts(ggrid, completed, detail)
    joined = tuple(name for name, joint in joints.items() if fits(joint, facts))
    if not joined:
        return None
    report, envelope = detail.report, detail.envelope
    return CampaignMember(
        ggrid,
        completed,
        envelope.tenant,
        report.verdict,
        report.decision,
        report.subject,
        shown_sender(report, envelope.sender).address,
        envelope.recipients,
        tuple(hosts),
        tuple((file.names[-1], file.sha256) for file in report.files if file.names),
        joined,
    )
