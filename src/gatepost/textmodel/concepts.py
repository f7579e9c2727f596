"""What mail speaks about, in any language: words that mean the same are one concept (`account`, `blocked`, `parcel`).

A model that has read English mail knows nothing about `számláját zárolták`. So each language has a dictionary
(`data/concepts/<language>.toml`) that names the words and stems of some 120 concepts, and the text model reads the
concepts beside the words: which there are, and which stand close to each other. What it learned about an account that
is blocked then holds in Hungarian as well.

All dictionaries are searched in one pass over the words that the model reads (natively by the hash of the first bytes
of each word, else as Aho and Corasick do, CACM 18, 1975), so a mail costs the same in every language, and nobody has
to guess which it is written in. A word that several languages spell alike but mean differently counts as the English
one, else as what most of them mean.
"""

import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import ahocorasick_rs
import msgspec

from gatepost.process.kept_results import load_kept
from gatepost.speedups import native, read_native
from gatepost.textmodel.words import fold, split_words

CONCEPT = "c:"
# Concepts are close to each other within this many characters, with at most so many others between them.
NEAR = 60
BESIDE = 4
MAX_FOUND = 600

_DATA = files("gatepost.textmodel").joinpath("data", "concepts")


class Term(msgspec.Struct, frozen=True, array_like=True):
    """Words of a dictionary as they stand in a folded text, a blank before them; with `open_end` any ending may
    follow."""

    words: str
    concept: str
    open_end: bool


class PackedTerms(msgspec.Struct, frozen=True, array_like=True):
    """Terms as the native index takes them: the names of their concepts, and what `pack_concepts` made of them."""

    names: tuple[str, ...]
    index: bytes


def pack_terms(terms: Sequence[Term]) -> PackedTerms:
    """Return terms for the native index: without the blank, and the longest first."""
    names = tuple(sorted({term.concept for term in terms}))
    numbers = {name: number for number, name in enumerate(names)}
    packed = [(term.words[1:], numbers[term.concept], term.open_end) for term in terms]
    packed.sort(key=lambda term: len(term[0].encode()), reverse=True)
    return PackedTerms(names, native.pack_concepts(packed, len(names)))


class NativeConcepts:
    """The terms of all dictionaries, ready to be found."""

    def __init__(self, packed: PackedTerms) -> None:
        self.index = native.ConceptIndex(packed.index, packed.names)

    def find(self, words: list[str]) -> list[tuple[int, str]]:
        """Return the concepts of a text in their order, each with its place."""
        found: list[tuple[int, str]] = self.index.find(words, MAX_FOUND)
        return found

    def list_features(self, words: list[str]) -> list[str]:
        """Return what `find_concepts` does."""
        features: list[str] = self.index.features(words, MAX_FOUND, NEAR, BESIDE)
        return features


class ConceptIndex:
    """The Python twin of `NativeConcepts`."""

    index = None

    def __init__(self, terms: Sequence[Term]) -> None:
        self._concepts = [term.concept for term in terms]
        self._open_ends = [term.open_end for term in terms]
        self._search = ahocorasick_rs.AhoCorasick(
            [term.words for term in terms], matchkind=ahocorasick_rs.MatchKind.LeftmostLongest
        )

    def find(self, words: list[str]) -> list[tuple[int, str]]:
        """Return the concepts of a text in their order, each with its place."""
        text = f" {' '.join(words)} "
        concepts, open_ends = self._concepts, self._open_ends
        return [
            (start, concepts[term])
            for term, start, end in self._search.find_matches_as_indexes(text)[:MAX_FOUND]
            if open_ends[term] or text[end] == " "
        ]

    def list_features(self, words: list[str]) -> list[str]:
        """Return what `find_concepts` does."""
        found = self.find(words)
        features: dict[str, None] = {}
        for place, (start, concept) in enumerate(found):
            features[_name(concept, concept)] = None
            for other_start, other in found[place + 1 : place + 1 + BESIDE]:
                if other_start - start > NEAR:
                    break
                features[_name(concept, other)] = None
        return list(features)


def find_concepts(words: list[str]) -> list[str]:
    """Return the features of a text's concepts, each once: `c:account`, and `c:account+blocked` for two that are close
    to each other, in the order of the alphabet."""
    return load_index().list_features(words)


@cache
def _name(one: str, other: str) -> str:
    """Return the feature of a concept, or of two; there are some 8,000 of them."""
    return CONCEPT + (one if one == other else f"{min(one, other)}+{max(one, other)}")


def list_languages() -> list[str]:
    """Return the languages that have a dictionary."""
    return sorted(each.name.removesuffix(".toml") for each in _DATA.iterdir() if each.name.endswith(".toml"))


def load_dictionary(language: str) -> dict[str, list[str]]:
    """Return the words of one language by concept, as they are written."""
    return tomllib.loads(_DATA.joinpath(f"{language}.toml").read_text("utf-8"))


def read_term(entry: str, concept: str) -> Term:
    """Return an entry of a dictionary as it is looked for: folded and split as the text is."""
    return Term(" " + " ".join(split_words(fold(entry.removesuffix("*")))), concept, entry.endswith("*"))


def join_dictionaries() -> list[Term]:
    """Return the terms of all languages, each once."""
    english = {term.words: term for term in _read_terms("en")}
    others: dict[str, list[Term]] = {}
    for language in list_languages():
        for term in _read_terms(language):
            if term.words not in english:
                others.setdefault(term.words, []).append(term)
    return [*english.values(), *map(_choose, others.values())]


def _read_terms(language: str) -> Iterator[Term]:
    for concept, entries in load_dictionary(language).items():
        for entry in entries:
            yield read_term(entry, concept)


def _choose(terms: list[Term]) -> Term:
    """Return what most languages mean by a spelling."""
    concepts = [term.concept for term in terms]
    concept = max(dict.fromkeys(concepts), key=concepts.count)
    return Term(terms[0].words, concept, any(term.open_end for term in terms if term.concept == concept))


@cache
def load_index() -> NativeConcepts | ConceptIndex:
    """Return the index of the shipped dictionaries. To read them takes half a second, so what was read is kept: for
    the native index as it is in memory."""
    sources = list(_list_sources())
    if native:
        kept = load_kept(__file__, "kept-concept-index", [*sources, read_native()], PackedTerms, _pack_shipped)
        return NativeConcepts(kept)
    return ConceptIndex(load_kept(__file__, "kept-concepts", sources, list[Term], join_dictionaries))


def _pack_shipped() -> PackedTerms:
    return pack_terms(join_dictionaries())


def _list_sources() -> Iterator[bytes]:
    yield Path(__file__).read_bytes()
    for language in list_languages():
        yield _DATA.joinpath(f"{language}.toml").read_bytes()
