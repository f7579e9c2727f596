"""Where an address occurs in what is stored, and what takes its place when it is erased.

An address is found in any text: alone, in a header's facts, in a link. It is compared as `names.normal_address` does
it, with the domain as A-labels or in Unicode, and it is found in two usual disguises too: percent-encoded in a link
(`ann%40example.org`), and in a bounce address (`bounce+ann=example.org@list.example`). It is not found in a longer
address: `ann@example.org` is neither in `joann@example.org` nor in `ann@example.org.example`.
"""

import re
import secrets
from typing import Any, TypeVar

import msgspec

from gatepost.mail.message import Envelope
from gatepost.names import normal_address, unicode_domain
from gatepost.store.record_packing import Detail

ERASED_DOMAIN = "erased.invalid"

T = TypeVar("T")


class Person:
    """A person, by an address. `ValueError` where the text is no address."""

    def __init__(self, stated: str) -> None:
        self.address = normal_address(stated)
        local, _, domain = self.address.rpartition("@")
        if not local or not domain or any(char.isspace() for char in self.address) or len(self.address) > 500:
            raise ValueError(f"{stated!r} is not an address such as ann@example.org")
        domains = dict.fromkeys((domain, unicode_domain(domain)))
        plain = "|".join(f"{re.escape(local)}(?:@|%40){re.escape(each)}" for each in domains)
        bounced = "|".join(f"{re.escape(local)}={re.escape(each)}" for each in domains)
        self._pattern = re.compile(rf"(?:(?<![\w.+-])(?:{plain})|(?<![\w.])(?:{bounced}))(?![\w-]|\.\w)", re.IGNORECASE)
        # Every form of the address has it; what has letters beyond ASCII is not looked for in bytes.
        self._needle = local.encode() if local.isascii() else b""

    def is_in(self, text: str) -> bool:
        """Whether the address occurs in a text."""
        return bool(self._pattern.search(text))

    def may_be_in(self, content: bytes) -> bool:
        """Whether a packed value, or the bytes of a message, could have the address; False is certain."""
        return self._needle in content.lower()

    def occurs(self, value: object) -> bool:
        """Whether the address occurs in any text of a value."""
        found = False

        def look(text: str) -> str:
            nonlocal found
            found = found or self.is_in(text)
            return text

        _map_texts(msgspec.to_builtins(value), look)
        return found

    def is_address(self, text: str) -> bool:
        """Whether a text is this address and nothing else."""
        return normal_address(text) == self.address

    def replace(self, text: str, pseudonym: str) -> str:
        """A text with the pseudonym in place of the address."""
        return self._pattern.sub(pseudonym, text)

    def erase_from(self, detail: Detail, pseudonym: str) -> Detail:
        """Envelope and report without the address: it is no recipient any more, and elsewhere it has the pseudonym."""
        replaced = self._replace_all(detail, Detail, pseudonym)
        return msgspec.structs.replace(replaced, envelope=self._erase_recipient(detail.envelope, replaced.envelope))

    def _replace_all(self, value: object, kind: type[T], pseudonym: str) -> T:
        texts = _map_texts(msgspec.to_builtins(value), lambda text: self.replace(text, pseudonym))
        return msgspec.convert(texts, kind)

    def _erase_recipient(self, before: Envelope, after: Envelope) -> Envelope:
        pairs = zip(before.recipients, after.recipients, strict=True)
        return msgspec.structs.replace(after, recipients=tuple(new for old, new in pairs if not self.is_address(old)))


def new_pseudonym() -> str:
    """An address that means nothing. It is random, so nobody can compute it from the address that it replaces."""
    return f"erased-{secrets.token_hex(8)}@{ERASED_DOMAIN}"


def _map_texts(value: Any, change: Any) -> Any:
    """Plain values with every text changed, keys of objects too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_map_texts(key, change): _map_texts(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_map_texts(each, change) for each in value]
    return value
