"""Training from labelled mail in files: what is read, left out and written."""

import random
from importlib.util import find_spec
from pathlib import Path

import pytest
from tools import train_model
from tools.labelled_mail import Rate, read_labelled, read_samples

from gatepost.checks.phrases import mark_themes, search_message
from gatepost.files.values import UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.reader import read
from gatepost.textmodel.features import extract_features
from gatepost.textmodel.model import FEEDBACK_FOLDER, load_model, load_models, save_feedback

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


@pytest.mark.variant
@pytest.mark.process
def test_a_model_of_a_deployment_is_trained_and_blends(
    mail: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "models"
    train_model.main(["--corpus", str(mail[0]), "--corpus", str(mail[1]), "--out", str(folder / "own.npz")])
    assert "from 80 messages" in capsys.readouterr().out
    model = load_model(folder / "own.npz")
    assert model.about["sources"] == {"one": {"ham": 20, "spam": 20}, "two": {"ham": 20, "spam": 20}}
    assert len(load_models(folder).all_tenants.models) == 2
    assert "## Sources and licences" in (folder / "own.md").read_text("utf-8")


@pytest.mark.process
def test_a_corpus_is_left_out(mail: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "m.npz"
    corpora = ["--corpus", str(mail[0]), "--corpus", str(mail[1])]
    train_model.main([*corpora, "--without", "two", "--out", str(out)])
    assert list(load_model(out).about["sources"]) == ["one"]


@pytest.mark.process
def test_reported_messages_are_a_corpus(mail: list[Path], tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "own.npz"
    save_feedback(data, next((mail[0] / "spam").iterdir()).read_bytes(), wanted=True)
    train_model.main(["--corpus", str(mail[0]), "--corpus", str(data / FEEDBACK_FOLDER), "--out", str(out)])
    assert load_model(out).about["sources"]["feedback"] == {"ham": 1}


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


def test_an_index_without_envelope_senders_has_those_of_from(tmp_path: Path) -> None:
    for name in ("1", "2"):
        (tmp_path / f"{name}.eml").write_bytes(b"From: Ann <ann@b.example>\n\nHello\n")
    rows = ["path\tcorpus\tlabel\tmail_from", "1.eml\tc\tham_template\t", "2.eml\tc\tbounce\t"]
    (tmp_path / "INDEX.tsv").write_text("\n".join(rows) + "\n", "utf-8")
    found = list(read_labelled([tmp_path]))
    assert [(mail.label, mail.envelope.sender) for mail in found] == [("ham", "ann@b.example"), ("bounce", "")]


@pytest.mark.process
def test_a_folder_without_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has neither an INDEX"):
        train_model.main(["--corpus", str(tmp_path), "--out", str(tmp_path / "own.npz")])
