"""`gatepost model` from the keyboard: train, evaluate, feedback."""

import json
import random
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.command_line import run_command

from gatepost.checks.phrases import mark_themes, search_message
from gatepost.cli.labelled_mail import Rate, read_labelled, read_samples
from gatepost.files.values import UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.reader import read
from gatepost.near_duplicates import compute_signature
from gatepost.textmodel.features import extract_features
from gatepost.textmodel.model import load_model, load_models

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="not run: scikit-learn is not installed")

GOOD = "agenda minutes patch review lunch draft budget question attached thanks meeting tomorrow".split()
BAD = "winner casino pills rolex lottery urgent verify wallet bonus claim prize offer".split()


def message(words: list[str], dice: random.Random) -> bytes:
    text = " ".join(dice.choices(words, k=25))
    subject = " ".join(dice.choices(words, k=2))
    return f"From: a@b.example\nTo: c@d.example\nSubject: {subject}\n\n{text}\n".encode()


@pytest.fixture
def mail(tmp_path: Path) -> list[Path]:
    """Two corpora, one of folders and one of mailboxes."""
    dice = random.Random(1)
    folders, boxes = tmp_path / "one", tmp_path / "two"
    boxes.mkdir()
    for label, words in (("ham", GOOD), ("spam", BAD)):
        (folders / label).mkdir(parents=True)
        for number in range(20):
            (folders / label / f"{number}.eml").write_bytes(message(words, dice))
        line = b"From a@b Mon Jan  1 00:00:00 2024\n"
        (boxes / f"{label}.mbox").write_bytes(b"\n".join(line + message(words, dice) for _ in range(20)))
    return [folders, boxes]


def run(*arguments: object, fails: bool = False) -> str:
    code, said, fault = run_command("model", *arguments)
    assert (code != 0) == fails, said + fault
    return said


@pytest.mark.variant
@pytest.mark.process
def test_a_model_is_trained_into_the_data_folder_and_blends(mail: list[Path], tmp_path: Path) -> None:
    said = run("train", "--corpus", mail[0], "--corpus", mail[1], "--data", tmp_path / "data")
    assert "from 80 messages" in said
    model = load_model(tmp_path / "data" / "models" / "own.npz")
    assert model.about["sources"] == {"one": {"ham": 20, "spam": 20}, "two": {"ham": 20, "spam": 20}}
    assert len(load_models(tmp_path / "data" / "models").all_tenants.models) == 2
    assert "## Sources and licences" in (tmp_path / "data" / "models" / "own.md").read_text("utf-8")


@pytest.mark.process
def test_a_corpus_is_left_out(mail: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "m.npz"
    run(
        "train", "--corpus", mail[0], "--corpus", mail[1], "--without", "two", "--out", out, "--data", tmp_path / "data"
    )
    assert list(load_model(out).about["sources"]) == ["one"]


@pytest.mark.process
def test_feedback_is_learnt(mail: list[Path], tmp_path: Path) -> None:
    data = tmp_path / "data"
    wrong = next((mail[0] / "spam").iterdir())
    run("feedback", "--spam", wrong, "--data", data)
    run("feedback", "--ham", wrong, "--data", data)  # a change of mind
    assert [path.parent.name for path in (data / "feedback").rglob("*.eml")] == ["ham"]
    run("train", "--corpus", mail[0], "--data", data)
    assert load_model(data / "models" / "own.npz").about["sources"]["feedback"] == {"ham": 1}


@pytest.mark.process
def test_feedback_marks_near_copies(tmp_path: Path) -> None:
    words = " ".join(first + second + third for first in "abcd" for second in "efgh" for third in "ijkl")
    wrong = tmp_path / "wrong.eml"
    wrong.write_bytes(f"From: a@b.example\nSubject: x\n\n{words}\n".encode())
    said = run("feedback", "--spam", wrong, "--data", tmp_path)
    assert "Near-duplicates" in said
    assert load_models(tmp_path / "models").marked.has_near_duplicate(compute_signature(["hello", *words.split()]))
    run("feedback", "--ham", wrong, "--data", tmp_path)
    assert not load_models(tmp_path / "models").marked.has_near_duplicate(compute_signature(words.split()))


def test_feedback_says_what_it_was(mail: list[Path], tmp_path: Path) -> None:
    run("feedback", mail[0], "--data", tmp_path, fails=True)
    run("feedback", mail[0], "--ham", "--spam", "--data", tmp_path, fails=True)


@pytest.mark.process
def test_an_evaluation_counts_every_message(mail: list[Path], tmp_path: Path) -> None:
    said = run("evaluate", "--corpus", mail[0], "--corpus", mail[1])
    assert "| ham | all | 40 * |" in said
    assert "| unwanted | all | 40 * |" in said
    left = run("evaluate", "--corpus", mail[0], "--corpus", mail[1], "--without", "two")
    assert "| ham | all | 20 * |" in left


@pytest.mark.variant
@pytest.mark.process
def test_an_evaluation_uses_the_model_that_is_named(mail: list[Path], tmp_path: Path) -> None:
    """A model that was taught the wrong way round names the wanted mail."""
    for corpus in mail:
        ham, spam = sorted(corpus.iterdir())
        ham.rename(corpus / "other")
        spam.rename(ham)
        (corpus / "other").rename(spam)
    run("train", "--corpus", mail[0], "--corpus", mail[1], "--out", tmp_path / "m.npz", "--data", tmp_path / "data")
    found = json.loads(run("evaluate", "--corpus", mail[0], "--model", tmp_path / "m.npz", "--json"))
    shipped = json.loads(run("evaluate", "--corpus", mail[0], "--json"))
    points = [sum(each["score"] for each in run["worst"]["held"]) for run in (found, shipped)]
    assert points[0] < points[1]


def test_what_is_no_model_is_not_evaluated(mail: list[Path], tmp_path: Path) -> None:
    (tmp_path / "m.npz").write_bytes(b"no model")
    run("evaluate", "--corpus", mail[0], "--model", tmp_path / "m.npz", fails=True)


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [(0, 10, 0.0, 0.2775), (3, 143, 0.0072, 0.0599), (10, 10, 0.7225, 1.0), (50, 100, 0.4038, 0.5962)],
)
def test_wilson(count: int, total: int, low: float, high: float) -> None:
    assert Rate(count, total).bounds == pytest.approx((low, high), abs=2e-4)


def test_nothing_tells_nothing() -> None:
    assert Rate(0, 0).bounds == (0.0, 1.0)


@pytest.mark.process
def test_mail_is_read_in_sealed_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message that crashes whoever reads it is left out and said; the others are read as in an open process."""
    monkeypatch.setenv("GATEPOST_FAULT_INJECTION", str(Path(__file__).parents[1] / "fault_injection.py"))
    folder = tmp_path / "hostile"
    (folder / "ham").mkdir(parents=True)
    sound = b"From: ann@example.org\r\nSubject: minutes\r\n\r\nThe minutes of Tuesday.\r\n"
    (folder / "ham" / "1.eml").write_bytes(sound)
    (folder / "ham" / "2.eml").write_bytes(b"X-Gatepost-Fault: parse:die\r\n" + sound)
    (sample,) = read_samples([folder], (), lambda *_: None)
    parsed = read(sound)
    seen = extract_features(parsed, find_files(parsed, UnpackBudget(native=False)))
    assert sample.seen == seen.with_marks(mark_themes(search_message(parsed)))
    assert "1 messages could not be read" in capsys.readouterr().err


@pytest.mark.process
def test_an_evaluation_is_written_for_programs(tmp_path: Path) -> None:
    """A stranger's subject does not turn what follows around."""
    folder = tmp_path / "mine"
    (folder / "ham").mkdir(parents=True)
    (folder / "spam").mkdir()
    hostile = "Subject: \N{RIGHT-TO-LEFT OVERRIDE}gpj.exe\nFrom: a@b.example\n\nHello\n"
    (folder / "ham" / "1.eml").write_bytes(hostile.encode())
    (folder / "spam" / "1.eml").write_bytes(b"Subject: Win\nFrom: x@y.example\n\nYou won\n")
    found = json.loads(run("evaluate", "--corpus", folder, "--json"))
    assert found["messages"] == 2
    assert [row["of"] for row in found["tables"]["corpus"]] == [1, 1, 1, 1]
    assert found["worst"]["held"][0]["path"] == "ham/1.eml"
    assert found["worst"]["missed"][0]["subject"] == "Win"
    assert found["milliseconds"]["mean"] > 0
    plain = run("evaluate", "--corpus", folder)
    assert "Other mail with the most points:" in plain
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in plain


def test_an_index_without_envelope_senders_has_those_of_from(tmp_path: Path) -> None:
    for name in ("1", "2"):
        (tmp_path / f"{name}.eml").write_bytes(b"From: Ann <ann@b.example>\n\nHello\n")
    rows = ["path\tcorpus\tlabel\tmail_from", "1.eml\tc\tham_template\t", "2.eml\tc\tbounce\t"]
    (tmp_path / "INDEX.tsv").write_text("\n".join(rows) + "\n", "utf-8")
    found = list(read_labelled([tmp_path]))
    assert [(mail.label, mail.envelope.sender) for mail in found] == [("ham", "ann@b.example"), ("bounce", "")]


@pytest.mark.process
def test_a_folder_without_labels_is_refused(tmp_path: Path) -> None:
    run("train", "--corpus", tmp_path, "--data", tmp_path, fails=True)
