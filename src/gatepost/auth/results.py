"""What authentication found out, in the words of RFC 8601 section 2.7, and the header field that says it.

`format_header` writes Authentication-Results for relayed mail. Everything after its first word was chosen by the sender
of the mail: domains, selectors, names of hosts. A value is therefore written bare only where it is a token, else as a
quoted string without control characters, so that nothing in it can end the value, the result or the line. An incoming
field that claims to be ours is a forgery and is removed (section 5).
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Literal

import msgspec

Result = Literal["none", "neutral", "pass", "fail", "softfail", "policy", "temperror", "permerror"]
# Where a message comes from (see `sending_host`); "" in records of older versions.
Origin = Literal["", "outside", "own network", "logged in", "unknown"]


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
    """RFC 8617: the chain of custody. `sealers` are the sealing domains, oldest first; `origin` is the result of DMARC
    that the first of them states for the mail as it got it, "" where it states none."""

    result: Result = "none"
    instances: int = 0
    sealers: tuple[str, ...] = ()
    reason: str = ""
    origin: str = ""


class Iprev(msgspec.Struct, frozen=True):
    """RFC 8601 section 3: does the host's name lead back to its address?"""

    result: Result = "none"
    name: str = ""
    reason: str = ""


class Authentication(msgspec.Struct, frozen=True):
    """Everything about who sent a message. `host` is the sending host's address, `host_source` how it is known:
    told by the border MTA, or found in Received past the trusted relays. `spf` is the result for MAIL FROM (for a
    bounce, which has none, that of the HELO name, as its scope says); `helo` is the one for the HELO name, checked
    where MAIL FROM gave `none`. `origin` says where the message comes from."""

    host: str = ""
    host_source: Literal["border", "received", "unknown"] = "unknown"
    spf: Spf = Spf()
    dkim: tuple[Dkim, ...] = ()
    dmarc: Dmarc = Dmarc()
    arc: Arc = Arc()
    iprev: Iprev = Iprev()
    helo: Spf = Spf(scope="helo")
    origin: Origin = ""

    @property
    def aligned(self) -> bool:
        """Is the From domain proven by an aligned DKIM or SPF pass?"""
        return self.dmarc.dkim_aligned or self.dmarc.spf_aligned


MAX_VALUE = 255
MAX_SIGNATURES = 20
MAX_CLAIM = 500
WIDTH = 76

_TOKEN = re.compile(r"[!#$%&'*+.^_`{|}~0-9A-Za-z-]+")
_ODD = re.compile(r"[^ -~]")
_ID = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s;()"]+', re.DOTALL)
_QUOTING = re.compile(r'["\\]')
_HOST = re.compile(r"[\w.-]*+")
_NESTING = re.compile(r"[();]")


def format_header(authserv_id: str, found: Authentication) -> bytes:
    """Return the whole Authentication-Results field, folded, with its line end."""
    lines = [f"Authentication-Results: {_format_value(authserv_id)}"]
    for result in _format_results(found):
        lines[-1] += ";"
        lines.append("\t")
        for piece in result:
            if len(lines[-1]) > 1 and len(lines[-1]) + len(piece) > WIDTH:
                lines.append("\t")
            lines[-1] += f" {piece}" if len(lines[-1]) > 1 else piece
    return "\r\n".join([*lines, ""]).encode("ascii")


def is_forged(field: bytes, authserv_id: str) -> bool:
    """Whether an incoming field must go: one that claims our authserv-id, one whose claim cannot be read, and one that
    a reader who forgives more than we do could take for ours."""
    ours, value = authserv_id.lower(), field.partition(b":")[2]
    readings = value.replace(b"\r\n", b"").strip().decode("latin-1"), value.decode("utf-8", "replace")
    return any(read_authserv_id(each) in ("", ours) or _may_be_read_as(each[:MAX_CLAIM], ours) for each in readings)


def _may_be_read_as(value: str, ours: str) -> bool:
    """Whether the claim is `ours` to somebody who takes out comments inside of a word, white space, quotes or a last
    dot, folds letters (full width, RFC 8616), ends the name at any odd character, or decodes encoded words."""
    claim = _without_comments(value)
    if claim is None or "=?" in claim:
        return True
    words = _QUOTING.sub("", unicodedata.normalize("NFKC", claim)).casefold().split()
    hosts = (_HOST.match(name) for name in ("".join(words[:1]), "".join(words)))
    return any((found[0].strip(".") if found else "") == ours for found in hosts)


def _without_comments(value: str) -> str | None:
    """Return the text before the first semicolon that is outside of all parentheses; None if one is not closed."""
    kept, depth, start = [], 0, 0
    for found in _NESTING.finditer(value):
        if not depth:
            kept.append(value[start : found.start()])
            if found[0] == ";":
                return "".join(kept)
        depth = max(0, depth + {"(": 1, ")": -1}.get(found[0], 0))
        start = found.end()
    return None if depth else "".join((*kept, value[start:]))


def read_authserv_id(value: str) -> str:
    """Return the authserv-id of a field's value in lower case, "" where it cannot be read."""
    value = value[:MAX_CLAIM]
    found = _ID.match(value, _skip_comments(value))
    if not found:
        return ""
    text = found[0]
    return (re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text).lower()


def _skip_comments(value: str) -> int:
    """Return where the first word starts, white space and nested comments skipped (RFC 5322 section 3.2.2)."""
    depth = index = 0
    while index < len(value):
        char = value[index]
        if char == "\\" and depth:
            index += 1
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif not depth and not char.isspace():
            break
        index += 1
    return index


def _format_results(found: Authentication) -> Iterator[tuple[str, ...]]:
    """Yield one tuple of words for each method, each word ready to be written."""
    yield _format_spf(found.spf)
    if found.spf.scope != "helo" and found.helo.result != "none":
        yield _format_spf(found.helo)
    if not found.dkim:
        yield ("dkim=none",)
    yield from map(_format_dkim, found.dkim[:MAX_SIGNATURES])
    dmarc = found.dmarc
    policy = (("policy.dmarc", dmarc.policy),) if dmarc.policy else ()
    yield _format_result("dmarc", dmarc.result, dmarc.reason, ("header.from", dmarc.domain), *policy)
    if found.arc.result != "none":
        # RFC 8617 section 10.1 knows no other results; why it is not a pass stands in the reason.
        result = "pass" if found.arc.result == "pass" else "fail"
        yield _format_result("arc", result, found.arc.reason, ("smtp.remote-ip", found.host))
    if found.iprev.result != "none":
        yield _format_result("iprev", found.iprev.result, found.iprev.reason, ("policy.iprev", found.host))


def _format_spf(spf: Spf) -> tuple[str, ...]:
    return _format_result(
        "spf", spf.result, spf.reason, ("smtp.helo" if spf.scope == "helo" else "smtp.mailfrom", spf.domain)
    )


def _format_dkim(dkim: Dkim) -> tuple[str, ...]:
    properties = (("d", dkim.domain), ("i", dkim.identity), ("s", dkim.selector), ("a", dkim.algorithm))
    return _format_result("dkim", dkim.result, dkim.reason, *((f"header.{name}", value) for name, value in properties))


def _format_result(method: str, result: str, reason: str, *properties: tuple[str, str]) -> tuple[str, ...]:
    shown = (f"reason={_format_value(reason)}",) if reason and result != "pass" else ()
    return (f"{method}={result}", *shown, *(f"{name}={_format_value(value)}" for name, value in properties if value))


def _format_value(text: str) -> str:
    """Return a token, or a quoted string of printable ASCII (RFC 8601 section 2.2, `value`)."""
    text = _ODD.sub("?", text[:MAX_VALUE])
    if _TOKEN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
