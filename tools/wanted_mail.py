"""Count the wanted mail that is held, by class, language and finding, with the DNS that proves its senders.

    python -m tools.wanted_mail mail-dev-3 [--left-out mail-dev-3 --left-out letters]

The folder has `INDEX.tsv` (path, product, label, class, language, origin, client, helo, mail_from, rcpt_to) and
`zone.json`, the records of its senders by name and type; `tools.letters` writes both as well. The shipped policy and
models judge every message as that of a stranger: without lists, sender history and near-copies.

The shipped text model has read `mail-dev-3` and the letters. With `--left-out`, which names all that its second reader
learnt from, each message is judged by a second reader that has read nothing of its collection: whole products are left
out, or a quarter of our own notices. The first reader has read no notices.
"""

import argparse
import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.mail.message import Envelope
from gatepost.questions import Answer, Dns, DnsAnswer, Lookup, LookupAnswer, Question
from gatepost.textmodel.model import DeployedModels, ModelBlend, load_shipped_model, load_shipped_models
from tools.labelled_mail import name_corpus, read_samples, show_steps
from tools.layouts import RECIPIENT
from tools.training import NOTICES, family_of, learn_letters

# A moment after the newest message, so that signatures have neither ended nor begun too late.
NOW = 1_795_000_000.0
Zone = Mapping[str, Mapping[str, list[str]]]


class WantedMail(msgspec.Struct, frozen=True):
    """A message as it was judged, with what the index says of it. `kinds` are the findings that counted against it."""

    path: str
    product: str
    is_good: bool
    form: str
    language: str
    is_made: bool
    is_held: bool
    score: float
    kinds: tuple[str, ...]


class Held(msgspec.Struct, frozen=True):
    """How many of a group were held."""

    name: str
    held: int
    of: int

    @property
    def share(self) -> float:
        """The part that was held, 0 to 1."""
        return self.held / self.of if self.of else 0.0


def judge_folder(folder: Path, left_out: Mapping[str, DeployedModels] | None = None) -> Iterator[WantedMail]:
    """Judge every message that the index names; `left_out` has the models for each collection, and mail of others is
    passed over."""
    zone = {
        name.lower().rstrip("."): records for name, records in json.loads((folder / "zone.json").read_text()).items()
    }
    with (folder / "INDEX.tsv").open(encoding="utf-8", newline="") as index:
        for row in csv.DictReader(index, delimiter="\t"):
            client = row.get("client") or row.get("client_ip") or None
            envelope = Envelope(row["mail_from"], (row.get("rcpt_to") or RECIPIENT,), client, row["helo"] or None)
            models = left_out.get(family_of(name_corpus(row))) if left_out else load_shipped_models()
            if models is None:
                continue
            report = _judge((folder / row["path"]).read_bytes(), envelope, zone, models)
            yield WantedMail(
                path=row["path"],
                product=row.get("product") or name_corpus(row),
                is_good=row["label"] == "ham",
                form=row["class"],
                language=row["language"],
                is_made=row.get("origin", "made") == "made",
                is_held=report.decision != "deliver",
                score=report.score / 100,
                kinds=tuple({line.kind for line in report.lines if line.counted > 0}),
            )


def judge_bounces(folder: Path) -> Iterator[tuple[str, Report]]:
    """Judge the bounces of a folder whose index has corpora (path, label, client_ip, helo), without DNS and, as bounces
    are, without envelope sender. Yield the path of each with its report."""
    with (folder / "INDEX.tsv").open(encoding="utf-8", newline="") as index:
        for row in csv.DictReader(index, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["label"] == "bounce":
                envelope = Envelope("", ("ann@house.example",), row["client_ip"] or None, row["helo"] or None)
                yield row["path"], _judge((folder / row["path"]).read_bytes(), envelope, {}, load_shipped_models())


def train_left_out(folders: Sequence[Path]) -> dict[str, DeployedModels]:
    """Return for each collection of notices the shipped model with a second reader that has not read it."""
    with show_steps() as step:
        examples = [sample.example for sample in read_samples(folders, (), step)]
        families = sorted({each.family for each in examples if each.corpus.startswith(NOTICES)})
        shipped = load_shipped_model()
        found: dict[str, DeployedModels] = {}
        for family in families:
            step(f"without {family}", len(found), len(families))
            letters = learn_letters([each for each in examples if each.family != family])
            found[family] = DeployedModels(ModelBlend((msgspec.structs.replace(shipped, letters=letters),)))
    return found


def _judge(raw: bytes, envelope: Envelope, zone: Zone, models: DeployedModels) -> Report:
    analysis = analyse(raw, envelope, Context(now=NOW, models=models))
    try:
        questions = next(analysis)
        while True:
            questions = analysis.send(tuple(_answer(question, zone) for question in questions))
    except StopIteration as stop:
        report: Report = stop.value
        return report


def _answer(question: Question, zone: Zone) -> Answer:
    if isinstance(question, Lookup):
        return LookupAnswer((), failed=False)
    assert isinstance(question, Dns)
    records = zone.get(question.name.lower().rstrip("."), {}).get(question.type, ())
    return DnsAnswer("found", tuple(records)) if records else DnsAnswer("no-name")


def count_by(found: Iterable[WantedMail], group: str) -> list[Held]:
    """Count what is held of each class or language, the largest groups first."""
    every = list(found)
    held = Counter(getattr(each, group) for each in every if each.is_held)
    return [
        Held(name, held[name], number) for name, number in Counter(getattr(each, group) for each in every).most_common()
    ]


def count_findings(good: Iterable[WantedMail]) -> list[Held]:
    """Count the findings on good mail: how often each was found, and how often on a message that was held."""
    every = list(good)
    held = Counter(kind for each in every if each.is_held for kind in each.kinds)
    return [
        Held(kind, held[kind], number)
        for kind, number in Counter(k for each in every for k in each.kinds).most_common()
    ]


def render(found: list[WantedMail]) -> Iterator[str]:
    """Yield the lines that are printed."""
    good, bad = [each for each in found if each.is_good], [each for each in found if not each.is_good]
    for name, several in (
        ("good mail that was made", [each for each in good if each.is_made]),
        ("good mail that is real", [each for each in good if not each.is_made]),
        ("lures", bad),
    ):
        yield f"{name}: {sum(each.is_held for each in several)} of {len(several)} held"
    for title, rows in (
        ("class", count_by(good, "form")),
        ("language", count_by(good, "language")),
        ("product", count_by(good, "product")),
    ):
        yield f"\n{title:<40} held    of"
        yield from (f"{row.name:<40} {row.held:>4} {row.of:>5} {row.share:>7.1%}" for row in rows)
    yield f"\n{'finding on good mail':<40} held    of"
    yield from (
        f"{row.name:<40} {row.held:>4} {row.of:>5} {row.of / max(len(good), 1):>7.1%}" for row in count_findings(good)
    )


def main() -> None:
    """Judge the mail of a folder, and print how much of it is held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder with INDEX.tsv and zone.json")
    parser.add_argument(
        "--left-out", action="append", type=Path, default=[], help="what the second reader learnt from; repeatable"
    )
    parser.add_argument("--json", action="store_true", help="print every message as a line of JSON")
    given = parser.parse_args()
    found = list(judge_folder(given.folder, train_left_out(given.left_out) if given.left_out else None))
    if given.json:
        print("\n".join(msgspec.json.encode(each).decode() for each in found))
    else:
        print("\n".join(render(found)))


if __name__ == "__main__":
    main()
