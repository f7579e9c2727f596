"""Train a text model from labelled mail, and write it with its model card.

    python -m tools.train_model --corpus mail-dev --corpus letters --out src/gatepost/textmodel/shipped.npz

A deployment takes a model of its own from `models/own.npz` of its data folder, and one for the mail of a single tenant
from `models/UID.npz`. Messages that its users reported are a corpus too: the folder `feedback` beside `models`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tools.labelled_mail import read_samples, show_steps, train_model
from tools.training import write_model_card


def main(arguments: Sequence[str] | None = None) -> None:
    """Train a model, and write it and its card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", action="append", type=Path, required=True, help="labelled mail; repeatable")
    parser.add_argument(
        "--without", action="append", default=[], help="leave out this corpus or collection; repeatable"
    )
    parser.add_argument("--seed", type=int, default=1, help="the same seed and mail give the same model")
    parser.add_argument("--gloss", type=Path, help="English stems of words by language; as shipped by default")
    parser.add_argument("--out", type=Path, required=True, help="write the model to this file")
    parser.add_argument("--card", type=Path, help="write the model card to this file; beside the model by default")
    wanted = parser.parse_args(arguments)
    with show_steps() as step:
        chosen = read_samples(wanted.corpus, wanted.without, step)
        model = train_model(chosen, wanted.seed, step, wanted.gloss)
    card = wanted.card or wanted.out.with_suffix(".md")
    wanted.out.parent.mkdir(parents=True, exist_ok=True)
    wanted.out.write_bytes(model.to_bytes())
    card.write_text(write_model_card(model, wanted.without, [str(folder) for folder in wanted.corpus]), "utf-8")
    words, pairs = len(model.words), len(model.pairs)
    print(f"{wanted.out}: {words:,} words and marks, {pairs:,} pairs, from {len(chosen):,} messages.")
    print(f"{card}: the model card, with sources and limits.")


if __name__ == "__main__":
    main()
