"""How much one analysis may ask, counted by guard, which does not believe a worker.

A worker reads hostile bytes and could be taken over. It has no network, but the names that it asks DNS for leave this
machine, and a name can carry what the worker has seen. guard does not parse mail, so it cannot know which names a
sound analysis would ask for. It can search: nearly every name of SPF, DKIM and DMARC stands in the header of the
message, in its envelope, or in an answer that the analysis was given before. Such a name says hardly anything by being
asked for. Of every other name the characters are counted that are found nowhere (SPF macros, RFC 7208 section 7, make
such names), and so is the number of names in all. What is over is answered "failed", without asking.

Only names that have to be looked up are counted: what the cache knows leaves nothing behind.
"""

import re
import struct
from ipaddress import IPv6Address

from gatepost.mail.message import Envelope
from gatepost.questions import Answer, AskAntivirus, AskCampaign, AskReputation, Dns, DnsAnswer, Lookup, Question

# SPF may take ten look-ups for each of two names, and ten addresses for each host of MX; real mail needs 7 to 25.
MAX_NAMES = 80
# A name of an SPF macro has about 50 characters that stand nowhere: the reversed address and a few letters.
MAX_FOREIGN = 300
# A lost worker costs its messages the answers that were on their way, and they ask again.
MAX_TIMES = 8
MAX_KEYS = 50_000
# Where guard searches, and for how many ends of a name: all of it is done on the event loop.
MAX_HEADER = 64 << 10
_MAX_ANSWERS = 32 << 10
_MAX_ENDS = 7

_HEADER_ENDS = (b"\r\n\r\n", b"\n\n")
_KEY = re.compile(r"(.+)\._domainkey\.(.+)", re.DOTALL)
_REVERSED = re.compile(r"(\d+)\.(\d+)\.(\d+)\.(\d+)\.in-addr\.arpa")
_REVERSED_IPV6 = re.compile(r"((?:[0-9a-f]\.){32})ip6\.arpa")


class QuestionBudget:
    """What one message has asked so far. `seconds` is the time that it has waited for DNS."""

    __slots__ = ("_answers", "_asked", "_foreign", "_given", "_names", "_text", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._names = 0
        self._foreign = 0
        self._text: str | None = None
        self._answers: list[DnsAnswer] = []
        self._given: str | None = None
        self._asked: dict[type[Question], int] = {}

    def note(self, answer: Answer) -> None:
        """Take an answer into account: a later question may ask for what it names."""
        if isinstance(answer, DnsAnswer) and answer.records and len(self._answers) < 2 * MAX_NAMES:
            self._answers.append(answer)
            self._given = None

    def can_ask(self, question: Question) -> bool:
        """Count a question to storage, antivirus or zones, or about campaigns; return whether it may still be asked."""
        if isinstance(question, Lookup) and sum(len(keys) for _, keys in question.keys) > MAX_KEYS:
            return False
        if not isinstance(question, Lookup | AskAntivirus | AskCampaign | AskReputation):
            return True
        times = self._asked[type(question)] = self._asked.get(type(question), 0) + 1
        return times <= MAX_TIMES

    def knows_header(self) -> bool:
        """Whether `read_header` was called."""
        return self._text is not None

    def read_header(self, envelope: Envelope, start: bytes) -> None:
        """Take the message into account: its envelope, and its first bytes up to the end of the header."""
        ends = [end for mark in _HEADER_ENDS if (end := start.find(mark, 0, MAX_HEADER)) >= 0]
        header = start[: min(ends, default=MAX_HEADER)].decode("latin-1")
        self._text = f"{envelope.sender}\n{envelope.helo}\n{envelope.remote_address}\n{header}".lower()

    def can_look_up(self, question: Dns) -> bool:
        """Count a name that would be sent to a name server; return whether it may be."""
        if self._names >= MAX_NAMES:
            return False
        foreign = self._count_foreign(question.name.lower().removesuffix("."))
        if self._foreign + foreign > MAX_FOREIGN:
            return False
        self._names += 1
        self._foreign += foreign
        return True

    def _count_foreign(self, name: str) -> int:
        """Return how many characters of a name do not follow from the message and from the answers to it."""
        texts = (self._text or "", self._text_of_answers())
        if _occurs(name.removeprefix("_dmarc."), texts):
            return 0
        if found := _KEY.fullmatch(name):  # the selector and the domain of a signature (RFC 6376 section 3.6.2.1)
            if _occurs(f"s={found[1]}", texts) and _occurs(found[2], texts):
                return 0
        elif (address := _read_reversed(name)) and _occurs(address, texts):
            return 0
        labels = name.split(".")
        for count in range(1, min(len(labels) - 1, _MAX_ENDS + 1)):
            if _occurs(".".join(labels[count:]), texts):
                return sum(map(len, labels[:count])) + count
        return len(name)

    def _text_of_answers(self) -> str:
        if self._given is None:
            self._given = "\n".join("\n".join(answer.records) for answer in self._answers)[:_MAX_ANSWERS].lower()
        return self._given


def _occurs(name: str, texts: tuple[str, ...]) -> bool:
    return any(name in text for text in texts)


def _read_reversed(name: str) -> str:
    """Return the address whose reverse name this is (RFC 1035 section 3.5, RFC 3596 section 2.5), or nothing."""
    if found := _REVERSED.fullmatch(name):
        return ".".join(reversed(found.groups()))
    if found := _REVERSED_IPV6.fullmatch(name):
        digits = found[1].replace(".", "")[::-1]
        return str(IPv6Address(struct.pack(">QQ", int(digits[:16], 16), int(digits[16:], 16))))
    return ""
