"""Questions to DNS, and the way that code without a network asks them.

Whatever parses hostile bytes has no network and no files. So code that needs DNS or a list is a *generator*: it
yields a tuple of questions and is sent a tuple of answers, one for each, in the same order. SPF with its includes
stays plain sequential code, and a test answers from a dictionary:

    def has_mx(domain: str) -> Asking[bool]:
        (answer,) = yield (Dns(domain, "MX"),)
        return bool(answer.records)
"""

from collections.abc import Generator
from itertools import chain
from typing import Literal, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")

RecordType = Literal["A", "AAAA", "MX", "PTR", "TXT"]


class Dns(msgspec.Struct, frozen=True, tag_field="asks", tag="dns"):
    """All records of one type at one name (an A-label name without a trailing dot)."""

    name: str
    type: RecordType


class DnsAnswer(msgspec.Struct, frozen=True, tag_field="asks", tag="dns"):
    """What DNS said. "No such name", "no such record" and "nobody answered" are different to the end.

    Records are text: addresses as such; names without a trailing dot; MX as "10 mx.example"; TXT as its strings
    joined without a space (RFC 7208 section 3.3), each octet one character (latin-1).
    """

    status: Literal["found", "no-data", "no-name", "failed"]
    records: tuple[str, ...] = ()


Asking: TypeAlias = Generator[tuple[Dns, ...], tuple[DnsAnswer, ...], T]


def together(*askings: Asking[T]) -> Asking[tuple[T, ...]]:
    """Run several askings side by side: their questions of each step are asked in one batch.

    Three DKIM signatures, SPF and the DMARC record cost one round trip, not five.
    """
    results: dict[int, T] = {}
    waiting: list[tuple[int, Asking[T], tuple[Dns, ...]]] = []
    for index, asking in enumerate(askings):
        try:
            waiting.append((index, asking, next(asking)))
        except StopIteration as stop:
            results[index] = stop.value
    while waiting:
        asked, waiting = waiting, []
        answers = yield tuple(chain.from_iterable([questions for _, _, questions in asked]))
        start = 0
        for index, asking, questions in asked:
            end = start + len(questions)
            try:
                waiting.append((index, asking, asking.send(answers[start:end])))
            except StopIteration as stop:
                results[index] = stop.value
            start = end
    return tuple([results[index] for index in range(len(askings))])
