"""From labelled mail to a model: read, take the features, leave out what is to be left out, learn."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from gatepost.cli.corpora import Labelled, count, labelled
from gatepost.cli.printing import console
from gatepost.files import unfold
from gatepost.mail import read
from gatepost.service.datafolder import StartError
from gatepost.textmodel.features import Features, features
from gatepost.textmodel.feedback import FOLDER as FEEDBACK
from gatepost.textmodel.model import Model
from gatepost.textmodel.training import Example, TrainingError, family_of, learn

Step = Callable[[str, int, int], None]

FEEDBACK_WEIGHT = 5.0


class Sample(msgspec.Struct, frozen=True):
    """A message without its bytes: what it was called and what the model sees of it."""

    path: str
    corpus: str
    label: str
    year: str
    size: int
    seen: Features

    @property
    def example(self) -> Example:
        weight = FEEDBACK_WEIGHT if self.corpus == FEEDBACK else 1.0
        return Example(self.seen, self.label, self.corpus, weight)


@contextmanager
def steps() -> Iterator[Step]:
    """A progress bar for several steps, on a terminal."""
    out = console()
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f}"), TimeRemainingColumn()
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as progress:
        task = progress.add_task("reading")
        yield lambda what, done, total: progress.update(task, description=what, completed=done, total=total)


def samples(folders: Sequence[Path], without: Sequence[str], step: Step) -> list[Sample]:
    """What the model sees of every message, but for the corpora that are left out."""
    total = count(folders)
    found = []
    for number, mail in enumerate(labelled(folders)):
        step("reading", number, total)
        if not is_left_out(mail.corpus, without):
            found.append(_sample(mail))
    return found


def is_left_out(corpus: str, without: Sequence[str]) -> bool:
    """Whether a corpus is named, or belongs to a collection that is."""
    return corpus in without or family_of(corpus) in without


def _sample(mail: Labelled) -> Sample:
    message = read(mail.raw)
    return Sample(mail.path, mail.corpus, mail.label, mail.year, len(mail.raw), features(message, unfold(message)))


def learnt(chosen: Sequence[Sample], seed: int, step: Step) -> Model:
    """A model from these samples, with what it was made of written into it."""
    try:
        model = learn([sample.example for sample in chosen], seed, step)
    except TrainingError as fault:
        raise StartError(f"Nothing can be learnt from this mail: {fault}.") from None
    except ModuleNotFoundError as fault:
        raise StartError(f"Training needs {fault.name}: pip install 'gatepost[train]'.") from None
    sizes: dict[str, dict[str, int]] = {}
    for sample in chosen:
        labels = sizes.setdefault(sample.corpus, {})
        labels[sample.label] = labels.get(sample.label, 0) + 1
    return msgspec.structs.replace(model, about={"seed": seed, "sources": dict(sorted(sizes.items()))})
