"""Looking back for a new model: which messages that were delivered in the last days it would have held.

Records have the findings and the feature row of each message, so those messages can be judged again without their text.
Only what the model adds is put in: a message counts if it was delivered, and would have been held with what the model
finds. The work is bounded in days and messages.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from gatepost.kinds import TITLES, Finding
from gatepost.learning.proof import UNWANTED, points_of
from gatepost.policy.layers import Policies
from gatepost.policy.rules import Policy, shipped_policy
from gatepost.report import Report
from gatepost.store.learning import ModelLookBack
from gatepost.store.look_backs import MAX_HITS
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store
from gatepost.textmodel.learnt import LearntModel
from gatepost.textmodel.rows import read_row
from gatepost.times import now
from gatepost.verdict import judge

DAY = 86_400_000
MESSAGES = 50_000


async def look_back(
    store: Store, policies: Policies, tenant: str | None, model: LearntModel, days: int, messages: int = MESSAGES
) -> ModelLookBack:
    """Look for delivered messages that a model would have held."""
    search = _Search(model, policies, now() - days * DAY)
    if days:
        async with aclosing(store.messages.recent(tenant, messages)) as batches:
            async for batch in batches:
                if not await asyncio.to_thread(search.take, batch):
                    break
    return ModelLookBack(days, search.considered, search.found, tuple(search.hits))


class _Search:
    """One look back, from the newest message on."""

    def __init__(self, model: LearntModel, policies: Policies, since: int) -> None:
        self._model, self._policies, self._since = model, policies, since
        self.considered = self.found = 0
        self.hits: list[str] = []

    def take(self, batch: Sequence[MessageRecord]) -> bool:
        """Look at more messages; False when no more are wanted."""
        for record in batch:
            if record.completed < self._since:
                return False
            report = record.report
            if report.decision != "deliver" or not report.features:
                continue
            self.considered += 1
            policy = self._policies.of(record.envelope.tenant).policy
            if would_hold(report, self._model, policy):
                self.found += 1
                if len(self.hits) < MAX_HITS:
                    self.hits.append(record.ggrid)
        return True


def would_hold(report: Report, model: LearntModel, policy: Policy) -> bool:
    """Whether a delivered message would have been held with what this model finds in it."""
    strength = points_of(model.score(read_row(report.features))) / shipped_policy().kinds[UNWANTED].weight
    if not strength or any(note.effect == "allowed" for note in report.lists):
        return False
    findings = [
        Finding(line.kind, line.where, line.facts, line.strength, line.about)
        for line in report.lines
        if line.kind != UNWANTED and not line.kind.startswith("list:")
    ]
    findings.append(Finding(UNWANTED, "text", {}, strength))
    return judge(findings, report.outcomes, policy, TITLES).decision != "deliver"
