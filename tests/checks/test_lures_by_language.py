"""Lures in every language: each theme has phrases, finds what a lure says, and leaves what an honest letter says."""

import tomllib
from pathlib import Path

import pytest

from gatepost.checks.phrases import Phrasebook, fold, load_lures, load_themes

LANGUAGES = (
    "en de fr es it pt nl pl cs sk hu ro sv da nb fi et lt lv el tr ru uk bg ar he fa hi zh-Hans zh-Hant ja ko vi th "
    "id ms"
).split()
SENTENCES = Path(__file__).parent / "lure_sentences"
# The last two of these are what those say who warn of lures, and subjects: there is little to say.
FEWEST, FEWEST_BY_THEME = 3, {"warning": 2, "bounce": 1}


@pytest.fixture(scope="module")
def lures() -> dict[str, dict[str, list[str]]]:
    return load_lures()


def test_every_language_has_a_book(lures: dict[str, dict[str, list[str]]]) -> None:
    assert sorted(lures) == sorted(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_theme_has_phrases(language: str, lures: dict[str, dict[str, list[str]]]) -> None:
    themes = load_themes()
    book = lures[language]
    few = {theme: len(book.get(theme, ())) for theme in themes}
    assert {theme: count for theme, count in few.items() if count < FEWEST_BY_THEME.get(theme, FEWEST)} == {}
    assert book.keys() <= themes.keys()


@pytest.mark.parametrize("language", LANGUAGES)
def test_lures_are_found_and_honest_sentences_are_left(language: str, lures: dict[str, dict[str, list[str]]]) -> None:
    sentences = tomllib.loads((SENTENCES / f"{language}.toml").read_text("utf-8"))
    assert sorted(sentences) == sorted(load_themes())
    for theme, its in sentences.items():
        book = Phrasebook({theme: lures[language][theme]})
        assert len(its["lure"]) >= 2, (theme, "two sentences of a lure are wanted")
        assert len(its["honest"]) >= 2, (theme, "two sentences of an honest letter are wanted")
        missed = [text for text in its["lure"] if not any(book.find(f" {fold(text)} "))]
        accused = {text: cue.words for text in its["honest"] for cue in book.find(f" {fold(text)} ")}
        assert not missed, (theme, "no phrase finds this")
        assert not accused, (theme, "a phrase finds what an honest letter says")
