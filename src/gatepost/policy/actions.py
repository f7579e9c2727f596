"""Actions: what is done over SMTP with a message besides holding, refusing or dropping it, by its verdict.

An action belongs to a decision. `tag`, `redirect` and `strip` change a message or its way, so they stand beside the
decision `quarantine`: a source that cannot carry them out, such as the scanning API, holds the message. `copy` changes
nothing and stands beside `deliver`. Where the decision on a message is another one, its action does not count.
"""

import re
from typing import Literal, get_args

import msgspec

from gatepost.names import normal_domain

ActionName = Literal["tag", "redirect", "copy", "strip"]
ACTIONS: tuple[ActionName, ...] = get_args(ActionName)
# The decision beside which each action stands.
DECISION_OF: dict[str, str] = {"tag": "quarantine", "redirect": "quarantine", "strip": "quarantine", "copy": "deliver"}
# Actions that send to a mailbox.
WITH_MAILBOX = frozenset({"redirect", "copy"})

# An encoded word has at most 75 characters (RFC 2047 section 2), and a mark that needs one must fit into one.
MAX_MARK = 40
MAX_MAILBOX = 254
_MAX_LOCAL = 64
_LOCAL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


class StrippedFile(msgspec.Struct, frozen=True):
    """An attachment that was taken out: what the notice in its place says of it."""

    path: str
    name: str
    size: int
    sha256: str
    reason: str


class MessageAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """The action on one message, as its record has it. `mark` goes before the subject, `to` is the mailbox of a
    redirect or copy, `files` are the attachments that were taken out. `failed` is why the action was not carried out:
    then the decision was, as without an action."""

    name: ActionName
    mark: str = ""
    to: str = ""
    files: tuple[StrippedFile, ...] = ()
    failed: str = ""

    def describe(self) -> str:
        """Return what was done, as a sentence for people; for a failed action, what was not done and why."""
        if self.failed:
            return f"The action {self.name} was not carried out: {self.failed}"
        marked = f", its subject marked {self.mark.strip()}" if self.mark else ""
        if self.name == "tag":
            return f"It was delivered with tags in its header{marked}"
        if self.name == "redirect":
            return f"It was redirected to {self.to} instead of its recipients{marked}"
        if self.name == "copy":
            return f"It was delivered, and a copy was sent to {self.to}"
        names = ", ".join(file.name for file in self.files[:5])
        return f"It was delivered without {len(self.files)} of its attachments ({names}), and is held whole{marked}"


def find_mark_fault(mark: str) -> str:
    """Return what is wrong with a mark for subjects, as the end of a sentence; "" if it can be used."""
    if not mark:
        return ""
    if not mark.strip() or not mark.isprintable():
        return "must be a text of printable characters"
    if len(mark.encode("utf-8", "replace")) > MAX_MARK:
        return f"must have at most {MAX_MARK} bytes"
    return "must not hold =? or ?=, which begin and end an encoded word" if "=?" in mark or "?=" in mark else ""


def find_mailbox_fault(address: str) -> str:
    """Return what is wrong with the address of a mailbox, as the end of a sentence; "" if it can be used."""
    local, at, domain = address.rpartition("@")
    short = address.isascii() and len(address) <= MAX_MAILBOX and len(local) <= _MAX_LOCAL
    if not (at and short and _LOCAL.fullmatch(local) and _DOMAIN.fullmatch(normal_domain(domain))):
        return f"must be the address of a mailbox, such as held@example.com, not {address[:100]!r}"
    return ""
