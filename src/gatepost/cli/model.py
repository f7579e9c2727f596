"""`gatepost model`: train a text model, measure the whole analysis, and record messages that were judged wrongly."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from gatepost.cli.commands import Argument, BadParameter, Group, Option
from gatepost.cli.deployment import DataOption, Deployment
from gatepost.cli.printing import Output
from gatepost.service.data_folder import StartError

group = Group("Train and measure the text model.")

CorpusOption = Annotated[
    list[Path],
    Option(
        "--corpus", metavar="DIR", help="Labelled mail: with an INDEX.tsv, or ham, spam, phish … inside; repeatable."
    ),
]
WithoutOption = Annotated[
    list[str] | None,
    Option("--without", metavar="CORPUS", help="Leave out this corpus or collection; repeatable."),
]
SeedOption = Annotated[int, Option(help="Random seed; the same seed and mail give the same model.")]


@group.command("train")
def train(
    *,
    corpus: CorpusOption,
    without: WithoutOption = None,
    seed: SeedOption = 1,
    tenant: Annotated[str | None, Option(metavar="UID", help="Train a model for the mail of one tenant.")] = None,
    out: Annotated[
        Path | None, Option(metavar="FILE", help="Write the model to this file instead of the data folder.")
    ] = None,
    card: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write the model card to this file; beside the model by default."),
    ] = None,
    data: DataOption = None,
    output: Output,
) -> None:
    """Train a text model from labelled mail and write it with its model card.

    Without --out the model goes into models/ of the data folder. Feedback in the data folder is used as well.
    """
    from gatepost.cli import labelled_mail
    from gatepost.textmodel.model import FEEDBACK_FOLDER as FEEDBACK
    from gatepost.textmodel.model import FOLDER, OWN
    from gatepost.textmodel.training import write_model_card

    folder = Deployment(data=data).data_folder.path
    feedback = folder / FEEDBACK
    folders = [*corpus, *([feedback] if feedback.is_dir() else [])]
    with labelled_mail.show_steps() as step:
        chosen = labelled_mail.read_samples(folders, without or (), step)
        model = labelled_mail.train_model(chosen, seed, step)
    place = out or folder / FOLDER / (f"{tenant.lower()}.npz" if tenant else OWN)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(model.to_bytes())
    text = card or place.with_suffix(".md")
    text.write_text(write_model_card(model, without or (), [str(folder) for folder in corpus]), "utf-8")
    sizes = {"words": len(model.words), "pairs": len(model.pairs), "messages": len(chosen)}
    output.show(
        {"model": str(place), "card": str(text), **sizes},
        f"{place}: {sizes['words']:,} words and marks, {sizes['pairs']:,} pairs, from {sizes['messages']:,} messages.\n"
        f"{text}: the model card, with sources and limits.",
    )


@group.command("evaluate")
def evaluate(
    *,
    corpus: CorpusOption,
    without: WithoutOption = None,
    model: Annotated[
        Path | None, Option(metavar="FILE", help="The model to evaluate; the shipped one by default.")
    ] = None,
    output: Output,
) -> None:
    """Run the whole analysis on labelled mail and print the share that is held, with 95 % intervals, the cost of a
    message, and the messages that were judged worst."""
    from gatepost.cli import labelled_mail
    from gatepost.textmodel.model import ModelError, load_model

    if model:
        try:
            load_model(model)
        except ModelError as fault:
            raise StartError(f"{model} cannot be used: {fault}.") from None
    found: list[labelled_mail.Judged] = []
    with labelled_mail.show_steps() as step:
        total = labelled_mail.count_messages(corpus)
        for judged in labelled_mail.judge_mail(labelled_mail.read_chosen(corpus, without or ()), str(model or "")):
            found.append(judged)
            step("judging", len(found), total)
    if not found:
        raise StartError("There is no mail to evaluate.")
    output.show(labelled_mail.describe_evaluation(found), "\n".join(labelled_mail.render_evaluation(found)))


@group.command("feedback")
def feedback(
    files: Annotated[list[Path], Argument(help="Messages, mailboxes (mbox) or folders that were judged wrongly.")],
    *,
    ham: Annotated[bool, Option("--ham", help="The messages were wanted.")] = False,
    spam: Annotated[bool, Option("--spam", help="The messages were unwanted.")] = False,
    data: DataOption = None,
    output: Output,
) -> None:
    """Record messages that were judged wrongly, for the next training."""
    from gatepost.cli.scanners import messages_in
    from gatepost.cli.sealed_analysis import open_extractor
    from gatepost.near_duplicates import Signature, compute_signature
    from gatepost.textmodel import model as kept
    from gatepost.textmodel.model import FOLDER, save_mark

    if ham == spam:
        raise BadParameter("give either --ham or --spam")
    place = Deployment(data=data).data_folder.path
    changes: dict[str, Signature] = {}
    with open_extractor() if spam else nullcontext() as extractor:
        for mail in messages_in(files):
            name = kept.save_feedback(place, mail.raw, ham)
            (seen,) = extractor.extract_features([mail.raw]) if extractor else (None,)
            changes[name] = compute_signature(seen.text) if seen else ()
    save_mark(place / FOLDER, changes)
    label = "ham" if ham else "spam"
    text = f"{len(changes)} recorded as {label}; gatepost model train uses them."
    if spam and any(changes.values()):
        text += "\nNear-duplicates of them are held after the next start of the service."
    output.show({"label": label, "recorded": len(changes)}, text)
