"""Reports about the mail of a domain as plain data, those of others and our own: DMARC aggregate reports (RFC 9990 and,
before it, RFC 7489 section 7.2), DMARC failure reports (RFC 9991, RFC 6591) and SMTP TLS reports (RFC 8460).

A sealed worker makes these values of the files that came by mail, and guard checks their types and bounds, since
hostile bytes were read there. Addresses of people are not among them: a failure report is reduced to who sent, for
which domain, and why it failed.

What we report ourselves is counted in `SeenMail` and `SeenSession`, and `parse_tags` and `parse_report_uris` read what
a domain wants of it: its DMARC and TLS records are lists of tags.

`advise` says in words what the next step to `p=reject` is. Of mail that fails, nobody can tell from numbers alone
whether it was forged or forgotten. So networks of which some mail passes count as the domain's own, and what fails from
there must be put right first; what never passes is named for a person to recognise.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

import msgspec

MAX_ROWS, MAX_REPORTS, MAX_NAME = 2_000, 20, 255
MAX_COUNT = 1_000_000_000_000

ReportKind: TypeAlias = Literal["dmarc", "tls", "failure"]
REPORT_KINDS: tuple[ReportKind, ...] = ("dmarc", "tls", "failure")
Disposition: TypeAlias = Literal["pass", "none", "quarantine", "reject", ""]
Policy: TypeAlias = Literal["none", "quarantine", "reject", ""]

Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=100_000_000_000)]


class SourceRow(msgspec.Struct, frozen=True):
    """Messages that are alike. `source` is the sending address, or for TLS the receiving host; "" stands for all that
    were too many to tell apart. `dkim` and `spf` say whether each passed and was aligned. `result` is the disposition,
    the type of a TLS failure or of an authentication failure. `details` are names: for DMARC the domain in From, the
    domain that signed, the domain of SPF and why the policy was not applied; for TLS the sending host."""

    source: Name
    count: Count
    dkim: bool = False
    spf: bool = False
    result: Name = ""
    details: Annotated[tuple[Name, ...], msgspec.Meta(max_length=4)] = ()

    @property
    def passed(self) -> bool:
        """Whether DMARC passed: one of the two is enough (RFC 9989 section 5.3)."""
        return self.dkim or self.spf


class DomainReport(msgspec.Struct, frozen=True):
    """One report on one domain. `policy` is what the reporter saw published: for DMARC `p=`, for TLS the kind of
    policy. `published` has all of it in words. `left_out` counts records that were beyond the limit and stand in `rows`
    without their source."""

    kind: ReportKind
    domain: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]
    reporter: Name
    report_id: Name
    begins: Seconds
    ends: Seconds
    policy: Name = ""
    published: Annotated[str, msgspec.Meta(max_length=500)] = ""
    passed: Count = 0
    failed: Count = 0
    rows: Annotated[tuple[SourceRow, ...], msgspec.Meta(max_length=MAX_ROWS)] = ()
    left_out: Count = 0

    @property
    def messages(self) -> int:
        """How many messages, or for TLS sessions, the report is about."""
        return self.passed + self.failed


class DomainReports(msgspec.Struct, frozen=True, tag=True):
    """The reports that one mail carried, and why other files in it are none."""

    reports: Annotated[tuple[DomainReport, ...], msgspec.Meta(max_length=MAX_REPORTS)] = ()
    problems: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_REPORTS)] = ()


class SourceFigures(msgspec.Struct, frozen=True):
    """What was reported of one source over a time: a row, whose count is the sum of all reports."""

    row: SourceRow
    first_day: int
    last_day: int


class DomainFigures(msgspec.Struct, frozen=True):
    """What was reported of one domain over a time. `days` is on how many days mail was seen, `seen` when the last
    report came."""

    scope: str | None
    domain: str
    policy: str
    published: str
    seen: int
    messages: int = 0
    passed: int = 0
    dkim: int = 0
    spf: int = 0
    quarantined: int = 0
    rejected: int = 0
    days: int = 0

    @property
    def failed(self) -> int:
        """How many messages did not pass."""
        return self.messages - self.passed

    @property
    def share(self) -> float:
        """The part that passed, 1 where there was nothing."""
        return self.passed / self.messages if self.messages else 1.0


DAYS_WANTED = 14
OWN_SHARE = 0.02
NAMED = 5

Step: TypeAlias = Literal["wait", "fix", "recognise", "quarantine", "reject", "done"]


class Advice(msgspec.Struct, frozen=True):
    """The next step, in words, and the sources that it is about."""

    step: Step
    text: str
    sources: tuple[SourceRow, ...] = ()


def advise(figures: DomainFigures, sources: Sequence[SourceFigures]) -> Advice:
    """Return the next step of a domain on its way to `p=reject`."""
    if not figures.messages:
        return Advice(
            "wait", "No mail was reported in this time. Check that the DMARC record names the address in rua."
        )
    own = {find_network(each.row.source) for each in sources if each.row.passed} - {""}
    failing = [each.row for each in sources if not each.row.passed and each.row.source]
    of_own = [row for row in failing if find_network(row.source) in own]
    others = [row for row in failing if find_network(row.source) not in own]
    lost = sum(row.count for row in of_own)
    if figures.policy == "reject":
        more = f" {lost:,} messages of hosts that are yours failed: see the first sources below." if lost else ""
        return Advice(
            "done", f"The policy is reject: mail that forges this domain is refused.{more}", tuple(of_own[:NAMED])
        )
    target: Step = "reject" if figures.policy == "quarantine" else "quarantine"
    if figures.days < DAYS_WANTED:
        left = DAYS_WANTED - figures.days
        return Advice("wait", f"Wait for reports of {left} more days, so that mail which is sent seldom is seen too.")
    if lost > figures.passed * OWN_SHARE:
        text = (
            f"{lost:,} messages came from hosts that send for this domain and failed. Have them sign with DKIM in the"
            " name of this domain, or name them in its SPF record. Forwarding breaks SPF, and only DKIM survives it."
        )
        return Advice("fix", text, tuple(of_own[:NAMED]))
    if sum(row.count for row in others) > figures.passed * OWN_SHARE:
        text = (
            "Look at the sources below, of which no mail passed. One that you know needs DKIM or SPF; if you know"
            f" none, they forge this domain: then publish p={target}."
        )
        return Advice("recognise", text, tuple(others[:NAMED]))
    text = f"Nearly all mail of this domain passes: publish p={target}, for a start with t=y (testing)."
    return Advice(target, text)


def find_network(address: str) -> str:
    """Return the part of an address that counts as one owner's: IPv4 /24, IPv6 /48; "" for what is none."""
    if "." in address:
        return address.rpartition(".")[0]
    return ":".join(address.split(":")[:3]) if ":" in address else ""


MAX_TAGS, MAX_RECORD = 100, 8_192
MAX_DESTINATIONS = 5
_BLANK = " \t"
_DMARC_VERSION = re.compile(r"[vV][ \t]*=[ \t]*DMARC1[ \t]*(?:;|$)")
# A local part without quotes, so that nothing in it can act in a command or a header field.
_MAILTO = re.compile(
    r"mailto:([A-Za-z0-9#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9_.-]{1,253})(?:!([0-9]{1,12})([kmgt]?))?", re.IGNORECASE
)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})")


class SeenMail(msgspec.Struct, frozen=True, array_like=True):
    """Messages of a day that are alike to DMARC (RFC 9990 section 2.1.1): the sending host, the domains in From and
    MAIL FROM, what was done by the policy and why not what it asks for, whether each method passed and was aligned, and
    the raw results: signatures as domain, selector and result, SPF as domain and result."""

    source: str
    header_from: str
    envelope_from: str
    disposition: Disposition
    dkim: bool
    spf: bool
    override: str = ""
    signatures: tuple[tuple[str, str, str], ...] = ()
    spf_domain: str = ""
    spf_result: str = "none"


class SeenSession(msgspec.Struct, frozen=True, array_like=True):
    """Connections of a day to mail servers of one domain that are alike (RFC 8460 section 4.4): under which policy
    (`sts` or `no-policy-found`), its lines and hosts, to which server, and why TLS failed; "" where it did not."""

    policy: str
    lines: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    server: str = ""
    address: str = ""
    failure: str = ""
    detail: str = ""


class ReportUri(msgspec.Struct, frozen=True):
    """Where a domain wants reports, and how many bytes it takes; 0 is no limit."""

    address: str
    limit: int = 0

    @property
    def host(self) -> str:
        """The host of the destination."""
        return self.address.rpartition("@")[2].lower()


def is_dmarc(text: str) -> bool:
    """Is this TXT record a DMARC record? The value of the version is case-sensitive and must come first."""
    return len(text) <= MAX_RECORD and bool(_DMARC_VERSION.match(text))


def parse_tags(text: str) -> dict[str, str]:
    """Return the first value of each tag behind the version of a record."""
    tags: dict[str, str] = {}
    for piece in text.split(";", MAX_TAGS)[1:MAX_TAGS]:
        name, equals, value = piece.partition("=")
        name = name.strip(_BLANK).lower()
        if equals and name not in tags:
            tags[name] = value.strip(_BLANK)
    return tags


def parse_report_uris(text: str) -> tuple[ReportUri, ...]:
    """Return the mail addresses that `rua=` names, in their order, up to `MAX_DESTINATIONS`. What is no `mailto:` is
    left out; `!10m` is the size that a destination takes (RFC 7489 section 6.4)."""
    found: dict[str, ReportUri] = {}
    for piece in text[:MAX_RECORD].split(","):
        match = _MAILTO.fullmatch(_PERCENT.sub(_decode, piece.strip(_BLANK)))
        if match and len(found) < MAX_DESTINATIONS:
            limit = int(match[2]) << _UNITS[match[3].lower()] if match[2] else 0
            found.setdefault(match[1].lower(), ReportUri(match[1], limit))
    return tuple(found.values())


def _decode(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))
