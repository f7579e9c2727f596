"""Features: only the words that the writer chose, as a person reads them, and marks of shapes, never a name."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.files.values import File
from gatepost.mail.message import Field, Headers, Link, Message, Text
from gatepost.mail.reader import read
from gatepost.names import Address
from gatepost.textmodel.features import find_marks, is_foreign
from gatepost.textmodel.words import (
    MAX_NAME_WORDS,
    MAX_WORDS,
    fold,
    guess_word,
    list_body_words,
    read_words,
    split_words,
)


def words(*visible: str) -> list[str]:
    return list_body_words(tuple(Text("1", "plain", text) for text in visible))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Buy now!", "buy now !"),
        ("Win $5,000 or 20%", "win $ 5 000 or 20 %"),
        ("Grüße, Café", "gruße cafe"),
        ("see https://evil.example/x and www.a.example or a@b.example now", "see and or now"),
        ("don't", "don t"),
        ("𝗙𝗿𝗲𝗲 money", "free money"),
    ],
)
def test_what_is_read(text: str, expected: str) -> None:
    assert words(text) == expected.split()


LETTER = "A long enough answer that was written by the sender of this mail itself, today.\n"


@pytest.mark.parametrize(
    "foreign",
    [
        "> quoted from somebody else\n",
        "| quoted too\n",
        "On Monday, Ann Example wrote:\n",
        "From: Ann\nSent: yesterday\nSubject: old\n",
        "-- \nAnn Example\nHead of Nothing\n",
        "_______________________________________________\nreform mailing list\nUnsubscribe here\n",
    ],
)
def test_what_others_or_machines_wrote_is_left_out(foreign: str) -> None:
    assert words(LETTER + foreign) == words(LETTER)


def test_a_long_text_after_dashes_is_no_signature() -> None:
    hidden = "-- \n" + "cheap pills\n" * 30
    assert "pills" in words(LETTER + hidden)


def test_mail_of_quotes_alone_is_read_whole() -> None:
    assert "casino" in words("> our casino waits\n> for you\n> tonight\n")


def test_alternatives_that_say_the_same_are_read_once() -> None:
    assert words(LETTER, LETTER.upper()) == words(LETTER)
    assert "poker" in words(LETTER, "poker " + LETTER)


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("[gcc-help] Re: Fwd: a question", "a question"),
        ("RE: AW: offer", "offer"),
        ("Invoice for ann@example.org", "invoice for"),
        ("", ""),
    ],
)
def test_subjects_without_the_marks_of_lists_and_replies(subject: str, expected: str) -> None:
    assert read_words(Message(subject=subject)).subject == expected.split()


def test_names_lose_addresses() -> None:
    senders = (Address("PayPal Service <x@y.example>", "a", "b.example"), Address("Été " * 20, "c", "d.example"))
    assert read_words(Message(senders=senders)).names == ["paypal", "service", *["ete"] * MAX_NAME_WORDS]


@pytest.mark.parametrize(
    ("word", "form"),
    [
        ("v1agra", "viagra"),
        ("pаypаl", "paypal"),
        ("2007", "0000"),
        ("12345678901", "000000000"),
        ("house", ""),
        ("3d", ""),
    ],
)
def test_what_an_unknown_word_stands_for(word: str, form: str) -> None:
    assert guess_word(word) == form


def test_writing_without_blanks_is_read_by_twos() -> None:
    assert words("免费发票") == ["免费", "费发", "发票"]


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    found = words(text)
    assert len(found) <= MAX_WORDS
    assert all(found)


def test_a_huge_text_costs_no_more_than_its_beginning() -> None:
    assert len(words("word " * 1_000_000)) <= MAX_WORDS


def link(url: str, source: str = "html") -> Link:
    return Link(url, url, url.partition("://")[2].partition("/")[0], "", "1", source)  # type: ignore[arg-type]


def mail(*urls: str, domain: str = "shop.example") -> Message:
    return Message(senders=(Address("", "a", domain),), links=tuple(link(url) for url in urls))


@pytest.mark.parametrize(
    ("urls", "mark"),
    [
        (["https://192.0.2.7/login"], "#host number"),
        (["http://a.test/x/y?id=1"], "#insecure"),
        ([], "#links 0"),
    ],
)
def test_links(urls: list[str], mark: str) -> None:
    assert mark in find_marks(mail(*urls), ())


def test_no_mark_names_a_host() -> None:
    found = find_marks(mail("https://very-special-host7.example/path", domain="sender-name.example"), ())
    assert not [mark for mark in found if "special" in mark or "sender-name" in mark]


@pytest.mark.parametrize(
    "fields", [["in-reply-to"], ["references"], ["list-unsubscribe", "list-unsubscribe-post"], ["list-id", "list-post"]]
)
def test_what_a_sender_writes_to_be_excused_is_no_mark(fields: list[str]) -> None:
    plain = mail("https://www.shop.example/a")
    claiming = msgspec.structs.replace(plain, headers=Headers(tuple(Field(name, "x", b"") for name in fields)))
    assert find_marks(claiming, ()) == find_marks(plain, ())
    elsewhere = mail("https://www.shop.example/a", domain="other.example")
    assert find_marks(elsewhere, ()) == find_marks(plain, ()), "nor whose the links are"


def test_attached_files_and_hidden_text() -> None:
    text = Text("1", "html", "short", "hidden words " * 20)
    found = find_marks(Message(texts=(text,)), (File("1", b"", "html", ""), File("2", b"", "pdf", "")))
    assert "#file pdf" in found
    assert "#file html" not in found  # that is the text itself
    assert "#hidden 3" in found


def test_marks_come_once() -> None:
    found = find_marks(read(b"From: a@b.example\r\n\r\nhttps://a.test/ https://b.test/ https://c.test/\r\n"), ())
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    "text",
    [
        "Ihr Paket konnte nicht zugestellt werden, bitte bestätigen Sie die Adresse",
        "Votre colis est en attente, merci de régler les frais pour la livraison",
        "Számláját zároltuk, kérjük erősítse meg az adatait még ma, hogy ne törölje a bank",
        "Ваша посылка ожидает оплаты, подтвердите адрес доставки сегодня до полуночи",
        "お客様のアカウントは一時的に制限されています。本人確認をお願いします。",
        "Twoja paczka czeka na dopłatę, prosimy o potwierdzenie adresu do jutra",
    ],
)
def test_texts_in_other_languages_are_known(text: str) -> None:
    assert is_foreign(split_words(fold(text)))


@pytest.mark.parametrize(
    "text",
    [
        "Your parcel could not be delivered, please confirm the address before tomorrow",
        "We met in der Schweiz and had a very good time with all of the children there",
        "diff git a target linux ath79 mikrotik config default 2 1 file changed 2 insertions",
        "Kysa Alport Enron North America o 503 464 7486 c 503 706 5308",
        "Ihr Paket ist da",
        "",
    ],
)
def test_english_names_numbers_and_a_few_words_are_not_foreign(text: str) -> None:
    assert not is_foreign(split_words(fold(text)))


ENGLISH_PROSE = "we met at the station and had a very good time with all of the children there " * 12


@pytest.mark.parametrize("place", ["above", "below", "around"])
def test_english_prose_beside_a_text_does_not_make_it_english(place: str) -> None:
    german = "Ihr Paket konnte nicht zugestellt werden, bitte bestätigen Sie umgehend die Adresse bei der Post " * 3
    above, below = ENGLISH_PROSE * (place != "below"), ENGLISH_PROSE * (place != "above")
    assert is_foreign(split_words(fold(f"{above} {german} {below}")))
    assert not is_foreign(split_words(fold(ENGLISH_PROSE * 2)))


def test_hosts_of_examples_have_no_mark_of_their_ending() -> None:
    found = find_marks(read(b"From: a@b.example\r\n\r\nhttps://a.example/ https://b.com/\r\n"), ())
    assert {mark for mark in found if mark.startswith("#host ending")} == {"#host ending com"}
