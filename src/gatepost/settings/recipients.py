"""Keys of `guard.yml` on recipients: which of them exist is asked before a message is taken, and not when it bounces.

A rule says for which domains or tenants it is, and where their recipients are known: in the list `known-recipients`, in
an LDAP directory, at a mail server. The filter of a directory (RFC 4515) is parsed here, with the other keys.
`{address}`, `{local}` and `{domain}` in it are put into the values of comparisons as bytes, after the filter was
parsed, so that no address can change what is asked (RFC 4515 section 5).
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

import msgspec
from pydantic import AfterValidator, Field, model_validator

from gatepost.settings.delivery import FORMS, MAX_NAMES, HopSettings, NextHops
from gatepost.settings.values import (
    IN_MILLISECONDS,
    IN_MINUTES,
    Count,
    FilePath,
    FormGroup,
    RouteDomain,
    Secret,
    Section,
    TenantUid,
    group,
    live,
)

MAX_FILTER, MAX_DEPTH, MAX_PARTS = 2_000, 10, 100
MAX_RULES, MAX_SERVERS = 200, 8


def encode_ber(tag: int, *parts: bytes) -> bytes:
    """Return a value in BER, with the length in its shortest form (X.690 section 8.1.3)."""
    content = b"".join(parts)
    if len(content) < 0x80:
        return bytes((tag, len(content))) + content
    size = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(size))) + size + content


Part = bytes | str | tuple[int, tuple["Part", ...]]


class LdapFilter(msgspec.Struct, frozen=True):
    """A filter that is parsed: values of comparisons are texts, which may have names in braces."""

    root: tuple[int, tuple[Part, ...]]

    def encode(self, values: Mapping[str, str]) -> bytes:
        """Return the filter as it is sent, with these values in the places of their names."""
        return _fill(self.root, values)


def _fill(part: Part, values: Mapping[str, str]) -> bytes:
    if isinstance(part, bytes):
        return part
    if isinstance(part, str):
        # A surrogate stands for a byte that was written as \xx.
        text = part
        for name, value in values.items():
            text = text.replace("{" + name + "}", value)
        return text.encode("utf-8", "surrogateescape")
    return encode_ber(part[0], *(_fill(each, values) for each in part[1]))


PLACES = ("address", "local", "domain")


def parse_filter(text: str) -> LdapFilter:
    """Parse a filter (RFC 4515 section 3); raises `ValueError` with the end of a sentence that starts with the key."""
    if len(text) > MAX_FILTER:
        raise ValueError(f"must have at most {MAX_FILTER:,} characters")
    if not any("{" + name + "}" in text for name in PLACES):
        raise ValueError("must have {address} in it, or {local} or {domain}")
    parser = _FilterParser(text)
    root = parser.parse(0)
    if parser.at != len(text):
        raise ValueError(f"must end at character {parser.at + 1}, where its last bracket closes")
    return LdapFilter(root)


class _FilterParser:
    """Goes through a filter once, from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self.at, self._parts = text, 0, 0

    def parse(self, depth: int) -> tuple[int, tuple[Part, ...]]:
        """Parse one filter in brackets."""
        self._parts += 1
        if depth > MAX_DEPTH or self._parts > MAX_PARTS:
            raise ValueError("has too many parts")
        self._expect("(")
        sign = self._text[self.at : self.at + 1]
        if sign in ("&", "|", "!") and sign:
            self.at += 1
            inner: list[Part] = []
            while self._text[self.at : self.at + 1] == "(":
                inner.append(self.parse(depth + 1))
            if not inner or (sign == "!" and len(inner) != 1):
                raise ValueError(f"must have {'one filter' if sign == '!' else 'filters'} behind {sign}")
            self._expect(")")
            return {"&": 0xA0, "|": 0xA1, "!": 0xA2}[sign], tuple(inner)
        end = self._text.find(")", self.at)
        if end < 0:
            raise ValueError("must close every bracket")
        item, self.at = self._text[self.at : end], end + 1
        return _parse_item(item)

    def _expect(self, sign: str) -> None:
        if self._text[self.at : self.at + 1] != sign:
            raise ValueError(f"must have a {sign} at character {self.at + 1}, as in (mail={{address}})")
        self.at += 1


def _parse_item(item: str) -> tuple[int, tuple[Part, ...]]:
    name, equals, value = item.partition("=")
    if not equals or not name or "(" in item:
        raise ValueError(f"has {item!r}, which is no comparison like mail={{address}}")
    for sign, tag in ((">", 0xA5), ("<", 0xA6), ("~", 0xA8)):
        if name.endswith(sign):
            return tag, (_attribute(name[:-1]), (0x04, (_unescape(value),)))
    if name.endswith(":"):
        return _parse_extensible(name[:-1], value)
    if value == "*":
        return 0x87, (_attribute_name(name),)
    if "*" not in value:
        return 0xA3, (_attribute(name), (0x04, (_unescape(value),)))
    first, *middle, last = value.split("*")
    pieces: list[Part] = [(0x80, (_unescape(first),))] if first else []
    pieces += [(0x81, (_unescape(each),)) for each in middle if each]
    pieces += [(0x82, (_unescape(last),))] if last else []
    if not pieces:
        raise ValueError(f"has {item!r}, which compares nothing")
    return 0xA4, (_attribute(name), (0x30, tuple(pieces)))


def _parse_extensible(name: str, value: str) -> tuple[int, tuple[Part, ...]]:
    """Parse `attribute:rule:=value` (RFC 4511 section 4.5.1.7.7), which directories need for tests of single bits."""
    attribute, *rest = name.split(":")
    rules = [each for each in rest if each and each.lower() != "dn"]
    if len(rules) > 1 or not (attribute or rules):
        raise ValueError(f"has {name!r}, which is no attribute and rule")
    parts: list[Part] = [(0x81, (_attribute_name(each),)) for each in rules]
    parts += [(0x82, (_attribute_name(attribute),))] if attribute else []
    parts.append((0x83, (_unescape(value),)))
    if any(each.lower() == "dn" for each in rest):
        parts.append((0x84, (b"\xff",)))
    return 0xA9, tuple(parts)


def _attribute(name: str) -> Part:
    return 0x04, (_attribute_name(name),)


def _attribute_name(name: str) -> bytes:
    if not name.isascii() or not name.replace("-", "").replace(".", "").replace(";", "").isalnum():
        raise ValueError(f"has {name!r} in the place of an attribute")
    return name.encode()


def _unescape(value: str) -> str:
    r"""Return a value with `\2a` as the byte that it stands for."""
    first, *rest = value.split("\\")
    found = [first]
    for each in rest:
        try:
            byte = bytes.fromhex(each[:2])
        except ValueError:
            byte = b""
        if len(byte) != 1:
            raise ValueError("must have two hex digits behind each \\")
        found.append(byte.decode("ascii", "surrogateescape") + each[2:])
    return "".join(found)


def _check_filter(text: str) -> str:
    parse_filter(text)
    return text


def _check_ldap_url(text: str) -> str:
    form = "must be of the form ldap://host:port or ldaps://host:port"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(form) from None
    more = "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme not in ("ldap", "ldaps") or not parts.hostname or more or port == 0:
        raise ValueError(f"{form}; the base, the filter and the user have keys of their own")
    return text


LdapUrl = Annotated[str, Field(max_length=300), AfterValidator(_check_ldap_url)]
Filter = Annotated[str, AfterValidator(_check_filter)]
LookupTimeout = Annotated[int, Field(ge=100, le=60_000), IN_MILLISECONDS]
Minutes = Annotated[int, Field(ge=0, le=10_080), IN_MINUTES]
DEFAULT_FILTER = "(|(mail={address})(proxyAddresses=smtp:{address}))"


class LdapSettings(Section):
    """A directory that knows recipients. It is asked for entries, never for their content."""

    servers: Annotated[list[LdapUrl], Field(min_length=1, max_length=MAX_SERVERS)] = live(
        description="`ldap://host:port` or `ldaps://host:port` of servers of the same directory, tried in this order"
    )
    base: Annotated[str, Field(max_length=1_000)] = live(description="distinguished name below which entries are")
    filter: Filter = live(
        DEFAULT_FILTER,
        description="filter that an entry of the recipient fits (RFC 4515); `{address}`, `{local}` and `{domain}` are"
        " replaced",
    )
    user: Annotated[str, Field(max_length=1_000)] | None = live(
        None, description="distinguished name to bind as; without it, the search is anonymous"
    )
    password: Secret | None = live(
        None, description="password of `user`; `${env:NAME}` and `${file:PATH}` are replaced"
    )
    start_tls: bool = live(True, description="whether `ldap://` goes over to TLS before anything is asked")
    verify: bool = live(True, description="whether the certificate of the server is verified")
    ca: FilePath | None = live(
        None,
        description="PEM file with the authorities that may have signed it; by default the system's",
        local=True,
    )
    timeout: LookupTimeout = live(5_000, description="milliseconds to wait for an answer")

    @model_validator(mode="after")
    def _check_user(self) -> Self:
        if (self.user is None) != (self.password is None):
            raise ValueError("must have both user and password, or neither")
        if self.user is not None and not self.start_tls and any(each.startswith("ldap:") for each in self.servers):
            raise ValueError("must have startTls or ldaps:// servers: the password would go over the wire in clear")
        return self


class CallOutSettings(HopSettings):
    """A mail server that knows recipients: it is asked with MAIL and RCPT, and gets no message."""

    next_hop: NextHops | None = live(
        None, description=f"{FORMS}; by default the next hop of the recipient's route, which must refuse unknown names"
    )
    timeout: LookupTimeout = live(10_000, description="milliseconds to wait for a reply")


class RecipientRuleSettings(Section):
    """Where recipients of some domains are known. One source that knows a recipient is enough."""

    domains: Annotated[list[RouteDomain], Field(max_length=MAX_NAMES)] = live(
        [],
        label="Recipient domains",
        description="recipient domains; `*.example.com` is every domain below that one",
    )
    tenants: Annotated[list[TenantUid], Field(max_length=MAX_NAMES)] = live(
        [], label="Tenants", description="tenants, by uid; a rule without domains and tenants is for all recipients"
    )
    recipient_list: bool = live(
        False,
        label="List known-recipients",
        description="whether the list `known-recipients` of the tenant, or the global one, knows recipients",
    )
    ldap: LdapSettings | None = group(None, description="an LDAP directory; off if not set")
    call_out: CallOutSettings | None = group(None, description="a mail server that is asked; off if not set")
    tag_separator: Annotated[str, Field(max_length=1)] = live(
        "+",
        label="Sign before a tag",
        description="sign before the tag of an address: `ann+shop` is known to `recipientList` and `ldap` where `ann`"
        " is; empty for none",
    )
    on_failure: Literal["defer", "accept"] = live(
        "defer",
        description="what becomes of a recipient of whom no source can say anything: `defer` answers 451, `accept`"
        " leaves the decision to the next hop",
    )

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        if not (self.recipient_list or self.ldap or self.call_out):
            raise ValueError("must have a source: recipientList, ldap or callOut")
        return self


class RecipientCacheSettings(Section):
    """How long answers about recipients hold, in each process."""

    known_minutes: Minutes = live(
        60, description="minutes for which a recipient that exists is known; while no source answers, a day"
    )
    unknown_minutes: Minutes = live(5, description="minutes for which a recipient that does not exist is refused")
    maximum: Count = live(50_000, description="maximum number of recipients of each kind that are remembered")


class RecipientVerificationSettings(Section):
    """Recipients that do not exist are refused with 550 at RCPT; off by default."""

    rules: Annotated[list[RecipientRuleSettings], Field(max_length=MAX_RULES)] = live(
        [],
        label="Rule",
        form=FormGroup.RECIPIENTS,
        description="where recipients are known; the first rule that fits counts, and without one nobody is asked",
    )
    cache: RecipientCacheSettings = group(RecipientCacheSettings(), description="answers that are remembered")
