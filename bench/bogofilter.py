"""bogofilter on the same mail, evaluated like `tools.evaluation` does: whole collections left out in turn.

It learns everything except one collection, judges that one, and so on; the scores are pooled. Its own decision uses the
shipped threshold: spam at 0.99. The other rows use thresholds that were chosen after the fact.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.diagrams import find_catch_rate
from tools.labelled_mail import Rate
from tools.training import family_of

from bench import corpus

ALL = 1_000_000
CUTOFF = 0.99
ALARMS = (0.001, 0.005, 0.01)


def run() -> str:
    """Every collection judged by a bogofilter that has not seen it."""
    if not shutil.which("bogofilter"):
        return "not run: bogofilter is not installed"
    try:
        mail, root = corpus.mail(ALL, max_bytes=ALL * 100), corpus.unpacked("mail-dev")
    except corpus.NotPresentError as absence:
        return f"not run: {absence}"
    scores: dict[str, float] = {}
    for family in sorted({family_of(each.corpus) for each in mail}):
        others = [each for each in mail if family_of(each.corpus) != family]
        mine = [each for each in mail if family_of(each.corpus) == family]
        with tempfile.TemporaryDirectory() as words:
            for flag, labels in (("-s", ("spam", "phish")), ("-n", ("ham", "bounce"))):
                _fed(words, root, [each.path for each in others if each.label in labels], flag)
            scores.update(_judged(words, root, [each.path for each in mine]))
    return _table(mail, scores)


def _fed(words: str, root: Path, paths: Sequence[str], *flags: str) -> str:
    names = "".join(f"{root / path}\n" for path in paths)
    done = subprocess.run(
        ["bogofilter", "-C", "-d", words, *flags, "-b"], input=names, capture_output=True, text=True, check=False
    )
    return done.stdout


def _judged(words: str, root: Path, paths: Sequence[str]) -> dict[str, float]:
    lines = _fed(words, root, paths, "-v", "-T").splitlines()
    return {path: float(line.split()[-1]) for path, line in zip(paths, lines, strict=True)}


def _table(mail: Sequence[corpus.Mail], scores: dict[str, float]) -> str:
    ham = [scores[each.path] for each in mail if each.label == "ham"]
    bad = [scores[each.path] for each in mail if each.label in ("spam", "phish")]
    rows = ["| | Ham held | Unwanted held |", "|---|---|---|"]
    rows.append(f"| as shipped, {CUTOFF} | {_held(ham)} | {_held(bad)} |")
    rows += [f"| after the fact | {alarms:.1%} | {find_catch_rate(ham, bad, alarms)} |" for alarms in ALARMS]
    marketing = [scores[each.path] for each in mail if each.corpus == "foff_milter" and each.label == "ham"]
    return "\n".join([*rows, "", f"Of foff_milter's ham it holds {_held(marketing)}."])


def _held(scores: Sequence[float]) -> Rate:
    return Rate(sum(score >= CUTOFF for score in scores), len(scores))
