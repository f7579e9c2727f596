"""The second reader: the text of a mail as English stems, and what letters in many languages have taught about them.

A table gives words of 38 languages the English stem that they mean, so what one letter teaches holds in all of these
languages. It was made by word alignment (IBM Model 1: Brown et al., 1993) over strings that public programs translate;
`tools.second_reader` packs it. A foreign word is known by its first seven characters, an English one by its first six,
a Korean one by its first two syllables: crude stems that suit all languages alike. The table holds hashes of these
beginnings and not the words: a word that only shares a hash has the effect of one that the sender could have written.

The language of a text is the one that knows most of its words. `Letters` adds the weights of the stems, of the pairs of
stems that stand within a few words of each other, and of the concepts of the text (`textmodel.words`). The sum of stems
and pairs is divided by the root of their number, and so is that of concepts, so that length decides nothing.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from gatepost.speedups import native
from gatepost.textmodel.words import BESIDE, CONCEPT, MAX_FOUND, NEAR, MessageWords, find_concepts, load_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[Any] | memoryview

ENGLISH = "en"
# How many characters of a word are looked up: of an English one, of others, of a Semitic one, of a Korean one.
ENGLISH_SIZE, SIZE, SEMITIC_SIZE, KOREAN_SIZE = 6, 7, 6, 2
# Pairs are stems with at most so many others between them, not counting small words.
REACH = 4
SMALL = frozenset(
    "the to of a in is for and you your it on this that with be we i are or at as by from have not if was an our "
    "has".split()
)
_HANGUL, _SEMITIC = ("\uac00", "\ud7af"), ("\u0590", "\u06ff")
_WORD_BITS, _HASH_BEGINS, _HASH_FACTOR, _MIX = 0xFFFFFFFF, 2166136261, 16777619, 0x2C1B3C6D


def cut_word(word: str) -> str:
    """Return the beginning by which the table knows a foreign word."""
    first = word[:1]
    if _HANGUL[0] <= first <= _HANGUL[1]:
        return word[:KOREAN_SIZE]
    return word[: SEMITIC_SIZE if _SEMITIC[0] <= first <= _SEMITIC[1] else SIZE]


@lru_cache(8192)
def hash_word(word: str) -> int:
    """Return the hash of a beginning, the same as `hash_bytes` in `native/word_array.c` (FNV-1a, then mixed)."""
    value = _HASH_BEGINS
    for byte in word.encode("utf-8", "surrogatepass"):
        value = (value ^ byte) * _HASH_FACTOR & _WORD_BITS
    value ^= value >> 15
    value = value * _MIX & _WORD_BITS
    return value ^ (value >> 13)


# What honest mail says of itself, and every lure can say as well: how to unsubscribe, that nobody asks for passwords,
# that the mail may be ignored, that one signs in as usual.
ASSURANCES = frozenset({"unsubscribe", "never_ask", "ignore_this", "as_usual"})


def names_assurance(feature: str) -> bool:
    """Return whether a feature is an assurance, alone or near another concept: these never speak for a mail."""
    return feature.startswith(CONCEPT) and not ASSURANCES.isdisjoint(feature.removeprefix(CONCEPT).split("+"))


class Gloss(msgspec.Struct, frozen=True, dict=True):
    """The table: `hashes` of beginnings in rising order, each with the numbers of its language and of its stem."""

    languages: tuple[str, ...]
    stems: tuple[str, ...]
    hashes: "Numbers"
    language_numbers: "Numbers"
    stem_numbers: "Numbers"

    @cached_property
    def _meanings(self) -> dict[int, dict[int, int]]:
        """The stem of each hash by language, for reading without native code."""
        found: dict[int, dict[int, int]] = {}
        for key, language, stem in zip(
            *(part.tolist() for part in (self.hashes, self.language_numbers, self.stem_numbers)), strict=True
        ):
            found.setdefault(key, {})[language] = stem
        return found

    def read(self, *texts: Sequence[str]) -> tuple[str, list[list[int]]]:
        """Return the language of texts, "" where no word is known, and the stems of each text in their order."""
        english = self.languages.index(ENGLISH)
        meant = [[self._find_meanings(word, english) for word in text] for text in texts]
        known = Counter(language for text in meant for each in text for language in each)
        if not known:
            return "", [[] for _ in texts]
        # Of languages that know as many words the first one counts, and English before all.
        language = max(known, key=lambda each: (known[each], each == english, -each))
        return self.languages[language], [[each[language] for each in text if language in each] for text in meant]

    def _find_meanings(self, word: str, english: int) -> dict[int, int]:
        if not word or word[0] in "0123456789":
            return {}
        found = self._meanings.get(hash_word(cut_word(word)), {})
        own = self._meanings.get(hash_word(word[:ENGLISH_SIZE]), {})
        return {language: stem for language, stem in found.items() if language != english} | (
            {english: own[english]} if english in own else {}
        )


def list_pairs(stems: Sequence[int], small: frozenset[int]) -> set[int]:
    """Return the keys of the pairs of a text: two different stems near each other, the lower one first."""
    said = [stem for stem in stems if stem not in small]
    return {
        (min(one, other) << 16) | max(one, other)
        for reach in range(1, REACH + 1)
        for one, other in zip(said, said[reach:], strict=False)
        if one != other
    }


class Letters(msgspec.Struct, frozen=True, dict=True):
    """The second reader. `weights` has a number for each stem of the gloss, then one for each of the `pairs`, and
    `concepts` have weights of their own. The keys of pairs are in rising order."""

    gloss: Gloss
    pairs: "Numbers"
    weights: "Numbers"
    concepts: Mapping[str, float]
    bias: float

    @cached_property
    def small(self) -> frozenset[int]:
        """The stems that make no pairs."""
        return frozenset(number for number, stem in enumerate(self.gloss.stems) if stem in SMALL)

    @cached_property
    def _native(self) -> Any:
        gloss = self.gloss
        small = bytes(stem in SMALL for stem in gloss.stems)
        english = gloss.languages.index(ENGLISH)
        numbers = (gloss.hashes, gloss.language_numbers, gloss.stem_numbers, self.pairs, self.weights)
        return native.Letters(*numbers, small, english, dict(self.concepts))

    @cached_property
    def _weight_of_pair(self) -> dict[int, float]:
        weights = self.weights[len(self.gloss.stems) :]
        return dict(zip(self.pairs.tolist(), weights.tolist(), strict=True))

    def ask(self, words: MessageWords) -> float:
        """Return the log-odds that a text is unwanted; 0 where nothing of it is known."""
        concepts = load_index().index
        found: tuple[int, float, int, float] = (
            self._native.read(words, concepts, MAX_FOUND, NEAR, BESIDE)
            if native
            else self.add_up(words.subject, words.body)
        )
        count, total, noted, of_concepts = found
        return self.bias + total / math.sqrt(count) + of_concepts / math.sqrt(noted or 1) if count else 0.0

    def pack(self) -> "PackedLetters":
        """Return the reader with its numbers as bytes."""
        gloss = self.gloss
        return PackedLetters(
            gloss.languages,
            gloss.stems,
            bytes(gloss.hashes),
            bytes(gloss.language_numbers),
            bytes(gloss.stem_numbers),
            bytes(self.pairs),
            bytes(self.weights),
            dict(self.concepts),
            self.bias,
        )

    def add_up(self, subject: list[str], body: list[str]) -> tuple[int, float, int, float]:
        """Return number and sum of the weights of stems and pairs, and the same of concepts: the Python twin of
        `Letters.read` in `native/letters.c`."""
        _, texts = self.gloss.read(body, subject)
        stems = set[int]().union(*texts)
        pairs = set[int]().union(*(list_pairs(text, self.small) for text in texts)) & self._weight_of_pair.keys()
        total = sum(float(self.weights[stem]) for stem in stems) + sum(self._weight_of_pair[key] for key in pairs)
        noted = [self.concepts[name] for name in find_concepts([*subject, *body]) if name in self.concepts]
        return len(stems) + len(pairs), total, len(noted), sum(noted)


class PackedLetters(msgspec.Struct, frozen=True, array_like=True):
    """A second reader whose numbers are bytes, little-endian as on every machine that Gatepost runs on."""

    languages: tuple[str, ...]
    stems: tuple[str, ...]
    hashes: bytes
    language_numbers: bytes
    stem_numbers: bytes
    pairs: bytes
    weights: bytes
    concepts: dict[str, float]
    bias: float

    def open(self) -> Letters:
        """Return the reader over these bytes, without numpy; `ValueError` where the parts do not fit together."""
        hashes, pairs = (memoryview(part).cast("I") for part in (self.hashes, self.pairs))
        weights: Any = memoryview(self.weights).cast("f")
        languages, stems = memoryview(self.language_numbers), memoryview(self.stem_numbers).cast("H")
        gloss = Gloss(self.languages, self.stems, hashes, languages, stems)
        if (
            not len(hashes) == len(languages) == len(stems)
            or ENGLISH not in self.languages
            or len(weights) != len(self.stems) + len(pairs)
            or max(languages, default=0) >= len(self.languages)
            or max(stems, default=0) >= len(self.stems)
        ):
            raise ValueError("the parts of the second reader do not fit together")
        return Letters(gloss, pairs, weights, self.concepts, self.bias)
