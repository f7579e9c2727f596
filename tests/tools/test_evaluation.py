"""Evaluations by models that have not seen the mail: the collections and campaigns that are left out, and the page."""

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.tools.test_train_model import mail
from tools import evaluation, train_model
from tools.evaluation import group_campaigns, guess_language

from gatepost.textmodel.features import Features

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="not run: scikit-learn is not installed")

__all__ = ["mail"]  # the fixture


def evaluate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    monkeypatch.setattr(sys, "argv", ["evaluation", *map(str, arguments)])
    evaluation.main()
    return capsys.readouterr().out


@pytest.mark.process
@pytest.mark.parametrize(
    "mode", ["leave-out", *(pytest.param(mode, marks=pytest.mark.variant) for mode in ("folds", "as-is"))]
)
def test_every_message_is_counted(
    mode: str, mail: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpora = ["--corpus", mail[0], "--corpus", mail[1]]
    said = evaluate(monkeypatch, capsys, *corpora, "--mode", mode, "--out", tmp_path / "out")
    assert "| ham | all | 40 * |" in said
    assert "| unwanted | all | 40 * |" in said
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"roc.svg", "reliability.svg", "wrong.tsv"}
    if mode == "as-is":
        assert "| ham | all | 20 * |" in evaluate(monkeypatch, capsys, *corpora, "--mode", mode, "--without", "two")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Two messages, of which the subject of one is hostile to pages and terminals."""
    for label in ("ham", "spam"):
        (tmp_path / "mine" / label).mkdir(parents=True)
    subject = "Subject: <script>alert(1)</script> \N{RIGHT-TO-LEFT OVERRIDE}gpj.exe"
    (tmp_path / "mine/ham/1.eml").write_bytes(f"{subject}\nFrom: a@b.example\n\nHello\n".encode())
    (tmp_path / "mine/spam/1.eml").write_bytes(b"Subject: Win\nFrom: x@y.example\n\nYou won\n")
    return tmp_path / "mine"


@pytest.mark.variant
@pytest.mark.process
def test_a_page_does_not_run_what_strangers_wrote(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    said = evaluate(monkeypatch, capsys, "--corpus", hostile, "--mode", "as-is", "--html", page, "--json")
    assert '"language":[{' in said
    text = page.read_text("utf-8")
    assert "<script" not in text
    assert "<bdi>&lt;script&gt;alert(1)&lt;/script&gt; \\u202egpj.exe</bdi>" in text
    assert "default-src 'none'" in text
    assert not re.search(r"(?:src|href)\s*=", text)
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text


@pytest.mark.process
def test_mail_is_counted_by_the_class_and_language_that_its_index_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["path\tcorpus\tlabel\tclass\tlanguage"]
    for number, (form, language) in enumerate([("order", "ja"), ("order", "fi"), ("reset", "fi")]):
        (tmp_path / f"{number}.eml").write_bytes(b"Subject: Hello\nFrom: a@b.example\n\nHello\n")
        rows.append(f"{number}.eml\tmine\tham\t{form}\t{language}")
    (tmp_path / "INDEX.tsv").write_text("\n".join(rows) + "\n")
    said = evaluate(monkeypatch, capsys, "--corpus", tmp_path, "--mode", "as-is")
    for row in ("| ham | order | 2 * |", "| ham | reset | 1 * |", "| ham | fi | 2 * |", "| ham | ja | 1 * |"):
        assert row in said


LETTER = "dear friend our shop has new watches for you today at half the price come and see".split()


def test_near_duplicates_share_a_campaign_and_others_do_not() -> None:
    other = "the minutes of the last meeting are attached please read them before monday and answer".split()
    made = [LETTER, [*LETTER[:-1], "look", "xq7"], other, []]
    numbers = group_campaigns([Features(text, [], []) for text in made])
    assert numbers[0] == numbers[1]
    assert len({numbers[0], numbers[2], numbers[3]}) == 3


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("please read the minutes of the meeting and answer before you go", "English"),
        ("bitte lesen sie die rechnung und antworten sie mir nicht auf den brief von mir", "German"),
        ("\u0434\u043e\u0431\u0440\u044b\u0439 \u0434\u0435\u043d\u044c", "Cyrillic"),
        ("hello", "too short"),
    ],
)
def test_the_language_is_guessed(text: str, language: str) -> None:
    assert guess_language(text.split()) == language


@pytest.mark.variant
@pytest.mark.process
def test_an_evaluation_uses_the_model_that_is_named(
    mail: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model that was taught the wrong way round names the wanted mail."""
    for corpus in mail:
        ham, spam = sorted(corpus.iterdir())
        ham.rename(corpus / "other")
        spam.rename(ham)
        (corpus / "other").rename(spam)
    model = tmp_path / "m.npz"
    train_model.main(["--corpus", str(mail[0]), "--corpus", str(mail[1]), "--out", str(model)])
    capsys.readouterr()
    wanted = ("--corpus", mail[0], "--mode", "as-is", "--json")
    found, shipped = (json.loads(evaluate(monkeypatch, capsys, *wanted, *more)) for more in (("--model", model), ()))
    points = [sum(each["score"] for each in one["worst"]["held"]) for one in (found, shipped)]
    assert points[0] < points[1]


def test_what_is_no_model_is_not_evaluated(
    mail: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.npz").write_bytes(b"no model")
    with pytest.raises(SystemExit):
        evaluate(monkeypatch, capsys, "--corpus", mail[0], "--mode", "as-is", "--model", tmp_path / "m.npz")
    assert "m.npz cannot be used" in capsys.readouterr().err


@pytest.mark.process
def test_an_evaluation_is_written_for_programs(
    hostile: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stranger's subject does not turn what follows around."""
    wanted = ("--corpus", hostile, "--mode", "as-is")
    found = json.loads(evaluate(monkeypatch, capsys, *wanted, "--json"))
    assert found["messages"] == 2
    assert [row["of"] for row in found["tables"]["corpus"]] == [1, 1, 1, 1]
    assert found["worst"]["held"][0]["path"] == "ham/1.eml"
    assert found["worst"]["missed"][0]["subject"] == "Win"
    assert found["milliseconds"]["mean"] > 0
    plain = evaluate(monkeypatch, capsys, *wanted)
    assert "Other mail with the most points:" in plain
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in plain
