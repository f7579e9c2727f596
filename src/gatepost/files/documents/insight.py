"""What a reader gathers from one document, each thing once and within the budget of its message."""

from collections.abc import Callable, Iterable
from itertools import chain

from gatepost.files.budget import Budget
from gatepost.files.values import Contents, File, Member, Trait, Unread
from gatepost.mail.links import Links

MAX_TRAITS = 100
MAX_DETAIL = 300


class Insight:
    """The gathering of one reader. `budget` is the purse of the message; what could not be paid for is said."""

    def __init__(self, file: File, budget: Budget, passwords: Iterable[str] = ()) -> None:
        self.file = file
        self.budget = budget
        self._passwords = passwords
        self._members: list[Member] = []
        self._traits: dict[Trait, None] = {}
        self._unread: dict[Unread, None] = {}
        self._links: Links | None = None

    def trait(self, name: str, detail: str = "") -> None:
        """Something that a check may make a finding of."""
        if len(self._traits) < MAX_TRAITS:
            self._traits[Trait(name, " ".join(detail[:MAX_DETAIL].split()))] = None

    def link(self, target: str, shown: str = "") -> None:
        """A link that a person can follow, or that the document follows by itself."""
        if self._links is None:
            self._links = Links()
        self._links.add(target, self.file.path, "file", shown=shown)
        if not self._links.is_whole:
            self.unread("count")

    def links(self, targets: Iterable[str]) -> None:
        for target in targets:
            self.link(target)

    def unread(self, reason: Unread | None) -> None:
        """Why something was not read, or not wholly."""
        if reason:
            self._unread[reason] = None

    def room(self, packed: int) -> int:
        """How many bytes may come out of `packed` bytes."""
        return max(0, self.budget.allowance(packed))

    def unlocked(self, first: str, cost: int, attempt: Callable[[str], bytes]) -> bytes:
        """What the first password that fits gives: `first` is everybody's, the others are those that the mail gives
        away."""
        for password in chain((first,), self._passwords):
            if not self.budget.try_password(cost):
                break
            if plain := attempt(password):
                self.trait(*(("default-password",) if password == first else ("document-password", password)))
                return plain
        return b""

    def member(self, names: str | tuple[str, ...], content: bytes, packed: int = 0) -> None:
        """A file inside this one. Bytes that were only copied out of it are paid for, too."""
        if not content or len(self._members) >= self.budget.max_files:
            self.unread("count" if content else None)
            return
        room = self.room(max(packed, len(content)))
        if len(content) > room:
            self.unread("size")
        self.budget.pay(packed, min(len(content), room))
        self._members.append(Member((names,) if isinstance(names, str) else names, content[:room]))

    def contents(self) -> Contents:
        links = tuple(self._links) if self._links else ()
        return Contents(tuple(self._members), tuple(self._traits), links, tuple(self._unread))
