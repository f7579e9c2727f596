"""Which Python analyses mail with the least CPU: several of them in turns over the same messages.

    python -m bench.pythons [--count N] [--rounds N] NAME=COMMAND...

A command starts a Python in whose environment Gatepost is installed, in a checkout of its own where it belongs to
another system: `3.11=.venv/bin/python`, or `"3.14=chroot /srv/forky env -C /src/gatepost .venv/bin/python"`. Half of
the messages are from mail-dev and half from mail-dev-2. Each Python stays loaded and collects garbage as a worker does.
The Pythons analyse the same fifty messages (`bench.equal.judge`), one after another, and take turns in going first. A
round goes over all messages once; the first round is not counted. The least CPU time of each fifty over the rounds is
summed, and the ratio is taken against the first Python.
"""

import argparse
import gc
import json
import shlex
import statistics
import subprocess
import sys
import time
from typing import IO, NamedTuple

from bench.corpus import Mail, mail

ARCHIVES = ("mail-dev", "mail-dev-2")
CHUNK = 50
COLLECT_EVERY = 20_000  # as in a worker


class Contender(NamedTuple):
    """A Python that waits for the number of a chunk, and its CPU times by chunk."""

    name: str
    version: str
    questions: IO[str]
    answers: IO[str]
    seconds: list[list[float]]

    def analyse(self, chunk: int) -> None:
        """Let it analyse a chunk once."""
        self.questions.write(f"{chunk}\n")
        self.questions.flush()
        self.seconds[chunk].append(float(self.answers.readline()))


def load(count: int) -> list[list[Mail]]:
    """Return the messages in chunks."""
    messages = [each for archive in ARCHIVES for each in mail(count // len(ARCHIVES), archive=archive)]
    return [messages[start : start + CHUNK] for start in range(0, len(messages), CHUNK)]


def serve(count: int) -> None:
    """In a Python that is measured: analyse the chunk that each line of the input names, and say its CPU time."""
    from bench.equal import judge

    chunks = load(count)
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, 10, 10)
    print(json.dumps([sys.version.replace("\n", " "), len(chunks)]), flush=True)
    for line in sys.stdin:
        before = time.process_time()
        for message in chunks[int(line)]:
            judge(message)
        print(time.process_time() - before, flush=True)


def start(name: str, command: str, count: int) -> Contender:
    """Start a Python with the messages loaded."""
    process = subprocess.Popen(
        [*shlex.split(command), "-m", "bench.pythons", "--serve", "--count", str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    version, chunks = json.loads(process.stdout.readline())
    return Contender(name, version, process.stdin, process.stdout, [[] for _ in range(chunks)])


def measure(commands: dict[str, str], count: int, rounds: int) -> str:
    """Return the table of the Pythons."""
    contenders = [start(name, command, count) for name, command in commands.items()]
    for _ in range(rounds + 1):
        for chunk in range(len(contenders[0].seconds)):
            shift = chunk % len(contenders)
            for contender in contenders[shift:] + contenders[:shift]:
                contender.analyse(chunk)
    lines = [
        "| Python | CPU a message, least | of the first | median of the ratios by fifty | build |",
        "|---|---:|---:|---:|---|",
    ]
    first = _least(contenders[0])
    for contender in contenders:
        least = _least(contender)
        ratios = [mine / other for mine, other in zip(least, first, strict=True)]
        milliseconds = sum(least) / count * 1_000
        lines.append(
            f"| {contender.name} | {milliseconds:.3f} ms | {sum(least) / sum(first):.3f} "
            f"| {statistics.median(ratios):.3f} | {contender.version} |"
        )
    return "\n".join(lines)


def _least(contender: Contender) -> list[float]:
    return [min(seconds[1:]) for seconds in contender.seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="*", metavar="NAME=COMMAND")
    parser.add_argument("--count", type=int, default=2_000, help="so many messages")
    parser.add_argument("--rounds", type=int, default=4, help="so many rounds after the first")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.count)
    else:
        print(measure(dict(each.split("=", 1) for each in given.pythons), given.count, given.rounds))


if __name__ == "__main__":
    main()
