"""Reading real mail compared with the standard library, and hostile messages, each in a process of its own.

    python -m bench.parsing [messages]

`MIME` is the tree and the decoded parts; `read` adds addresses, visible text and links. The standard library builds
its tree with the compat32 policy and decodes every leaf: no text, no links, no second reading. Times are CPU times,
the best of three rounds, in turns. A giant must take less than 2 s and 300 MB, the message itself included.
"""

import email
import gc
import importlib.util
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from bench.corpus import NotPresentError, mail
from bench.nasty import GIANTS
from gatepost.mail.budget import ReadBudget
from gatepost.mail.reader import MessageParts, read_within

MESSAGES = 4_000
MOST_SECONDS = 2.0
MOST_MEMORY = 300
MESSAGE_LIMIT = 50 << 20


def library(raw: bytes) -> None:
    """What the standard library does for the tree and the leaves."""
    for part in email.message_from_bytes(raw).walk():
        if not part.is_multipart():
            try:
                part.get_payload(decode=True)
            except (ValueError, LookupError, AssertionError):
                continue


def compiled(raw: bytes) -> None:
    """What fast-mail-parser does; it refuses some real messages."""
    parser = importlib.import_module("fast_mail_parser")
    try:
        parser.parse_email(raw)
    except parser.ParseError:
        return


READERS: dict[str, Callable[[bytes], object]] = {
    "Gatepost, MIME": lambda raw: MessageParts(raw, ReadBudget()),
    "Gatepost, read": lambda raw: read_within(raw, ReadBudget()),
    "email (compat32)": library,
}
if importlib.util.find_spec("fast_mail_parser"):
    READERS["fast-mail-parser"] = compiled


def speed(messages: list[bytes]) -> dict[str, float]:
    """Messages a second of each reader."""
    best = dict.fromkeys(READERS, float("inf"))
    gc.collect()
    gc.freeze()
    for _ in range(3):
        for name, reader in READERS.items():
            start = time.process_time()
            for raw in messages:
                reader(raw)
            best[name] = min(best[name], time.process_time() - start)
    return {name: len(messages) / seconds for name, seconds in best.items()}


def giant(name: str) -> tuple[float, float, str]:
    """CPU seconds, peak memory in MB and the limits named, in a process of its own."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_alone, args=(name, theirs))
    process.start()
    theirs.close()
    seconds, memory, kinds = ours.recv()
    process.join()
    return seconds, memory, kinds


def _alone(name: str, answers: Connection) -> None:
    raw = GIANTS[name]()[:MESSAGE_LIMIT]
    start = time.process_time()
    message = read_within(raw, ReadBudget())
    seconds = time.process_time() - start
    kinds = sorted({defect.kind for defect in message.defects if defect.kind.startswith("limit:")})
    answers.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, ", ".join(kinds)))


def run(count: int = MESSAGES) -> str:
    """The section for the results."""
    lines: list[str] = []
    try:
        messages = [one.raw for one in mail(count)]
        mean = sum(map(len, messages)) / len(messages)
        lines += [
            f"{len(messages)} real messages, {mean / 1000:.1f} KB in the mean:",
            "",
            "| reader | messages/s |",
            "|---|---|",
        ]
        lines += [f"| {name} | {rate:,.0f} |" for name, rate in speed(messages).items()]
        if "fast-mail-parser" not in READERS:
            lines.append("| fast-mail-parser | not run: not installed |")
    except NotPresentError as fault:
        lines.append(f"not run: {fault}")
    lines += ["", "| giant | s | MB | limits named | |", "|---|---|---|---|---|"]
    for name in GIANTS:
        seconds, memory, kinds = giant(name)
        verdict = "" if seconds < MOST_SECONDS and memory < MOST_MEMORY else "over"
        lines.append(f"| {name} | {seconds:.2f} | {memory:.0f} | {kinds} | {verdict} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(run(int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES))
