"""The builder of a document's `Contents`: each trait, link and member once, within the budget of its message."""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Literal

from gatepost.files.documents.office_encryption import EXCEL_DEFAULT
from gatepost.files.documents.script_strings import expand_commands
from gatepost.files.values import Contents, File, Member, Trait, UnpackBudget, UnreadReason
from gatepost.mail.links import Links, find_targets

MAX_TRAITS = 100
MAX_DETAIL = 300
MAX_WRITTEN = 2_000  # links written in a text; logs and lists of addresses have any number, and nobody reads on


class ContentsBuilder:
    """Collects the contents of one document. `budget` is the message's; anything that it could not pay for is reported
    as unread. `passwords` are those that the mail gives away."""

    def __init__(self, file: File, budget: UnpackBudget, passwords: Iterable[str] = ()) -> None:
        self.file = file
        self.budget = budget
        self.passwords = passwords
        self._members: list[Member] = []
        self._traits: dict[Trait, None] = {}
        self._unread: dict[UnreadReason, None] = {}
        self._links: Links | None = None
        self._text = ""

    def add_trait(self, name: str, detail: str = "") -> None:
        """Add something that a check may make a finding of."""
        if len(self._traits) < MAX_TRAITS:
            self._traits[Trait(name, " ".join(detail[:MAX_DETAIL].split()))] = None

    def add_link(self, target: str, shown: str = "", source: Literal["file", "refresh", "script"] = "file") -> None:
        """Add a link that a person, the document itself (`refresh`), or a program that reads it (`script`) follows."""
        if self._links is None:
            self._links = Links()
        self._links.add(target, self.file.path, source, shown=shown)
        if not self._links.is_whole:
            self.add_unread("count")

    def add_links(self, targets: Iterable[str], source: Literal["file", "script"] = "file") -> None:
        """Add several links."""
        for target in targets:
            self.add_link(target, source=source)

    def take_source(self, content: bytes) -> bytes:
        """Return as much of a document as may still be searched for text."""
        taken = self.budget.take_text_source(content)
        self.add_unread("text" if len(taken) < len(content) else None)
        return taken

    def add_text(self, text: str) -> None:
        """Add text that a person reads, and the links that are written in it."""
        size = len(text)
        text = self.budget.take_text(text)
        self.add_unread("text" if len(text) < size else None)
        if not text:
            return
        self._text = f"{self._text}\n{text}" if self._text else text
        for target in islice(find_targets(text), MAX_WRITTEN):
            self.add_link(target, target)

    def add_unread(self, reason: UnreadReason | None) -> None:
        """Add the reason why something was not read, or not wholly; None adds nothing."""
        if reason:
            self._unread[reason] = None

    def allowance(self, packed: int) -> int:
        """Return how many bytes may come out of `packed` bytes."""
        return max(0, self.budget.allowance(packed))

    def try_passwords(self, cost: int, attempt: Callable[[str], bytes]) -> bytes:
        """Return what the first fitting password opens, else b"": first that of Excel, then the mail's."""
        for password in chain((EXCEL_DEFAULT,), self.passwords):
            if not self.budget.take_attempt(cost):
                break
            if plain := attempt(password):
                self.add_trait(
                    *(("default-password",) if password == EXCEL_DEFAULT else ("document-password", password))
                )
                return plain
        return b""

    def add_member(
        self, names: str | tuple[str, ...], content: bytes, packed: int = 0, *, declared: str = "", shown: bool = False
    ) -> None:
        """Add a file inside this one. Bytes that were only copied out of the document are charged, too."""
        if not content or len(self._members) >= self.budget.max_files:
            self.add_unread("count" if content else None)
            return
        room = self.allowance(max(packed, len(content)))
        if len(content) > room:
            self.add_unread("size")
        self.budget.pay(packed, min(len(content), room))
        member = Member((names,) if isinstance(names, str) else names, content[:room], declared=declared, shown=shown)
        self._members.append(member)

    def add_base64(self, name: str, text: str, packed: int) -> None:
        """Add a file inside this one that stands in it in base64."""
        digits = re.sub(r"[^A-Za-z0-9+/]", "", text)
        try:
            self.add_member(name, b64decode(digits + "=" * (-len(digits) % 4)), packed)
        except Error:
            self.add_unread("damaged")

    def add_command(self, trait: str, name: str, command: str) -> None:
        """Add a command that the document starts, and a file with all that it spells out."""
        self.add_trait(trait, command)
        self.add_member(name, expand_commands(command))

    def build(self) -> Contents:
        """Return everything that was collected."""
        links = tuple(self._links) if self._links else ()
        return Contents(tuple(self._members), tuple(self._traits), links, tuple(self._unread), self._text)
