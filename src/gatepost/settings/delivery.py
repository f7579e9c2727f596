"""Keys on mail that leaves: next hops and routes, signatures, digests of held mail and reports to others, all in
`guard.yml`; and in `abby.yml`, the mailboxes out of which delivered mail is taken.

A route inherits nothing from `delivery`: credentials that are meant for one server are not shown to another. Files
stand once, in `delivery`, since they belong to the machine and not to a route. The same holds for the private keys of
DKIM and ARC. How digests are sent is set here; whether a tenant wants them is set in the web interface.
"""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Discriminator, Field, Tag

from gatepost.settings import values
from gatepost.settings.values import Section, setting

MAX_HOPS, MAX_ROUTES, MAX_MAILBOX_SERVERS, MAX_NAMES = 16, 200, 100, 1_000

Weight = Annotated[int, Field(ge=1, le=1_000)]


def _form_of(value: object) -> str:
    """Return which of the three forms a value of `nextHop` has, so that only the faults of that form are reported."""
    return "[weighted]" if isinstance(value, dict) else "[several]" if isinstance(value, list | tuple) else "[one]"


NextHops = Annotated[
    Annotated[values.NextHop, Tag("[one]")]
    | Annotated[list[values.NextHop], Field(min_length=1, max_length=MAX_HOPS), Tag("[several]")]
    | Annotated[dict[values.NextHop, Weight], Field(min_length=1, max_length=MAX_HOPS), Tag("[weighted]")],
    Discriminator(_form_of),
]

FORMS = (
    "servers that get the mail: `smtp://host:port`, `lmtp://host:port` or `lmtp:/path` of a Unix socket; a list of them"
    " is tried in order; a map of them to weights shares the mail by weight"
)


class AuthSettings(Section):
    """Credentials for a next hop. The mechanism is SCRAM-SHA-256, SCRAM-SHA-1 or, under TLS only, PLAIN or LOGIN."""

    user: values.Secret = setting(description="name of the user")
    password: values.Secret = setting(description="password; `${env:NAME}` and `${file:PATH}` are replaced")


class HopSettings(Section):
    """Next hops, and how they are reached."""

    tls: Literal["off", "opportunistic", "required", "verified"] = setting(
        "opportunistic",
        label="TLS",
        description="TLS to the next hop: `opportunistic` where the server offers it, `required` never without and with"
        " any certificate, `verified` never without a certificate that is checked",
    )
    auth: AuthSettings | None = setting(None, description="credentials for the next hop; off if not set")
    timeout: values.Milliseconds = setting(
        60_000,
        label="Time for a reply",
        description="milliseconds to wait for a reply of the next hop; five times as long for the reply to the message",
    )


class RouteSettings(HopSettings):
    """The next hops of some recipients."""

    domains: Annotated[list[values.RouteDomain], Field(max_length=MAX_NAMES)] = setting(
        [], label="Recipient domains", description="recipient domains; `*.example.com` is every domain below that one"
    )
    tenants: Annotated[list[values.TenantUid], Field(max_length=MAX_NAMES)] = setting(
        [], label="Tenants", description="tenants, by uid; a route that names the recipient's domain goes before"
    )
    next_hop: NextHops = setting(label="Next hops", description=FORMS)


class DeliverySettings(HopSettings):
    """The next hops of delivered mail."""

    next_hop: NextHops | None = setting(
        None, label="Next hops", description=f"{FORMS}; without it, mail that has no route is answered with 451"
    )
    routes: Annotated[list[RouteSettings], Field(max_length=MAX_ROUTES)] = setting(
        [],
        label="Route",
        form=values.FormGroup.ROUTES,
        description="next hops for some domains or tenants; the first route that fits counts",
    )
    ca: values.FilePath | None = setting(
        None,
        description="PEM file with the authorities that `verified` accepts, for all routes; by default the system's",
        local=True,
    )
    certificate: values.FilePath | None = setting(
        None,
        description="PEM file with the certificate, and its chain, that is shown to next hops that ask for one",
        local=True,
    )
    key: values.FilePath | None = setting(
        None, description="PEM file with the private key of `certificate`", local=True
    )

    @property
    def has_next_hop(self) -> bool:
        return self.next_hop is not None or bool(self.routes)


def list_hops(next_hop: NextHops) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the next hops of one of the three forms, and their weights; no weights where they are tried in order."""
    if isinstance(next_hop, dict):
        return tuple(next_hop), tuple(next_hop.values())
    return ((next_hop,) if isinstance(next_hop, str) else tuple(next_hop)), ()


MAX_KEYS = 1_000

Selector = Annotated[
    str, Field(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?){0,3}$")
]


class SigningKeySettings(Section):
    """A private key of a domain. `gatepost dkim key` writes one."""

    domain: values.Domain = setting(description="domain that signs (d=)")
    selector: Selector = setting(description="name under which the public key is published (s=)")
    file: values.FilePath = setting(
        description="PEM file with the private key, RSA or Ed25519, that other users of the machine cannot read"
    )


class DkimSettings(Section):
    """DKIM signatures of mail that leaves."""

    keys: Annotated[list[SigningKeySettings], Field(max_length=MAX_KEYS)] = setting(
        [],
        description="keys; outbound mail is signed with all keys of the domain in From, or else of the nearest domain"
        " above it",
        local=True,
    )
    sign_changed: bool = setting(
        False,
        description="sign inbound mail of these domains, too, where an action has changed it and broken its signatures",
    )


class ArcSettings(Section):
    """ARC sets on inbound mail, for those who receive it after us."""

    key: SigningKeySettings = setting(description="the key that seals", local=True)
    seal: Literal["changed", "always"] = setting(
        "changed", description="`changed` seals mail that an action has changed, `always` all inbound mail"
    )


LinkDays = Annotated[int, Field(ge=1, le=60), values.IN_DAYS]


class DigestSettings(Section):
    """Daily mail to recipients about what is held for them; each tenant switches it on for itself."""

    sender: values.MailAddress | None = setting(
        None, description="address in From and in the envelope; by default `postmaster@` and the host name of guard"
    )
    link_lifetime: LinkDays = setting(
        14, label="Links work for", description="days for which the links of a digest work"
    )
    max_messages: values.UpToThousand = setting(
        50, label="Messages in one digest", description="maximum number of messages that one digest lists"
    )
    max_recipients: values.Count = setting(
        5_000,
        label="Digests in one run",
        description="maximum number of digests that one run sends for one tenant; the rest follows after an hour",
    )
    per_minute: values.Count = setting(
        300, label="Digests in a minute", description="maximum number of digests that are sent in a minute"
    )


OneLine = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[ -~]+$")]
PerMinute = Annotated[int, Field(ge=1, le=6_000)]


class SentReportSettings(Section):
    """DMARC aggregate reports to others about their domains. They leave by the next hop of outbound mail, signed with
    the DKIM key of the sender's domain."""

    organization: OneLine = setting(description="name of this organisation, as reports give it")
    sender: values.MailAddress = setting(
        description="address that reports come from; `dkim.keys` needs a key of its domain"
    )
    contact: OneLine | None = setting(None, description="further contact, such as the address of a web page")
    exclude: Annotated[list[values.Domain], Field(max_length=MAX_NAMES)] = setting(
        [], description="policy domains that nothing is reported on"
    )
    max_per_day: values.Count = setting(5_000, description="maximum number of reports in a day")
    per_minute: PerMinute = setting(60, description="maximum number of reports that are sent in a minute")


class DomainReportSettings(Section):
    """DMARC reports."""

    send: SentReportSettings | None = setting(
        None, description="DMARC aggregate reports to others about their domains; off if not set"
    )


def _check_imap(text: str) -> str:
    try:
        parts = urlsplit(text)
        fits = (
            parts.scheme in ("imaps", "imap") and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        )
    except ValueError:
        fits = False
    if not fits or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("must be of the form imaps://host:port, or imap://host:port for STARTTLS")
    return text


def _check_user(text: str) -> str:
    if "{address}" not in text and "{local}" not in text:
        raise ValueError("must have {address} or {local} in it, which stands for the recipient")
    return text


ImapServer = Annotated[str, AfterValidator(_check_imap)]
MailboxUser = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[ -~]+$"), AfterValidator(_check_user)]
FolderName = Annotated[str, Field(min_length=1, max_length=100, pattern=r'^[^"\\*%&\x00-\x1f\x7f-\U0010ffff]+$')]


class MailboxServerSettings(Section):
    """An IMAP server, and whose mailboxes it has."""

    domains: Annotated[list[values.Domain], Field(max_length=MAX_NAMES)] = setting(
        [], description="domains of recipients whose mailboxes are here"
    )
    tenants: Annotated[list[values.TenantUid], Field(max_length=MAX_NAMES)] = setting(
        [], description="uids of tenants whose mailboxes are here; a server that names the domain goes before"
    )
    server: ImapServer = setting(description="`imaps://host:port`, or `imap://host:port`, which must offer STARTTLS")
    user: MailboxUser = setting(
        description="name that opens a mailbox; `{address}` and `{local}` stand for the recipient:"
        " `{address}*gatepost` is a master user of Dovecot"
    )
    password: values.Secret = setting(
        description="password of that user; `${env:NAME}` and `${file:PATH}` are replaced"
    )
    ca: values.FilePath | None = setting(
        None, description="PEM file with the authorities that the certificate is checked with", local=True
    )
    folder: FolderName = setting(
        "Removed by Gatepost", description="folder of the mailbox that messages are moved to; it is made if need be"
    )


class RemediationSettings(Section):
    """Taking delivered mail out of mailboxes."""

    servers: Annotated[list[MailboxServerSettings], Field(min_length=1, max_length=MAX_MAILBOX_SERVERS)] = setting(
        description="where mailboxes are; the first that names the recipient's domain, else the tenant, counts"
    )
    removes: Literal["move", "delete"] = setting(
        "move", description="`move` to the folder, which can be undone, or `delete`, which cannot"
    )
    only_exact: bool = setting(
        False, description="whether a copy must end with the very bytes that were scanned; else Message-ID and size do"
    )
    max_per_hour: values.Count = setting(
        1_000, description="maximum number of copies that are removed in an hour, for each tenant"
    )
    timeout: values.Milliseconds = setting(30_000, description="milliseconds to wait for an answer of the server")
