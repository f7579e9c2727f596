"""Near-duplicate signatures: a few hashes of a mail's text, by which its near-copies are recognised.

The copies of a campaign differ in a name, a number, a line of noise. Of all runs of five words, the eight smallest
hashes are kept (Broder, 1997): two texts that share most of their runs share most of these, whatever was put in
between. Texts of a few words have none: "thanks, see you tomorrow" is no campaign.
"""

from heapq import nsmallest
from itertools import accumulate, repeat
from operator import add
from typing import Protocol, TypeAlias
from zlib import crc32

from gatepost.speedups import native

Signature: TypeAlias = tuple[int, ...]

RUN = 5
SIZE = 8
NEAR = 5
MIN_WORDS = 25
# As many texts are compared as share one of the hashes; more than these are one campaign anyway.
MAX_COMPARED = 200


def compute_signature(words: list[str]) -> Signature:
    """Return the signature of a text; empty for one that is too short to have one."""
    return tuple(smallest_hashes(words, SIZE, MIN_WORDS))


class Words(Protocol):
    """The words of a message, as `textmodel.words` reads them."""

    def smallest_hashes(self, run: int, count: int, least: int, /) -> list[int]:
        """Return the smallest hashes of runs of words of the body."""


def sign_words(words: Words) -> Signature:
    """Return the signature of a message's body."""
    return tuple(words.smallest_hashes(RUN, SIZE, MIN_WORDS))


def smallest_hashes(words: list[str], count: int, least: int = 0) -> list[int]:
    """Return the smallest hashes of runs of words that consist of letters; none for fewer than `least` words."""
    if native:
        found: list[int] = native.smallest_hashes(words, RUN, count, least)
        return found
    return find_smallest_hashes(words, count, least)


def find_smallest_hashes(words: list[str], count: int, least: int) -> list[int]:
    """The Python twin of `smallest_hashes` in `_speedups.c`."""
    plain = [word for word in words if word.isalpha()]
    if len(plain) < least:
        return []
    text = " ".join(plain).encode()
    sizes = map(len, plain if text.isascii() else map(str.encode, plain))
    # Where each word begins; runs are cut out of the whole text, which is much cheaper than joining each anew.
    starts = [0, *accumulate(map(add, sizes, repeat(1)))]
    runs = {crc32(text[start : end - 1]) for start, end in zip(starts, starts[RUN:], strict=False)}
    return nsmallest(count, runs)


def is_near_duplicate(one: Signature, other: Signature) -> bool:
    """Return whether two texts share most of what they say: of the smallest hashes of both, most are in each."""
    both = sorted({*one, *other})[:SIZE]
    return len(both) == SIZE and len(set(both).intersection(one).intersection(other)) >= NEAR


def index_keys(signature: Signature) -> Signature:
    """Return the hashes that a signature is kept and looked up by: near-duplicates have one of these in common.

    They share `NEAR` hashes of `SIZE`. The smallest that they share has `NEAR` - 1 larger ones behind it in each, so it
    is one of the first `SIZE` - `NEAR` + 1 of both (prefix filtering: Chaudhuri, Ganti and Kaushik, 2006). An index by
    these alone takes half of the memory.
    """
    return tuple(sorted(signature)[: SIZE - NEAR + 1])
