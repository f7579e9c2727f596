"""The same reports as before: verdict, score, tags and ledger of every message of mail-dev against a recorded state.

    python -m bench.equal record FILE [--count N] [--archive mail-dev-2]
    python -m bench.equal compare FILE [--count N] [--archive mail-dev-2] [--show N]

`record` analyses the messages and writes one line for each; `compare` analyses them again, with the code as it is now,
and says which reports differ and in what. A change that only makes the analysis faster leaves none. DNS answers "no
such name", and lists, sender history and campaigns know nothing, so that a report depends on the message and the code
alone.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from bench.corpus import Mail, mail
from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.mail.message import Envelope
from gatepost.questions import (
    Answer,
    AskCampaign,
    AskSightings,
    Campaign,
    Dns,
    DnsAnswer,
    LookupAnswer,
    Question,
    Sightings,
)

NOW = 1_794_302_520.0
MOST_BYTES = 60_000_000
SHOWN = 20


class Recorded(msgspec.Struct, frozen=True):
    """What is compared of one message: its path, and each field of its report as plain data."""

    path: str
    report: dict[str, Any]


def judge(message: Mail) -> Report:
    """The report on a message, from nothing but its bytes and its envelope."""
    given = message.envelope
    recipients = given["envelopeRecipients"]
    assert isinstance(recipients, list)
    envelope = Envelope(
        str(given["envelopeFrom"]),
        tuple(recipients),
        str(given.get("remoteAddress", "")),
        str(given.get("senderHelo", "")),
    )
    asking = analyse(message.raw, envelope, Context(now=NOW, campaigns=True, sender_history=True))
    try:
        questions = next(asking)
        while True:
            questions = asking.send(tuple(map(_answer, questions)))
    except StopIteration as stop:
        report: Report = stop.value
        return report


def _answer(question: Question) -> Answer:
    if isinstance(question, Dns):
        return DnsAnswer("no-name")
    if isinstance(question, AskSightings):
        return Sightings()
    return Campaign() if isinstance(question, AskCampaign) else LookupAnswer()


def describe(message: Mail) -> Recorded:
    """What is recorded of one message."""
    return Recorded(message.path, msgspec.to_builtins(judge(message)))


def record(file: Path, count: int, archive: str) -> int:
    """Write the reports on so many messages; how many there were."""
    found = 0
    with file.open("wb") as raw, zstandard.ZstdCompressor(3).stream_writer(raw) as out:
        for message in mail(count, max_bytes=MOST_BYTES, archive=archive):
            out.write(msgspec.json.encode(describe(message)) + b"\n")
            found += 1
    return found


def read(file: Path) -> Iterator[Recorded]:
    """The reports of a recorded state."""
    with file.open("rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw) as stream:
        rest = b""
        while piece := stream.read(1 << 20):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield msgspec.json.decode(line, type=Recorded)


def compare(file: Path, count: int, archive: str) -> tuple[int, list[str]]:
    """How many messages were compared, and a line for each one whose report differs. A message that the file does not
    have differs, too."""
    messages = {message.path: message for message in mail(count, max_bytes=MOST_BYTES, archive=archive)}
    different: list[str] = []
    compared = 0
    for before in read(file):
        message = messages.pop(before.path, None)
        if message is None:
            continue
        compared += 1
        # The same detour as the recorded one has taken: tuples become lists, and numbers what JSON makes of them.
        now = msgspec.json.decode(msgspec.json.encode(describe(message)), type=Recorded)
        changed = [name for name, value in now.report.items() if before.report.get(name) != value]
        if changed:
            different.append(f"{before.path}: {', '.join(changed)}{_tell(before.report, now.report, changed)}")
    different += [f"{path}: it was not recorded" for path in messages]
    return compared, different


def _tell(before: dict[str, Any], now: dict[str, Any], changed: list[str]) -> str:
    """The first difference, short."""
    old, new = before.get(changed[0]), now.get(changed[0])
    if isinstance(old, list) and isinstance(new, list):
        old, new = ([each for each in one if each not in other] for one, other in ((old, new), (new, old)))
    return f" ({str(old)[:300]} → {str(new)[:300]})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=1_000_000, help="so many messages of the sample; all by default")
    parser.add_argument("--archive", default="mail-dev", help="the archive of messages in ../shared/data")
    parser.add_argument("--show", type=int, default=SHOWN, help="so many differences")
    given = parser.parse_args()
    if given.step == "record":
        print(f"{record(given.file, given.count, given.archive)} reports were recorded.")
        return
    compared, different = compare(given.file, given.count, given.archive)
    for line in different[: given.show]:
        print(line)
    print(f"{compared} messages compared, {len(different)} of them differ.")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
