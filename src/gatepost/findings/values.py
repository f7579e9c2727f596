"""A finding, and the kind of thing that it is."""

import msgspec

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
        """Return a finding of this kind, with its texts cut to what a ledger keeps."""
        shown = {name: str(value)[:MAX_FACT] for name, value in facts.items()}
        return Finding(self.id, where[:MAX_FACT], shown, strength, about)
