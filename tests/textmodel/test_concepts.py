"""Concepts: the same features for the same content in every language, in bounded work, and dictionaries of one form."""

import itertools
import tomllib
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.textmodel.words import (
    BESIDE,
    CONCEPT,
    MAX_FOUND,
    ConceptIndex,
    Term,
    find_concepts,
    fold,
    join_dictionaries,
    list_languages,
    load_dictionary,
    load_index,
    read_term,
    split_words,
)

LANGUAGES = (
    "en de fr es it pt nl pl cs sk hu ro sv da nb fi et lt lv el tr ru uk bg ar he fa hi zh-Hans zh-Hant ja ko vi th "
    "id ms"
).split()


def concepts_of(text: str) -> set[str]:
    return set(find_concepts(split_words(fold(text))))


def test_every_language_has_a_dictionary_of_all_concepts() -> None:
    assert list_languages() == sorted(LANGUAGES)
    concepts = list(tomllib.loads(files("gatepost.textmodel").joinpath("data", "concepts.toml").read_text("utf-8")))
    for language in LANGUAGES:
        words = load_dictionary(language)
        assert list(words) == concepts, language
        few = [concept for concept, entries in words.items() if len(entries) < 3]
        assert not few, (language, few)


@pytest.mark.parametrize("language", LANGUAGES)
def test_entries_can_be_found(language: str) -> None:
    """An entry is folded and split as text is, so it is found where it stands; another term may be longer."""
    index = ConceptIndex(_read(language))
    for concept, entries in load_dictionary(language).items():
        for entry in entries:
            words = split_words(fold(entry.removesuffix("*")))
            assert words, (concept, entry)
            assert index.find(words), (concept, entry)


def test_no_term_is_so_short_that_it_stands_in_every_mail() -> None:
    short = [term.words for term in join_dictionaries() if len(term.words) < 4 and term.words.isascii()]
    assert not short


@pytest.mark.parametrize(
    ("text", "concepts"),
    [
        ("Your account has been suspended, please verify your identity.", "account blocked verify identity"),
        ("Ihr Konto wurde gesperrt, bitte bestätigen Sie Ihre Identität.", "account blocked verify identity"),
        ("Votre compte est bloqué, veuillez confirmer votre identité.", "account blocked verify identity"),
        ("Su cuenta ha sido bloqueada, verifique su identidad.", "account blocked verify identity"),
        ("Ваш аккаунт заблокирован, подтвердите свою личность.", "account blocked verify identity"),
        ("アカウントがロックされました。本人確認を行ってください。", "account blocked"),
        ("계정이 정지되었습니다. 비밀번호를 확인하세요.", "account blocked password"),
        ("您的账户已被冻结，请立即验证。", "account blocked verify"),
        ("A számláját zárolták, kérjük, erősítse meg a jelszavát.", "blocked verify password"),
        ("Hesabınız askıya alındı, şifrenizi doğrulayın.", "account blocked password verify"),
    ],
)
def test_the_same_content_in_several_languages(text: str, concepts: str) -> None:
    missing = {CONCEPT + concept for concept in concepts.split()} - concepts_of(text)
    assert not missing, (text, concepts_of(text))


def test_concepts_beside_each_other_are_a_feature() -> None:
    assert f"{CONCEPT}account+blocked" in concepts_of("your account was blocked")
    apart = "your account " + "and some more of other letters " * 5 + " was blocked"
    assert f"{CONCEPT}account+blocked" not in concepts_of(apart)


def test_a_word_ends_where_its_entry_has_no_star() -> None:
    index = ConceptIndex([Term(" card", "card", False), Term(" kart", "card", True)])
    assert index.find(["cardinal"]) == []
    assert [concept for _, concept in index.find(["card", "karten"])] == ["card", "card"]


@pytest.mark.variant
def test_what_several_languages_spell_alike_counts_as_english() -> None:
    english = {term.words: term.concept for term in _read("en")}
    spelled_alike = [
        term
        for language in LANGUAGES
        for term in _read(language)
        if english.get(term.words, term.concept) != term.concept
    ]
    assert spelled_alike
    meant = {term.words: term.concept for term in join_dictionaries()}
    assert {meant[term.words] == english[term.words] for term in spelled_alike} == {True}


def _read(language: str) -> list[Term]:
    return [read_term(entry, name) for name, entries in load_dictionary(language).items() for entry in entries]


@given(st.lists(st.text(max_size=12), max_size=60))
def test_any_words_can_be_searched(words: list[str]) -> None:
    found = find_concepts(words)
    assert len(found) == len(set(found))


def test_the_work_is_bounded() -> None:
    concepts = itertools.islice(itertools.cycle(["account", "password", "parcel", "casino", "doctor"]), 5_000)
    words = list(concepts)
    assert len(load_index().find(words)) == MAX_FOUND
    assert len(find_concepts(words)) <= 5 * (BESIDE + 1)
