"""The model card: what a model was made of, under which licences, what it can do and where it fails."""

from collections.abc import Iterator, Sequence

from gatepost.textmodel.model import Model
from gatepost.textmodel.training import heaviest

# What is known of public collections. Whoever trains on others states their licences.
LICENCES = {
    "spamassassin": "SpamAssassin public corpus, 2002 to 2003; free to use, the writers keep their copyright",
    "trec07p": "TREC 2007 public corpus, for research under its agreement",
    "enron": "Enron mail as published by the FERC; public record",
    "phishing": "phishing_pot, CC BY-NC 4.0: **no commercial use**",
    "lists": "public technical mailing lists, 2019 to 2026",
    "notmuch": "public mailing lists from notmuch's test corpora",
    "foff": "foff-milter's test mail, 2025 to 2026",
    "sisimai": "bounces from Sisimai's test set, BSD-2-Clause",
    "feedback": "the operator's own mail",
}
NON_COMMERCIAL = "phishing"
UNKNOWN = "not known; whoever trains states it"
CAVEAT = (
    "Except for phishing_pot, licences are given as the collections are generally described; they were not verified."
)
PLAINLY = """\
phishing_pot is licensed CC BY-NC 4.0 (no commercial use). To train a model without it:"""
HEAD = """\
# Model card of the text model

`gatepost model train` writes this page. The model is linear over words, word pairs and structural features of a mail,
with three columns of weights (unwanted, phishing, fraud): {words:,} words and features, {pairs:,} pairs. It adds a
capped number of points to the score of the whole analysis. It decides alone only at odds of twenty to one, on mail that
came through no list, is not signed by its sender, has no unsubscribe link and leads to unrelated sites.
"""
KNOWS = """
## Features

The model uses words of visible text, subject and display name that at least two collections use and no single one
dominates; the length of numbers; the number of links, their shape, and whether they lead to the sender's own site;
types of files; the amount of hidden text; whether the message is a reply or has an unsubscribe link. It does not use
dates, hosts, addresses, mail programs, quotes, signatures, list tags and footers, or the findings of other checks.

These features have the largest weights. The list is a guard against leaks: the name of a collection here would be one.
"""
LIMITS = """
## Limits

- The probability is calibrated for a mailbox where half of the mail is unwanted, on collections that the model had not
  seen.
- Whether unwanted mail is spam, phishing or fraud was derived from cues in its text, not from labels: a phishing
  collection contains much plain spam. The kind determines the verdict, not whether mail is held.
- Wanted and unwanted advertising use the same words. Modern marketing mail is rare in the training mail and the most
  likely false alarm.
- Nearly all training mail is English. Messages in other languages are judged more by structure than by words.
- Short texts give little evidence: the probability of a short message stays near one half.
- Text in pictures is not read.

Figures by `gatepost model evaluate` are in [`accuracy.md`](accuracy.md)."""


def written(model: Model, without: Sequence[str], folders: Sequence[str]) -> str:
    """The card of a model."""
    return "\n".join(_lines(model, without, folders)) + "\n"


def _lines(model: Model, without: Sequence[str], folders: Sequence[str]) -> Iterator[str]:
    yield HEAD.format(words=len(model.words), pairs=len(model.pairs))
    yield from _sources(model, without, folders)
    yield KNOWS
    rows = list(heaviest(model, 30))
    yield "- for unwanted: " + ", ".join(f"`{name}`" for name, weight in rows if weight > 0)
    yield "- for wanted: " + ", ".join(f"`{name}`" for name, weight in rows if weight <= 0)
    yield LIMITS


def _sources(model: Model, without: Sequence[str], folders: Sequence[str]) -> Iterator[str]:
    sources: dict[str, dict[str, int]] = model.about.get("sources", {})
    yield "## Sources and licences\n\n| Corpus | Messages | Licence |\n|---|---|---|"
    for corpus, labels in sources.items():
        counts = ", ".join(f"{label} {count:,}" for label, count in labels.items())
        yield f"| {corpus} | {counts} | {LICENCES.get(corpus.partition('_')[0], UNKNOWN)} |"
    command = "gatepost model train " + " ".join(f"--corpus {folder}" for folder in folders)
    command += "".join(f" --without {name}" for name in without) + f" --seed {model.about.get('seed', 1)}"
    yield f"\n{CAVEAT}\n"
    yield f"Trained by `{command}`; the same seed and mail give the same model."
    if any(corpus.partition("_")[0] == NON_COMMERCIAL for corpus in sources):
        yield f"\n{PLAINLY}\n\n    {command} --without {NON_COMMERCIAL}_pot"
