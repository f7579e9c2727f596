"""What came in during the last hours, to tell a burst: near-copies of one text to many recipients.

Only signatures and hashes of recipients are kept, in memory, for as many messages as fit and no longer than the window.
Each core remembers what it has seen itself.
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


class _Sighting(msgspec.Struct, frozen=True, eq=False):
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
        self._order: deque[_Sighting] = deque()
        self._by_hash: dict[int, dict[_Sighting, None]] = {}

    def answer(self, envelope: Envelope, question: AskCampaign) -> Campaign:
        """Return how many others got near-copies of the message, and remember who got this one."""
        self._forget()
        near = [each for each in self._sharing(question.sketch) if is_near_duplicate(each.signature, question.sketch)]
        mine = frozenset(hash(recipient.lower()) for recipient in envelope.recipients)
        others = frozenset[int]().union(*(each.recipients for each in near)) - mine
        if question.sketch:
            self._remember(_Sighting(self._clock(), question.sketch, mine))
        return Campaign(len(near), len(others))

    def __len__(self) -> int:
        return len(self._order)

    def _sharing(self, signature: Signature) -> list[_Sighting]:
        """The latest of those that share a hash."""
        found: dict[_Sighting, None] = {}
        for each in signature:
            found.update(dict.fromkeys(islice(reversed(self._by_hash.get(each, {})), MAX_COMPARED)))
        return list(found)

    def _remember(self, sighting: _Sighting) -> None:
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
