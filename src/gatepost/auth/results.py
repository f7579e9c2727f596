"""What authentication found out, in the words of RFC 8601 section 2.7."""

from typing import Literal

import msgspec

Result = Literal["none", "neutral", "pass", "fail", "softfail", "policy", "temperror", "permerror"]


class Spf(msgspec.Struct, frozen=True):
    """RFC 7208: may this host send for that domain? `scope` says whose name was checked."""

    result: Result = "none"
    domain: str = ""
    scope: Literal["mfrom", "helo"] = "mfrom"
    reason: str = ""


class Dkim(msgspec.Struct, frozen=True):
    """RFC 6376: one signature.

    `unsigned_bytes` is how much of the body `l=` leaves out, `weak` an RSA key under 1024 bits, `testing` the key's
    flag t=y, `uncovered` the names of fields people see of which at least one is not signed.
    """

    result: Result
    domain: str = ""
    selector: str = ""
    algorithm: str = ""
    reason: str = ""
    identity: str = ""
    unsigned_bytes: int = 0
    weak: bool = False
    testing: bool = False
    uncovered: tuple[str, ...] = ()


class Dmarc(msgspec.Struct, frozen=True):
    """RFC 9989: does an authenticated domain align with the one in From, and what does its owner ask for?

    `policy` is what the owner asks for this name (`p`, `sp` or `np`, already lowered by `t=y`), "" where none stands.
    """

    result: Result = "none"
    domain: str = ""
    policy_domain: str = ""
    policy: Literal["", "none", "quarantine", "reject"] = ""
    spf_aligned: bool = False
    dkim_aligned: bool = False
    reason: str = ""


class Arc(msgspec.Struct, frozen=True):
    """RFC 8617: the chain of custody. `sealers` are the sealing domains, oldest first."""

    result: Result = "none"
    instances: int = 0
    sealers: tuple[str, ...] = ()
    reason: str = ""


class Iprev(msgspec.Struct, frozen=True):
    """RFC 8601 section 3: does the host's name lead back to its address?"""

    result: Result = "none"
    name: str = ""
    reason: str = ""


class Authentication(msgspec.Struct, frozen=True):
    """Everything about who sent a message. `host` is the sending host's address, `host_source` how it is known:
    told by the border MTA, or found in Received past the trusted relays. `spf` is the result for MAIL FROM (for a
    bounce, which has none, that of the HELO name, as its scope says); `helo` is the one for the HELO name, checked
    where MAIL FROM gave `none`."""

    host: str = ""
    host_source: Literal["border", "received", "unknown"] = "unknown"
    spf: Spf = Spf()
    dkim: tuple[Dkim, ...] = ()
    dmarc: Dmarc = Dmarc()
    arc: Arc = Arc()
    iprev: Iprev = Iprev()
    helo: Spf = Spf(scope="helo")

    @property
    def aligned(self) -> bool:
        """Is the From domain proven by an aligned DKIM or SPF pass?"""
        return self.dmarc.dkim_aligned or self.dmarc.spf_aligned
