"""The phrases and signs of a whole message: the one native call gives what its Python twin gives, for any texts."""

from collections.abc import Callable
from typing import Literal

import msgspec
import pytest
from bench.corpus import NotPresentError, mail
from hypothesis import given
from hypothesis import strategies as st

from gatepost import speedups
from gatepost.checks import phrases, triggers
from gatepost.mail.message import Message, Text
from gatepost.mail.reader import read
from gatepost.names import MAX_SUBJECT

native = speedups.native
pytestmark = pytest.mark.skipif(native is None, reason="not run: the native speedups were not built here")

PIECES = (
    "verify your account|Verify  your\tACCOUNT|click here|e-mail|E-Mail|e-|mail|wire transfer|within 24 hours|"
    "dear customer|viagra|v1agra|V I A G R A|wallet|+$1,989|$ 1,300,000|8o5-5s5-0100|"
    "konto bestätigen|bestätigen|подтвердите ваш|"
    "аккаунт|验证您的账户|验证您的|账户|تحديث حسابك|حِسَابُكَ|كلمة المرور|บัญชีของคุณ|계정을 확인|アカウント|"
    "ｖｅｒｉｆｙ your|ver\u00adify your account|ver\u200bify your acc\u2060ount|vérify yo\u0301ur|"
    "e\u0301\u0323|\u0301|"
    "\ud800|\udfff|\ud83d|\U0001f4b0|\U0001d4ff|\U00010400|\ufdfa|İstanbul|ﬁle|ß|½|ı|Ł|’|“|–|\ufeff|"
    "\x00|\x1c|\x1e|\u2003|\u3000|\xa0|"
    ">|> |\n>|\n |\n    >|\n     >|\n\t>|\n|\r\n|\n>>|.|,|-|x"
).split("|")
# The sign that parts the pieces is a mark of quotes itself.
PIECE = st.sampled_from([*PIECES, "|", "\n|", "\n  |"])
LETTERS = st.lists(st.tuples(PIECE, st.sampled_from((" ", "", "\n"))), max_size=14).map(
    lambda pieces: "".join(piece + blank for piece, blank in pieces)
)
SHOWN = LETTERS | st.text(max_size=60)
TEXT = st.builds(
    Text, st.just("1"), st.sampled_from(("plain", "html", "document")), SHOWN, st.just("") | SHOWN, st.booleans()
)


@pytest.fixture(scope="module")
def twin_book() -> phrases.Phrasebook:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phrases, "native", None)
        return phrases.Phrasebook(phrases.compile_phrases(phrases.join_lures() | phrases.WARES))


@pytest.fixture(scope="module")
def compare(twin_book: phrases.Phrasebook) -> Callable[[Message], phrases.Phrases]:
    def compare_message(message: Message) -> phrases.Phrases:
        found = phrases.search_message(message)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(phrases, "native", None)
            twin = phrases.search_texts(twin_book, message)
        assert found.text == twin.text
        # Phrases that begin at one place stand in any order.
        assert {theme: sorted(words) for theme, words in found.themes.items()} == {
            theme: sorted(words) for theme, words in twin.themes.items()
        }
        assert msgspec.structs.replace(found, themes={}, signs=None) == msgspec.structs.replace(twin, themes={})
        assert found.signs is not None
        assert not triggers.find_text_signs(twin.text, message) & ~found.signs
        return found

    return compare_message


@given(SHOWN, st.lists(TEXT, max_size=8))
def test_the_same_for_generated_texts(
    compare: Callable[[Message], phrases.Phrases], subject: str, texts: list[Text]
) -> None:
    compare(Message(subject=subject, texts=tuple(texts)))


Form = Literal["plain", "html", "document"]
FULL = "verify your account "


@pytest.mark.parametrize("letter", ["a", "é", "ß", "中", "\u00ad", "\u0301", "\U0001f4b0", "\ud800", "> a\n", "é\n>"])
@pytest.mark.parametrize("form", ["plain", "document"])
def test_the_same_at_the_limits(compare: Callable[[Message], phrases.Phrases], form: Form, letter: str) -> None:
    """The last characters of the subject and of the texts that are read, and the first that are not."""
    for more in (-len(FULL) - 1, -4, 0, 1):
        long = (letter * phrases.MAX_CHARS)[: phrases.MAX_CHARS + more]
        halves = long[: len(long) // 2], long[len(long) // 2 :]
        texts = tuple(Text("1", form, each) for each in (*halves, FULL))
        compare(Message(subject=letter * (MAX_SUBJECT + more) + FULL, texts=texts))


def test_the_same_for_many_texts(compare: Callable[[Message], phrases.Phrases]) -> None:
    every: tuple[tuple[Form, ...], ...] = (("plain",), ("document",), ("plain", "document"), ("document", "html"))
    for forms in every:
        texts = tuple(Text(str(i), forms[i % len(forms)], f"text {i % 4} {FULL * (i % 3)}") for i in range(20))
        for count in range(len(texts) + 1):
            compare(Message(subject=FULL, texts=texts[:count]))


def test_a_document_with_more_phrases_is_the_letter(compare: Callable[[Message], phrases.Phrases]) -> None:
    document = "unlock your account, verify your account, confirm your password"
    found = compare(Message(texts=(Text("1", "plain", "See the file."), Text("2", "document", document))))
    assert found.length == len(document)


@pytest.mark.parametrize("archive", ["mail-dev", "mail-dev-2"])
def test_the_same_for_real_mail(compare: Callable[[Message], phrases.Phrases], archive: str) -> None:
    try:
        messages = mail(150, archive=archive)
    except NotPresentError as absent:
        pytest.skip(f"not run: {absent}")
    for message in messages:
        compare(read(message.raw))


def test_a_book_with_short_words_is_searched_by_python() -> None:
    """The native index does not have words of less than three bytes."""
    book = phrases.Phrasebook(phrases.compile_phrases({"t": ["é", "account"]}))
    message = Message(texts=(Text("1", "plain", "my account"),))
    assert phrases.Phrasebook(phrases.compile_phrases({"t": ["account"]})).search_natively(message)
    assert book.search_natively(message) is None


def _search(**changes: object) -> object:
    index = phrases.SHIPPED
    given: dict[str, object] = {
        "names": index._themes,
        "subject": "verify your account",
        "texts": (Text("1", "plain", "\ud800"),),
        "table": phrases._FOLDED[0],
        "longer": phrases._FOLDED[1],
        "fold": phrases._fold_beginning,
    }
    return index._native.search_message(*(given | changes).values())  # type: ignore[union-attr]


def _fail(*_: object) -> object:
    raise KeyError("no")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"names": ()}, TypeError),
        ({"names": []}, ValueError),
        ({"names": [7] * 100_000}, ValueError),
        ({"subject": b"a"}, TypeError),
        ({"texts": []}, TypeError),
        ({"texts": (1,)}, AttributeError),
        ({"texts": (Text("1", "plain", b"a"),)}, TypeError),  # type: ignore[arg-type]
        ({"texts": (Text("1", 7, "a"),)}, TypeError),  # type: ignore[arg-type]
        ({"texts": (Text("1", "plain", "a", b"a"),)}, TypeError),  # type: ignore[arg-type]
        ({"table": "é"}, ValueError),
        ({"longer": []}, TypeError),
        ({"fold": None}, TypeError),
        ({"fold": _fail}, KeyError),
        ({"fold": lambda *_: "a"}, TypeError),
        ({"fold": lambda *_: (b"a", 1)}, TypeError),
        ({"fold": lambda *_: ("a", -1)}, ValueError),
    ],
)
def test_wrong_arguments_are_refused(changes: dict[str, object], error: type[Exception]) -> None:
    assert _search()
    with pytest.raises(error):
        _search(**changes)


def test_any_answer_of_the_fold_is_taken() -> None:
    for answer in ("", "a", "é", "中", "\ud800", "\U0001f4b0", "verify your account" * 9_000):
        found = _search(fold=lambda *_, made=answer: (made, 1))
        assert isinstance(found, tuple)
        assert found[0] == f" verify your account \n {answer} "
