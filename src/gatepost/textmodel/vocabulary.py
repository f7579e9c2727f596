"""Which words the model may know: those that several collections use.

A word that only one collection has says where a mail was collected, not what it wants: the name of a list, of a
company, of the person whose mailbox it was. So a word or pair counts only if at least two collections have it, if
enough messages do, and if no collection has it far more often than all others together. Numbers are known by their
length alone, and what tells the date is left out.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gatepost.textmodel.features import NAME, SUBJECT, Features, normal
from gatepost.textmodel.model import Floats, Model

T = TypeVar("T", str, int)

MIN_MESSAGES = 8
MIN_COLLECTIONS = 2
# In so many messages of a collection a word must be, to be one that the collection uses.
MIN_USED = 2
# Fewer messages are no collection, such as the first feedback of an operator.
MIN_SIZE = 20
# The part of a word's use (as a share of each collection's mail) that one collection may have.
MAX_SHARE = 0.8

_DATES = frozenset(
    "january february march april june july august september october november december jan feb mar apr jun jul aug sep "
    "sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat "
    "sun am pm est edt cst cdt mst mdt pst pdt gmt utc bst cet cest januar februar marz mai juni juli oktober dezember "
    "montag dienstag mittwoch donnerstag freitag samstag sonntag".split()
)
# Programs that run mailing lists, and name themselves in what they add.
_LISTS = frozenset("mailman listinfo majordomo listserv yahoogroups ezmlm".split())


def vocabulary(messages: Sequence[Features], families: Sequence[str]) -> Model:
    """A model that knows its words and pairs and gives none of them any weight."""
    words = tuple(sorted(_used((_distinct(message) for message in messages), families)))
    empty = Model(words, np.empty(0, np.int64), _nothing(0), np.zeros(3, np.float32))
    keys = [_keys(empty, message) for message in messages]
    pairs = np.array(sorted(_used(keys, families)), np.int64)
    return Model(words, pairs, _nothing(len(words) + len(pairs)), np.zeros(3, np.float32))


def _nothing(rows: int) -> Floats:
    return np.zeros((rows, 3), np.float32)


def _distinct(message: Features) -> set[str]:
    """The words of a message that may be known."""
    words = {*message.text, *message.rest}
    plain = {word for word in words if not any(map(str.isdigit, word))}
    plain |= {form for word in words - plain if (form := normal(word)) and not form.strip("0" + SUBJECT + NAME)}
    return {word for word in plain if not _is_trace(word) and len(word) <= 40}.union(message.marks)


def _is_trace(word: str) -> bool:
    """Whether a word tells when or by what a mail came."""
    return word.removeprefix(SUBJECT) in _DATES or word in _LISTS


def _keys(empty: Model, message: Features) -> set[int]:
    """The pairs of a message, both of whose words are known."""
    rows = empty.rows(message.text)
    return {
        key for key, (first, second) in zip(empty.keys(rows), pairwise(rows), strict=True) if min(first, second) >= 0
    }


def _used(messages: Iterable[set[T]], families: Sequence[str]) -> list[T]:
    """What enough messages of enough collections have."""
    by_family: dict[str, Counter[T]] = {}
    for seen, family in zip(messages, families, strict=True):
        by_family.setdefault(family, Counter()).update(seen)
    total: Counter[T] = Counter()
    for counts in by_family.values():
        total.update(counts)
    words = [word for word, count in total.items() if count >= MIN_MESSAGES]
    sizes = Counter(families)
    table = np.array([[counts[word] for word in words] for counts in by_family.values()], np.float64)
    kept = spread(table, np.array([sizes[family] for family in by_family], np.float64))
    return [word for word, keep in zip(words, kept.tolist(), strict=True) if keep]


def spread(counts: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which columns enough collections use: `counts` has a row for each collection, of `sizes` messages."""
    enough: NDArray[np.bool_] = counts.sum(axis=0) >= MIN_MESSAGES
    large = sizes >= MIN_SIZE
    if large.sum() < MIN_COLLECTIONS:
        return enough
    counts = counts[large]
    rates = counts / sizes[large, None]
    shares = rates.max(axis=0) / np.maximum(rates.sum(axis=0), 1e-12)
    result: NDArray[np.bool_] = enough & ((counts >= MIN_USED).sum(axis=0) >= MIN_COLLECTIONS) & (shares <= MAX_SHARE)
    return result
