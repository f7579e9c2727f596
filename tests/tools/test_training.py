"""Learning on a small made-up world: what carries over is learnt, what names a collection is not."""

import json
import random
from importlib.util import find_spec
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tools.training import (
    Example,
    TrainingError,
    build_matrix,
    build_vocabulary,
    family_of,
    find_heaviest,
    find_kind,
    fit_collections,
    learn,
    learn_letters,
    select_spread,
    write_model_card,
)

from gatepost.textmodel.features import Features
from gatepost.textmodel.model import FEEDBACK_FOLDER as REPORTS
from gatepost.textmodel.model import parse_model
from gatepost.textmodel.words import make_words

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="not run: scikit-learn is not installed")

GOOD = "agenda minutes patch review lunch draft budget question attached thanks".split()
BAD = "winner casino pills rolex lottery urgent verify wallet bonus claim".split()


def world(seed: int = 3) -> list[Example]:
    """Two collections with the same good and bad words, and a name each that gives the collection away."""
    dice = random.Random(seed)
    made = []
    for corpus in ("north_a", "south"):
        for label, words in (("ham", GOOD), ("spam", BAD)):
            for _ in range(40):
                text = dice.choices(words, k=6) + dice.choices("the and of to it".split(), k=6)
                text += [f"{corpus}town"] if label == "ham" else []
                dice.shuffle(text)
                made.append(Example(Features(text, ["s:" + dice.choice(words)], ["#links 1"]), label, corpus))
    return made


@pytest.mark.variant
def test_the_same_seed_and_mail_give_the_same_model() -> None:
    assert learn(world(), seed=5).to_bytes() == learn(world(), seed=5).to_bytes()


def test_what_is_learnt_carries_over_and_what_names_a_collection_is_not_known() -> None:
    model = learn(world())
    assert "north_atown" not in model.words
    assert model.score(Features(["casino", "bonus"], [], [])).unwanted > 0.8
    assert model.score(Features(["patch", "review"], [], [])).unwanted < 0.2
    top = [name for name, weight in find_heaviest(model, 10) if weight > 0]
    assert {name.removeprefix("s:") for word in top for name in word.split()} <= set(BAD) | {
        "the",
        "and",
        "of",
        "to",
        "it",
    }


def test_one_sided_mail_teaches_nothing() -> None:
    with pytest.raises(TrainingError):
        learn([example for example in world() if example.label == "ham"])


def lies(count: int) -> list[Example]:
    """Spam that somebody reports as wanted."""
    seen = [example.seen for example in world(7) if example.label == "spam"]
    return [Example(seen[number % len(seen)], "ham", REPORTS, 5.0) for number in range(count)]


@pytest.mark.parametrize("count", [20, 400])
def test_wrong_reports_do_not_turn_the_model_round(count: int) -> None:
    model = learn([*world(), *lies(count)])
    assert model.slope > 0
    good, bad = (model.score(Features(words, [], [])).unwanted for words in (["patch", "review"], ["casino", "bonus"]))
    assert good < bad


@pytest.mark.variant
def test_a_flood_of_wrong_reports_is_bounded() -> None:
    """However many there are, they weigh together less than what two collections agree on."""
    for count in (400, 4_000):
        assert learn([*world(), *lies(count)]).score(Features(BAD, [], [])).unwanted > 0.5


def test_parts_of_one_collection_belong_together() -> None:
    assert family_of("spamassassin_easy_ham") == family_of("spamassassin_spam") == "spamassassin"


def test_numbers_are_known_by_their_length_and_dates_not_at_all() -> None:
    text = ["in", "2007", "on", "friday"]
    made = [Features(text, ["s:march"], []) for _ in range(20)]
    words = build_vocabulary(made, ["a", "b"] * 10).words
    assert set(words) == {"in", "0000", "on"}


def test_a_word_that_one_collection_owns_is_dropped() -> None:
    counts = np.array([[90.0, 50.0, 9.0, 100.0], [2.0, 40.0, 0.0, 1.0]])
    assert select_spread(counts, np.array([100.0, 100.0])).tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("label", "text", "kind"),
    [
        ("ham", "verify your account", "ham"),
        ("bounce", "", "ham"),
        ("spam", "cheap watches", "spam"),
        ("spam", "i am a barrister and you are the beneficiary", "fraud"),
        ("phish", "please verify your account", "phishing"),
        ("phish", "cheap watches", "unclear"),
        ("fraud", "", "fraud"),
    ],
)
def test_kinds_of_unwanted_mail(label: str, text: str, kind: str) -> None:
    assert find_kind(label, Features(text.split(), [], [])) == kind


def test_the_card_says_where_it_came_from_and_how_to_do_without() -> None:
    model = learn(world())
    model = parse_model(model.to_bytes())
    model.about["sources"] = {"phishing_pot": {"phish": 3}, "mine": {"ham": 2}}
    card = write_model_card(model, (), ["mail"])
    assert "CC BY-NC" in card
    assert "python -m tools.train_model --corpus mail --seed 1 --without phishing_pot" in card
    assert "| mine | ham 2 | not known" in card


def test_marks_of_the_build_only_accuse() -> None:
    """The mark of wanted mail gets no weight, that of unwanted mail one; words speak for both sides."""
    marked = [
        msgspec.structs.replace(
            each, seen=each.seen.with_marks(["#host ending org" if each.label == "ham" else "#subject loud"])
        )
        for each in world()
    ]
    model = learn(marked)
    weights = dict(zip(model.words, model.weights[:, 0].tolist(), strict=False))
    assert weights["#subject loud"] > 0.1
    assert weights["#host ending org"] == 0
    assert weights["patch"] < 0 < weights["casino"]


def test_what_only_tells_two_collections_apart_weighs_less_with_their_constants() -> None:
    """`place` is in all mail of a collection of spam and of a collection of wanted mail, and tells no sides apart."""
    one_sided = [
        Example(Features([*dice, "place", name], [], []), label, name)
        for name, label in (("east", "spam"), ("west", "ham"))
        for dice in ([word, other] for word in "the and of to it".split() for other in "on at by in as".split())
    ]
    mixed = [*world(), *one_sided]
    truth = np.array([each.label == "spam" for each in mixed])
    known = build_vocabulary([each.seen for each in mixed], [each.family for each in mixed])
    matrix = build_matrix(known, mixed)
    _, collections = np.unique([each.family for each in mixed], return_inverse=True)
    none = np.zeros(matrix.shape[1], bool)
    with_constants, _ = fit_collections(matrix, truth, np.ones(len(mixed)), collections, none)
    without, _ = fit_collections(matrix, truth, np.ones(len(mixed)), np.zeros(len(mixed), np.int64), none)
    small = [known.words.index(word) for word in ("on", "at", "by", "in", "as")]
    assert np.abs(with_constants[small]).sum() < np.abs(without[small]).sum()


@pytest.mark.parametrize("corpus", [REPORTS, "letters-a_de"])
def test_reports_or_letters_alone_can_teach(corpus: str) -> None:
    """There is nothing to calibrate with then."""
    model = learn([msgspec.structs.replace(each, corpus=corpus) for each in world()])
    assert (model.slope, model.offset) == (1, 0)
    assert model.score(Features(["casino", "bonus"], [], [])).unwanted > 0.5


def test_letters_alone_teach_the_second_reader(tmp_path: Path) -> None:
    """What was learnt from German letters holds in Dutch, whose words the table gives the same stems."""
    letters = [
        Example(Features(f"{word} {word} nummer {number % 7}".split(), [], ["#links 1"]), label, f"letters-{part}_de")
        for number in range(60)
        for part in "ab"
        for word, label in (("gesperrt", "phish"), ("sommerfest", "ham"))
    ]
    table = {
        "de": {"gesperrt": [["locked", 0.9]], "sommerfest": [["party", 0.8]], "nummer": [["number", 0.9]]},
        "nl": {"vergrendeld": [["locked", 0.9]], "zomerfeest": [["party", 0.8]], "doubtful": [["locked", 0.1]]},
    }
    path = tmp_path / "gloss.json"
    path.write_text(json.dumps(table))
    second = learn([*world(), *letters], gloss=path).letters
    assert second is not None
    for german, dutch in (("gesperrt", "vergrendeld"), ("sommerfest", "zomerfeest")):
        taught, carried = (second.ask(make_words([], [], [word])) for word in (german, dutch))
        assert taught == carried
        assert abs(taught) > 1
        assert (taught > 0) == (german == "gesperrt")
    assert second.ask(make_words([], [], ["doubtful"])) == 0, "the table is not sure of it"
    assert learn(world()).letters is None
    assert learn_letters([each for each in letters if each.label == "ham"]) is None
