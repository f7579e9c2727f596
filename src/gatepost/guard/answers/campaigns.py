"""What came in during the last hours, to tell a burst: near-copies of one text to many recipients.

Only signatures and hashes of recipients are kept, in memory, for as many messages as fit and no longer than the window.
Each core remembers what it has seen itself; the processes of a core tell each other (`share`, `learn`).
"""

import time
from collections import deque
from collections.abc import Callable
from itertools import islice

import msgspec

from gatepost.mail.message import Envelope
from gatepost.near_duplicates import MAX_COMPARED, Signature, is_near_duplicate
from gatepost.questions import AskCampaign, Campaign

WINDOW_SECONDS = 6 * 3600.0
MAX_MESSAGES = 20_000


class CampaignSighting(msgspec.Struct, frozen=True, eq=False):
    """A message that came in: when, its signature, and hashes of who got it."""

    time: float
    signature: Signature
    recipients: frozenset[int]


class Campaigns:
    """The messages of the last hours, by each hash of their signature."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        window: float = WINDOW_SECONDS,
        maximum: int = MAX_MESSAGES,
    ) -> None:
        self._clock, self._window, self._maximum = clock, window, maximum
        self.share: Callable[[CampaignSighting], None] | None = None
        self._order: deque[CampaignSighting] = deque()
        self._by_hash: dict[int, dict[CampaignSighting, None]] = {}

    def answer(self, envelope: Envelope, question: AskCampaign) -> Campaign:
        """Return how many others got near-copies of the message, and remember who got this one."""
        self._forget()
        near = [each for each in self._sharing(question.sketch) if is_near_duplicate(each.signature, question.sketch)]
        mine = frozenset(hash(recipient.lower()) for recipient in envelope.recipients)
        others = frozenset[int]().union(*(each.recipients for each in near)) - mine
        if question.sketch:
            sighting = CampaignSighting(self._clock(), question.sketch, mine)
            self._remember(sighting)
            if self.share:
                self.share(sighting)
        return Campaign(len(near), len(others))

    def learn(self, sighting: CampaignSighting) -> None:
        """Remember a message that another process of this core has seen."""
        self._forget()
        self._remember(sighting)

    def __len__(self) -> int:
        return len(self._order)

    def _sharing(self, signature: Signature) -> list[CampaignSighting]:
        """The latest of those that share a hash."""
        found: dict[CampaignSighting, None] = {}
        for each in signature:
            found.update(dict.fromkeys(islice(reversed(self._by_hash.get(each, {})), MAX_COMPARED)))
        return list(found)

    def _remember(self, sighting: CampaignSighting) -> None:
        self._order.append(sighting)
        for each in sighting.signature:
            self._by_hash.setdefault(each, {})[sighting] = None

    def _forget(self) -> None:
        oldest = self._clock() - self._window
        while self._order and (self._order[0].time < oldest or len(self._order) >= self._maximum):
            gone = self._order.popleft()
            for each in gone.signature:
                those = self._by_hash[each]
                those.pop(gone, None)
                if not those:
                    del self._by_hash[each]
