"""Training of the second reader: logistic regression on English stems, on pairs of them and on concepts.

It learns from letters and notices and from nothing else: no collection of real mail has wanted and unwanted mail of
other languages, or notices, of the same people. What one letter teaches holds in every language, since all are read as
English stems (`gatepost.textmodel.gloss`). Rare stems and pairs may weigh more, as in weighting by inverse document
frequency (Spärck Jones, 1972).

The table of words comes from a file of JSON, {language: {word: [[English stem, probability], …]}}, or else from the
shipped model. English words that the letters use often are stems as well.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from gatepost.textmodel.features import SUBJECT, Features
from gatepost.textmodel.gloss import (
    ENGLISH,
    ENGLISH_SIZE,
    Gloss,
    Letters,
    cut_word,
    hash_word,
    list_pairs,
    names_assurance,
)
from gatepost.textmodel.model import load_shipped_model
from gatepost.textmodel.words import fold

T = TypeVar("T", bound=Hashable)

# What a word means with less probability is left out.
LEAST_PROBABILITY = 0.15
MIN_OF_STEM = 3
MIN_MESSAGES, MIN_COLLECTIONS = 4, 2
# Of features whose values are larger by what rarity multiplies them with.
STRENGTH = 20 / 36


class Read(msgspec.Struct, frozen=True):
    """A letter as the second reader sees it: its stems and pairs by their numbers, and its concepts."""

    stems: frozenset[int]
    pairs: frozenset[int]
    concepts: frozenset[str]


def read_gloss(path: Path, letters: Iterable[Features]) -> Gloss:
    """Return the table of a file, with the stems of these letters that are English words."""
    tables: dict[str, dict[str, str]] = {}
    for language, words in json.loads(path.read_text("utf-8")).items():
        best: dict[str, tuple[float, str]] = {}
        for word, ((stem, probability), *_) in words.items():
            beginning = cut_word(fold(word).strip())
            if beginning.isalpha() and stem.isascii() and stem.isalpha() and probability >= LEAST_PROBABILITY:
                best[beginning] = max(best.get(beginning, (0.0, "")), (probability, stem))
        tables[language] = {word: stem for word, (_, stem) in best.items()}
    known = pack_gloss(tables, ())
    counts = Counter(
        word[:ENGLISH_SIZE]
        for seen in letters
        if known.read(seen.text)[0] == ENGLISH
        for word in set(seen.text)
        if len(word) > 1 and word.isascii() and word.isalpha()
    )
    return pack_gloss(tables, (stem for stem, count in counts.items() if count >= MIN_OF_STEM))


def pack_gloss(tables: Mapping[str, Mapping[str, str]], english: Iterable[str]) -> Gloss:
    """Return the table of words and their stems by language, with English stems that mean themselves."""
    known = {stem for table in tables.values() for stem in table.values()}
    stems = tuple(sorted({stem[:ENGLISH_SIZE] for stem in (*known, *english)}))
    languages = tuple(sorted({*tables, ENGLISH}))
    numbers = {stem: number for number, stem in enumerate(stems)}
    entries = {(hash_word(stem), languages.index(ENGLISH)): numbers[stem] for stem in stems}
    for language, table in sorted(tables.items()):
        place = languages.index(language)
        entries |= {
            (hash_word(cut_word(word)), place): numbers[stem[:ENGLISH_SIZE]] for word, stem in sorted(table.items())
        }
    rows = np.array([(*key, stem) for key, stem in sorted(entries.items())], np.int64)
    return Gloss(
        languages, stems, rows[:, 0].astype(np.uint32), rows[:, 1].astype(np.uint8), rows[:, 2].astype(np.uint16)
    )


def load_shipped_gloss() -> Gloss:
    """Return the table of the shipped model."""
    letters = load_shipped_model().letters
    if letters is None:
        raise ValueError("the shipped model has no table of words: name one with --gloss")
    return letters.gloss


def read_letter(gloss: Gloss, small: frozenset[int], seen: Features) -> Read:
    """Return a letter as the second reader sees it."""
    subject = [word.removeprefix(SUBJECT) for word in seen.rest if word.startswith(SUBJECT)]
    _, texts = gloss.read(seen.text, subject)
    pairs = (list_pairs(text, small) for text in texts)
    return Read(frozenset().union(*texts), frozenset().union(*pairs), frozenset(seen.concepts))


def learn(
    gloss: Gloss, letters: Sequence[Features], truth: Sequence[bool], families: Sequence[str], weights: Sequence[float]
) -> Letters:
    """Return the reader that these letters teach."""
    from tools.training import fit_regression

    small = Letters(gloss, np.zeros(0, np.uint32), np.zeros(0, np.float32), {}, 0.0).small
    seen = [read_letter(gloss, small, each) for each in letters]
    stems = _number_used([each.stems for each in seen], families)
    pairs = _number_used([each.pairs for each in seen], families)
    concepts = _number_used([each.concepts for each in seen], families)
    matrix = _build_matrix(seen, stems, pairs, concepts)
    rarity = np.log((1 + len(seen)) / (1 + matrix.getnnz(axis=0))) + 1
    fitted, bias = fit_regression(matrix.multiply(rarity).tocsr(), np.array(truth), np.array(weights), STRENGTH, seed=1)
    fitted = (fitted * rarity).astype(np.float32)
    of_stems = np.zeros(len(gloss.stems), np.float32)
    of_stems[list(stems)] = fitted[: len(stems)]
    of_pairs, of_concepts = fitted[len(stems) : len(stems) + len(pairs)], fitted[len(stems) + len(pairs) :]
    weighed = {
        name: max(0.0, weight) if names_assurance(name) else weight
        for name, weight in zip(concepts, of_concepts.tolist(), strict=True)
    }
    return Letters(gloss, np.array(list(pairs), np.uint32), np.concatenate([of_stems, of_pairs]), weighed, bias)


def _number_used(features: Sequence[frozenset[T]], families: Sequence[str]) -> dict[T, int]:
    """Return the features that enough letters of enough collections have, in their order, with their columns."""
    counts: Counter[T] = Counter()
    collections: defaultdict[T, set[str]] = defaultdict(set)
    for each, family in zip(features, families, strict=True):
        counts.update(each)
        for feature in each:
            collections[feature].add(family)
    used = (key for key, count in counts.items() if count >= MIN_MESSAGES and len(collections[key]) >= MIN_COLLECTIONS)
    return {feature: number for number, feature in enumerate(sorted(used))}  # type: ignore[type-var]


def _build_matrix(
    seen: Sequence[Read], stems: Mapping[int, int], pairs: Mapping[int, int], concepts: Mapping[str, int]
) -> Any:
    """Return one row for each letter, scaled as in `Letters.ask`."""
    from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

    rows, values, ends = [], [], [0]
    for each in seen:
        known = [len(stems) + pairs[pair] for pair in each.pairs if pair in pairs]
        text = [stems[stem] for stem in each.stems if stem in stems] + known
        # Stems count although no weight was learnt for them, as they do where a mail is judged.
        count = len(each.stems) + len(known)
        noted = [len(stems) + len(pairs) + concepts[name] for name in each.concepts if name in concepts]
        rows += [*text, *noted]
        values += [1 / math.sqrt(count or 1)] * len(text) + [1 / math.sqrt(len(noted) or 1)] * len(noted)
        ends.append(len(rows))
    return csr_matrix((values, rows, ends), (len(seen), len(stems) + len(pairs) + len(concepts)))
