"""The vocabulary between reading and judging: a check looks at a `Reading` and yields `Finding`s.

A finding states a fact with its evidence. It knows no weight and no action: policy gives those (`policy.toml`).
"""

from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from gatepost.auth.results import Authentication
from gatepost.files.tree import File
from gatepost.mail.message import Envelope, Message

MAX_FACT = 300


class Finding(msgspec.Struct, frozen=True):
    """One fact: which kind, on what it was found, and what was seen there.

    `strength` (0 to 1) scales the weight of kinds that have degrees; most have none. `about` names the link (its URL)
    or the file (its SHA-256) that the finding is about, so that a list entry for just that one can clear it.
    """

    kind: str
    where: str
    facts: dict[str, str] = {}
    strength: float = 1.0
    about: str = ""


class Kind(msgspec.Struct, frozen=True):
    """A thing that can be found. Its id is the tag in the API; its title is the sentence that a person reads."""

    id: str
    title: str

    def at(self, where: str, *, strength: float = 1.0, about: str = "", **facts: object) -> Finding:
        shown = {name: str(value)[:MAX_FACT] for name, value in facts.items()}
        return Finding(self.id, where[:MAX_FACT], shown, strength, about)


class Reading(msgspec.Struct, frozen=True):
    """Everything known about one message before it is judged."""

    message: Message = Message()
    envelope: Envelope = Envelope()
    authentication: Authentication = Authentication()
    files: tuple[File, ...] = ()


class Check(msgspec.Struct, frozen=True):
    """One registered check: `name` is its module's name and the stage that a stall is blamed on."""

    name: str
    kinds: tuple[Kind, ...]
    run: Callable[[Reading], Iterable[Finding]]


class Outcome(msgspec.Struct, frozen=True):
    """How one stage of the analysis went. Silence is never success: a stage that did not run says why."""

    stage: str
    state: Literal["ran", "failed", "skipped"]
    reason: str = ""
