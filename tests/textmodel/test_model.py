"""Scoring is addition; a file that is no model is refused; several models speak with one voice."""

import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.second_reader import pack_gloss

from gatepost.checks.phrases import mark_themes, search_message
from gatepost.mail.reader import read
from gatepost.textmodel import model as textmodel
from gatepost.textmodel.features import Features, extract_features
from gatepost.textmodel.gloss import Letters
from gatepost.textmodel.model import Model, ModelBlend, load_shipped_model, parse_model
from gatepost.textmodel.words import find_concepts, fold, make_words, split_words

WORDS = ("#links 0", "free", "meeting", "pills")


def toy(free: float = 2.0, slope: float = 1.0) -> Model:
    weights = np.zeros((5, 3), np.float32)
    weights[:, 0] = [-1.0, free, -3.0, 4.0, 6.0]
    weights[3, 1] = 1.0
    pair = WORDS.index("free") * (len(WORDS) + 1) + WORDS.index("pills")
    return Model(WORDS, np.array([pair], np.int64), weights, np.array([0.5, -2.0, -9.0], np.float32), slope)


def seen(text: str, *marks: str) -> Features:
    return Features(text.split(), [], list(marks))


@pytest.mark.parametrize(
    ("given", "raw"),
    [
        (seen(""), 0.5),
        (seen("free"), 0.5 + 2),
        (seen("free free"), 0.5 + 2),
        (seen("free pills"), 0.5 + (2 + 4 + 6) / math.sqrt(3)),
        (seen("pills free"), 0.5 + (2 + 4) / math.sqrt(2)),
        (seen("free unknown pills"), 0.5 + (2 + 4) / math.sqrt(2)),
        (seen("p1lls"), 0.5 + 4),
        (seen("meeting", "#links 0", "#new"), 0.5 - 3 - textmodel.MARK_SCALE),
    ],
)
def test_a_score_is_a_sum(given: Features, raw: float) -> None:
    assert toy().score(given).logit == pytest.approx(raw, abs=1e-5)


def test_a_kept_model_is_the_one_that_was_kept() -> None:
    content = toy().to_bytes()
    kept, made = textmodel.keep_model(content).open(), parse_model(content)
    assert (kept.words, kept.slope, kept.offset, kept.about) == (made.words, made.slope, made.offset, made.about)
    for text in ("free pills", "nothing known", "meeting p1lls"):
        assert kept.score(seen(text, "#links 0")) == made.score(seen(text, "#links 0"))
    assert kept.name(4) == made.name(4) == "free pills"
    assert kept.to_bytes() == made.to_bytes()


def test_no_evidence_leaves_the_prior() -> None:
    assert toy().score(seen("nothing of this is known")).logit == pytest.approx(toy().bias[0])


def test_good_words_do_not_drown_a_lure() -> None:
    good = tuple(first + second for first in "abcdefgh" for second in "abcdefghij")
    weights = np.zeros((82, 3), np.float32)
    weights[:, 0] = [5.0, 5.0, *[-1.0] * 80]
    model = Model(("free", "pills", *good), np.empty(0, np.int64), weights, np.zeros(3, np.float32))
    lure, stuffed = seen("free pills " * 40), seen("free pills " * 40 + " ".join(good) + " more" * 80)
    drowned = (10 - 80) / math.sqrt(82)
    part = 10 / math.sqrt(2)
    allowed = part - textmodel.DEVIATION * math.sqrt(2 * math.log(len(model.hits(stuffed).windows)))
    assert drowned < -5
    assert model.score(stuffed).logit == pytest.approx(allowed, abs=1e-5)
    assert model.score(stuffed).worst == pytest.approx(part, abs=1e-5)
    assert model.score(stuffed).logit < model.score(lure).logit


@pytest.mark.parametrize(("words", "windows"), [(0, 0), (59, 0), (60, 2), (120, 3), (1000, 25)])
def test_only_long_texts_have_windows(words: int, windows: int) -> None:
    assert len(toy().hits(seen("free " * words)).windows) == windows


def test_reasons_name_no_mere_shapes() -> None:
    words = ("#chars 4", "#form html", "#host hyphen", "#links 1", "#subject long 2", "pills")
    weights = np.array([[9 - row, 0, 0] for row in range(len(words))], np.float32)
    model = Model(words, np.empty(0, np.int64), weights, np.zeros(3, np.float32))
    assert model.reasons(model.hits(seen("pills", *words[:-1]))) == ("host hyphen", "pills")


def test_what_a_mail_says_to_reassure_its_reader_never_speaks_for_it() -> None:
    words = ("c:never_ask", "c:password", "c:never_ask+password", "c:account+unsubscribe", "never", "c:thanks")
    weights = np.full((len(words), 3), -1.0, np.float32)
    model = Model(words, np.empty(0, np.int64), weights, np.zeros(3, np.float32))
    for found in (textmodel.silence_assurances(model), parse_model(model.to_bytes())):
        assert found.weights[:, 0].tolist() == [0, -1, 0, 0, -1, -1]
        assert found.weights[:, 1].tolist() == [-1] * 6, "what it is called is another matter"
    accusing = textmodel.silence_assurances(Model(words, model.pairs, -weights, model.bias))
    assert accusing.weights[:, 0].tolist() == [1] * 6


def test_kinds_share_the_probability() -> None:
    score = toy().score(seen("pills"))
    assert score.spam + score.phishing + score.fraud == pytest.approx(score.unwanted)
    assert score.spam > score.phishing > score.fraud


def test_reasons_are_what_weighed_most() -> None:
    model = toy()
    assert model.reasons(model.hits(seen("free pills meeting"))) == ("free pills", "pills", "free")


def test_a_model_survives_its_file() -> None:
    again = parse_model(toy(slope=0.5).to_bytes())
    assert again.score(seen("free pills")) == toy(slope=0.5).score(seen("free pills"))
    assert again.words == WORDS


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04", toy().to_bytes()[:-40]])
def test_what_is_no_model_is_refused(content: bytes) -> None:
    with pytest.raises(textmodel.ModelError):
        parse_model(content)


def test_the_blend_is_the_average_of_log_odds() -> None:
    one, other = toy(free=2.0), toy(free=6.0)
    both = ModelBlend((one, other))
    blend = both.weigh(both.hits(seen("free")))
    assert blend.logit == pytest.approx((one.score(seen("free")).logit + other.score(seen("free")).logit) / 2)


def test_own_models_are_found_in_their_folder(tmp_path: Path) -> None:
    tenant = "0192aa00-0000-7000-8000-000000000001"
    assert textmodel.load_models(tmp_path / "none").for_tenant(tenant) == textmodel.load_shipped_models().all_tenants
    (tmp_path / "own.npz").write_bytes(toy().to_bytes())
    (tmp_path / f"{tenant.upper()}.npz").write_bytes(toy(free=9.0).to_bytes())
    models = textmodel.load_models(tmp_path)
    assert [len(models.for_tenant(name).models) for name in (None, "another", tenant)] == [2, 2, 3]
    assert isinstance(models, textmodel.DeployedModels)


def test_the_shipped_model_knows_an_advertisement_from_a_letter() -> None:
    spam = b"From: a@b.example\r\nSubject: Cheap pills!\r\n\r\nBuy cheap viagra now! 80% off, click here http://a.test/\r\n"
    ham = (
        b"From: a@b.example\r\nSubject: Re: patch\r\nIn-Reply-To: <1@c>\r\n\r\nThanks, the patch looks good to me.\r\n"
    )
    seen = [extract_features(read(raw)).with_marks(mark_themes(search_message(read(raw)))) for raw in (spam, ham)]
    scores = [load_shipped_model().score(each).unwanted for each in seen]
    assert scores[0] > 0.7
    assert scores[1] < 0.3


NOT_NAMES = ("enron", "trec", "spamassassin", "phishing_pot", "notmuch", "foff", "sisimai", "mailman", "yahoogroups")


def test_nothing_in_the_shipped_model_names_a_collection_a_host_or_a_date() -> None:
    words = load_shipped_model().words
    named = [word for word in words if word.removeprefix("s:").removeprefix("f:") in NOT_NAMES]
    assert not named
    assert not [word for word in words if not word.startswith("#") and any(c in "123456789@" for c in word)]
    assert not {"january", "monday", "gmt", "s:friday"} & set(words)


@given(st.lists(st.text(max_size=12), max_size=50), st.lists(st.text(max_size=12), max_size=10))
def test_any_words_have_a_score(text: list[str], marks: list[str]) -> None:
    score = toy().score(Features(text, text[:5], marks))
    assert 0 <= score.unwanted <= 1


GERMAN = "wir haben ihr konto gesperrt und bitten sie um eine bestätigung bei der bank"


def read_german() -> Letters:
    """A second reader that knows three German words and one English one, and the concept of a bank."""
    table = {"konto": "account", "bank": "bank", "bestati": "confirm"}
    gloss = pack_gloss({"de": table}, ["school"])
    pairs = np.array([gloss.stems.index("accoun") << 16 | gloss.stems.index("confir")], np.uint32)
    weights = np.array([1.0] * len(gloss.stems) + [2.0], np.float32)
    return Letters(gloss, pairs, weights, {"c:bank": 0.5}, 0.25)


def test_a_second_reader_knows_words_pairs_and_concepts() -> None:
    letters = read_german()
    model = msgspec.structs.replace(toy(), letters=letters)
    written = make_words([], [], split_words(fold(GERMAN)))
    alone = letters.ask(written)
    # Three stems and a pair of them are one sum, the concept of a bank is the other.
    noted = 0.5 if "c:bank" in find_concepts(split_words(fold(GERMAN))) else 0.0
    assert alone == pytest.approx(0.25 + 5 / math.sqrt(4) + noted)
    assert letters.ask(make_words([], [], ["zzz"])) == 0, "a text of which nothing is known"
    text = Features(split_words(fold(GERMAN)), [], [])
    assert model.score(text) == toy().score(text), "the first reader says what it said"
    assert ModelBlend((toy(), model)).ask_letters(written) == alone, "of those who have one"
    assert ModelBlend((toy(),)).ask_letters(written) == 0


def test_what_an_english_letter_taught_holds_in_german() -> None:
    letters = read_german()
    english, german = (make_words([], [], text.split()) for text in ("confirm your account", "konto bestatigung"))
    assert letters.ask(english) == letters.ask(german) == pytest.approx(0.25 + 4 / math.sqrt(3))


def test_a_second_reader_is_in_the_file_of_its_model() -> None:
    model = msgspec.structs.replace(toy(), letters=read_german())
    written = make_words([], [], split_words(fold(GERMAN)))
    for read_again in (parse_model(model.to_bytes()), textmodel.keep_model(model.to_bytes()).open()):
        assert read_again.letters is not None
        assert read_again.letters.ask(written) == read_german().ask(written)
    assert parse_model(toy().to_bytes()).letters is None
    torn = msgspec.structs.replace(read_german(), pairs=np.zeros(2, np.uint32))
    broken = msgspec.structs.replace(model, letters=torn)
    with pytest.raises(textmodel.ModelError, match="not a model"):
        parse_model(broken.to_bytes())


def test_the_shipped_model_has_a_second_reader() -> None:
    lure = "ihr konto wurde gesperrt bitte bestätigen sie umgehend ihre daten über den link sonst wird es gelöscht"
    letter = "liebe eltern am freitag ist das sommerfest der schule wir freuen uns auf euch und bringt bitte kuchen mit"
    written = [make_words([], [], split_words(fold(text))) for text in (lure, letter)]
    second = load_shipped_model().letters
    assert second is not None
    found = [second.ask(each) for each in written]
    assert found[0] > 1 > -1 > found[1]
