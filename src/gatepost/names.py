"""Names in mail: addresses, domains, who owns a domain, and which names look alike. Pure functions, none raises."""

import msgspec


class Address(msgspec.Struct, frozen=True):
    """A mailbox (RFC 5322 section 3.4): the name shown, and the address behind it in normal form."""

    name: str
    local: str
    domain: str

    def __str__(self) -> str:
        return f"{self.local}@{self.domain}" if self.domain else self.local
