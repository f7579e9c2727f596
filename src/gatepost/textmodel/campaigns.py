"""Which messages are the same mail: near-duplicates share a campaign, and a campaign is never on both sides of a split.

A random split puts the thousandth copy of an advertisement into the test after the model has learnt the other 999. So
messages that share one of their few smallest hashes over runs of five words (Broder, 1997), or a subject of some
length, are put together, transitively. That joins rather too much than too little.
"""

from collections.abc import Sequence
from zlib import crc32

from gatepost.textmodel.features import SUBJECT, Features
from gatepost.textmodel.sketch import smallest

SKETCH = 3
MIN_SUBJECT = 3


def campaigns(messages: Sequence[Features]) -> list[int]:
    """The number of each message's campaign: that of its first message."""
    parent = list(range(len(messages)))
    first: dict[int, int] = {}
    for number, message in enumerate(messages):
        for key in signature(message):
            other = _root(parent, first.setdefault(key, number))
            mine = _root(parent, number)
            parent[max(other, mine)] = min(other, mine)
    return [_root(parent, number) for number in range(len(messages))]


def signature(message: Features) -> set[int]:
    """The keys by which a message is recognised in another."""
    words = [word for word in message.text if word.isalpha()]
    subject = [word for word in message.rest if word.startswith(SUBJECT)]
    runs = smallest(words, SKETCH)
    keys = set(runs)
    if len(subject) >= MIN_SUBJECT or not runs:
        keys.add(crc32(" ".join(subject if runs else subject + words).encode()))
    return keys


def _root(parent: list[int], number: int) -> int:
    while parent[number] != number:
        parent[number] = parent[parent[number]]
        number = parent[number]
    return number
