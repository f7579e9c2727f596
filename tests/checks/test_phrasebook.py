"""Phrases, how they are written and how they are found."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.checks.phrases import LURES, WARES, Phrasebook, PhraseError, fold


def found(phrase: str, text: str) -> list[str]:
    return [cue.words for cue in Phrasebook({"t": [phrase]}).find(f" {fold(text)} ")]


@pytest.mark.parametrize(
    ("phrase", "text", "words"),
    [
        ("verify your account", "Please VERIFY  your\naccount!", ["verify your account"]),
        ("(verify|confirm) your (account|mailbox)", "confirm your mailbox", ["confirm your mailbox"]),
        ("(verify|confirm) your (account|mailbox)", "confirm your letterbox", []),
        ("keep (the |)password", "keep password, keep the password", ["keep password", "keep the password"]),
        ("masturb*", "masturbation", ["masturbation"]),
        ("pill", "pillow caterpillar", []),
        ("pills", "(pills)", ["pills"]),
        ("urgent", "ur\u200bgent", ["urgent"]),
        ("urgent", "𝐮𝐫𝐠𝐞𝐧𝐭", ["urgent"]),
        ("überprüfen sie", "Uberprüfen Sie", ["uberprufen sie"]),
        ("e-mail konto", "email konto, E-Mail Konto", ["email konto", "email konto"]),
        ("don't wait", "don’t wait", ["don't wait"]),
        ("验证您的(账户|身份)", "请验证您的账户。", ["验证您的账户"]),
        ("pay \\$", "pay $500", ["pay $"]),
        ("a(b|c)?d", "ad abd", ["ad", "abd"]),
        ("(a (b|c)|d) e", "a c e, d e", ["a c e", "d e"]),
    ],
)
def test_phrases(phrase: str, text: str, words: list[str]) -> None:
    assert found(phrase, text) == words


@pytest.mark.parametrize("phrase", ["(a|b", "a|b)", "(a|)", "a)b", "(" + "|".join(["(a|b)" * 13]) + ")"])
def test_a_faulty_phrase_is_refused(phrase: str) -> None:
    with pytest.raises(PhraseError):
        Phrasebook({"t": [phrase]})


@given(
    st.lists(
        st.lists(st.sampled_from(["re", "fund", "tax", "now", ""]), min_size=1, max_size=3), min_size=1, max_size=3
    )
)
def test_a_phrase_finds_each_of_its_forms(slots: list[list[str]]) -> None:
    slots.append(["end"])
    phrase = " ".join(f"({'|'.join(slot)})" for slot in slots)
    for choice in product(*slots):
        text = " ".join(choice)
        if "  " not in text and text == text.strip():
            assert text in found(phrase, f"x {text} y")


@given(st.text(max_size=400))
def test_any_text_is_searched(text: str) -> None:
    plain = f" {fold(text)} "
    for cue in Phrasebook({"t": ["(re|tax) (fund|now)", "n*", "税"]}).find(plain):
        assert plain[cue.start :].lstrip().startswith(cue.words)


def test_folding_is_idempotent() -> None:
    for text in ("Straße E-Mail İstanbul", "ＦＵＬＬ ｗｉｄｔｈ", "がぎぐ", "mañana ’x’"):
        assert fold(fold(text)) == fold(text)


def test_no_theme_of_the_books_is_empty() -> None:
    assert all(LURES.values())
    assert all(WARES.values())
    assert not LURES.keys() & WARES.keys()


def test_no_phrase_of_the_books_is_a_single_short_word() -> None:
    for theme, phrases in (LURES | WARES).items():
        for phrase in phrases:
            assert not re.fullmatch(r"[a-z]{1,3}", phrase), (theme, phrase)
