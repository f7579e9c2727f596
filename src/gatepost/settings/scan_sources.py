"""Keys of `guard.yml` on where mail comes from: the HTTPS source of abby, SMTP with outbound mail, milter and the
protocols of other filters; what all of them have in common; and which recipients are verified."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self, TypeVar

import msgspec
from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from gatepost.names import normal_domain
from gatepost.settings import values
from gatepost.settings.delivery import FORMS, MAX_NAMES, HopSettings, NextHops
from gatepost.settings.values import Section, setting, split_address


def _normalise_login(text: str) -> str:
    name, at, domain = text.rpartition("@")
    if not text.isprintable() or not (domain if at else text):
        raise ValueError("must be the name of a login, or @domain for all logins of a domain")
    return text if name or not at else f"@{normal_domain(domain)}"


Login = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_normalise_login)]
Item = TypeVar("Item")
_List = Annotated[list[Item], Field(max_length=MAX_NAMES)]
_ByTenant = Annotated[
    Annotated[_List[Item], Tag("[list]")]
    | Annotated[dict[values.TenantOrAny, _List[Item]], Field(max_length=MAX_NAMES), Tag("[by tenant]")],
    Discriminator(lambda value: "[by tenant]" if isinstance(value, dict) else "[list]"),
]
TenantHosts = _ByTenant[values.Network]
TenantMailboxes = _ByTenant[values.MailAddress]
PerHour = Annotated[int, Field(ge=0, le=10_000_000)]


class SenderLimitSettings(Section):
    """What one sender may send in an hour: the user that XCLIENT names, else the address of MAIL FROM. 0: no limit."""

    messages: PerHour = setting(500, description="messages")
    recipients: PerHour = setting(2_000, description="recipients of all messages together")
    refused_recipients: PerHour = setting(100, description="recipients that the next hop refuses for good")
    over_limit: Literal["defer", "hold"] = setting(
        "defer", description="`defer` answers 451 until the hour is over, `hold` puts the messages into the quarantine"
    )


class SenderRewritingSettings(Section):
    """The Sender Rewriting Scheme (SRS) for mail that own servers forward in the name of strangers."""

    domain: values.Domain = setting(
        description="domain of rewritten senders; its MX must lead here, and its SPF record must name the hosts that"
        " send"
    )
    keys: Annotated[list[values.Secret], Field(min_length=1, max_length=5)] = setting(
        description="secrets of at least 16 characters, the same on all nodes; the first one signs and all are accepted"
    )
    own_domains: Annotated[list[values.Domain], Field(max_length=MAX_NAMES)] = setting(
        [], description="domains of no tenant whose senders stay as they are; those of tenants always do"
    )

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        if any(len(key) < 16 for key in self.keys):
            raise ValueError("must have keys of at least 16 characters")
        return self


class OutboundSettings(HopSettings):
    """Mail that own servers send to the world."""

    hosts: TenantHosts = setting(
        [],
        description="tenant uid to addresses and networks of servers that send for it: all mail that they send here is"
        " outbound; `*` is for servers that check themselves who sends for which tenant. A list, as in older files,"
        " binds them to no tenant: mail of tenants' domains is then not signed",
        local=True,
    )
    logins: dict[values.TenantUid, Annotated[list[Login], Field(max_length=MAX_NAMES)]] = setting(
        {},
        description="tenant uid to SASL logins, as hosts in `xclientHosts` name them with XCLIENT LOGIN; `@domain` is"
        " every login of a domain. A login in a domain of a tenant needs no entry",
    )
    other_senders: Literal["unsigned", "refuse"] = setting(
        "unsigned",
        description="what becomes of mail whose envelope sender is in a domain of a tenant that its host or login is"
        " not bound to: `unsigned` sends it without a signature, `refuse` answers 550",
    )
    port: values.Port | None = setting(
        None,
        description="further port of the SMTP source on which all mail is outbound, for `hosts`, `xclientHosts` and"
        " this machine; none by default",
        local=True,
    )
    next_hop: NextHops | None = setting(
        None, description=f"{FORMS}; by default outbound mail takes the routes of `delivery`"
    )
    sender_limits: SenderLimitSettings = setting(
        SenderLimitSettings(), description="limits that show a captured account"
    )
    sender_rewriting: SenderRewritingSettings | None = setting(
        None, description="SRS: mail with the sender of a stranger leaves with one of ours; off if not set"
    )


# The scanning interface takes no larger message, and every budget of the analysis is made for it.
MAX_MESSAGE = 52_428_800

MessageBytes = Annotated[int, Field(ge=64 << 10, le=MAX_MESSAGE), values.IN_BYTES]
Hops = Annotated[int, Field(ge=10, le=1_000)]
# RFC 5321 section 4.5.3.2 asks for minutes; a few seconds are for tests and for hosts in the same rack.
ClientTimeout = Annotated[int, Field(ge=1_000, le=3_600_000), values.IN_MILLISECONDS]
MessageTimeout = Annotated[int, Field(ge=10_000, le=86_400_000), values.IN_MILLISECONDS]

LISTEN = "address to listen on, or a list of them; `::` is every address, of IPv4 too, `0.0.0.0` every one of IPv4"

REUSE_PORT = (
    "whether other instances on this machine may listen on the same address and port, each with a part of the"
    " connections; they run as the same user and set it too"
)


class ListeningSection(Section):
    """A section with an address to listen on."""

    host: values.Hosts
    port: values.Port
    reuse_port: bool = setting(False, description=REUSE_PORT, local=True)

    @property
    def hosts(self) -> tuple[str, ...]:
        return (self.host,) if isinstance(self.host, str) else tuple(self.host)


class ConnectionSettings(Section):
    """Limits of an HTTPS port on connections. This machine counts as a listed host."""

    maximum: values.Count = setting(2_000, description="maximum number of simultaneous connections")
    per_address: values.Count = setting(
        500, description="maximum number from one address (an IPv6 /64), for hosts that are not listed"
    )
    reserved: values.Count = setting(200, description="connections, of the maximum, that only listed hosts can use")
    listed_hosts: list[values.Network] = setting(
        [], description="addresses and networks without a limit of their own, such as a proxy or the border MTA"
    )


class RestApiSettings(ListeningSection):
    """The HTTPS scan source of a core; only abby may use it."""

    host: values.Hosts = setting("127.0.0.1", description=LISTEN, local=True)
    port: values.Port = setting(9785, description="port to listen on", local=True)
    secret: values.Secret | None = setting(
        None, description="secret that abby authenticates with; by default the one that `gatepost serve` generates"
    )
    keep: Literal["none", "held"] = setting(
        "none", description="`held` stores the raw mail of REST scans with the decision `quarantine`"
    )
    connections: ConnectionSettings = setting(ConnectionSettings(), description="limits on connections")


class SmtpSettings(ListeningSection):
    """The SMTP scan source of a core."""

    host: values.Hosts = setting("127.0.0.1", description=LISTEN, local=True)
    port: values.Port = setting(10025, description="port to listen on", local=True)
    after_queue: bool = setting(
        False, description="set it if the client is a mail queue that would send bounces: `bounce` becomes `quarantine`"
    )
    xclient_hosts: list[values.Network] = setting(
        [], description="addresses and networks whose XCLIENT and XFORWARD commands are trusted"
    )
    tls: Literal["off", "offered", "required"] = setting("offered", description="STARTTLS for clients")
    max_connections: values.Count = setting(
        200, label="Connections", description="maximum number of simultaneous connections"
    )
    max_connections_per_address: values.Count = setting(
        50,
        label="Connections of one address",
        description="maximum number from one address (an IPv6 /64) that is neither in `xclientHosts` nor this machine",
    )
    reserved_connections: values.Count = setting(
        40,
        label="Connections for own hosts",
        description="connections, of `maxConnections`, that only hosts in `xclientHosts` and this machine can use",
    )
    max_message_size: MessageBytes = setting(
        MAX_MESSAGE, label="Largest message", description="maximum size of a message; larger ones are refused with 552"
    )
    max_recipients: values.UpToThousand = setting(
        1_000,
        label="Recipients of a message",
        description="maximum number of recipients of a message; further ones are answered with 452",
    )
    max_hops: Hops = setting(
        100, description="maximum number of Received fields of a message; with more it counts as going in circles"
    )
    command_timeout: ClientTimeout = setting(
        300_000, label="Time for a command", description="milliseconds that a client may take for a command"
    )
    data_timeout: ClientTimeout = setting(
        180_000,
        label="Time for a piece of a message",
        description="milliseconds that a client may take for the next piece of a message",
    )
    message_timeout: MessageTimeout = setting(
        3_600_000,
        label="Time for a whole message",
        description="milliseconds that a message may take from DATA to its end, however large it is",
    )
    hostname: values.Host | None = setting(
        None,
        description="host name in greeting, Received and Authentication-Results; by default that of the machine",
        local=True,
    )
    outbound: OutboundSettings | None = setting(
        None, description="mail of own servers to the world; without it, all mail is inbound"
    )


ASKER_LISTEN = "`address:port` or `unix:/path` of a Unix socket to listen on, or a list of them"


class AskerSettings(Section):
    """A source for mail servers that ask for a verdict and deliver themselves."""

    listen: values.ListenAddresses
    reuse_port: bool = setting(False, description=f"{REUSE_PORT}. A Unix socket has one instance", local=True)
    socket_mode: values.SocketMode = setting(
        "660",
        description="mode of Unix sockets, in quotes; the mail server's user must be able to write to them",
        local=True,
    )
    allowed_hosts: list[values.Network] = setting(
        [], description="addresses and networks that may connect over TCP; this machine always may"
    )
    max_connections: values.Count = setting(200, description="maximum number of simultaneous connections")
    max_message_size: MessageBytes = setting(
        MAX_MESSAGE, description="maximum size of a message in bytes; larger ones are refused"
    )
    max_recipients: values.UpToThousand = setting(
        1_000, description="maximum number of recipients of a message; more are refused for now"
    )
    message_timeout: ClientTimeout = setting(
        600_000, description="milliseconds that a message may take from its first header field to its end"
    )
    hostname: values.Host | None = setting(
        None,
        description="host name in the fields that are added; by default that of `smtp`, or that of the machine",
        local=True,
    )

    @property
    def addresses(self) -> tuple[str, ...]:
        return (self.listen,) if isinstance(self.listen, str) else tuple(self.listen)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every address to listen on, without its port."""
        return tuple(each if each.startswith("unix:") else split_address(each, 0)[0] for each in self.addresses)


class MilterSettings(AskerSettings):
    """The milter source of a core, for mail servers that ask for a verdict and deliver themselves."""

    listen: values.ListenAddresses = setting("127.0.0.1:8894", description=ASKER_LISTEN, local=True)
    quarantine: Literal["gatepost", "queue"] = setting(
        "gatepost",
        description="who holds a message with the decision `quarantine`: Gatepost, and the mail server discards it; or"
        " the mail server, in its hold queue",
    )
    command_timeout: ClientTimeout = setting(
        3_600_000, description="milliseconds that a mail server may take for the next command"
    )


class DropInSettings(AskerSettings):
    """A source that speaks the protocol of another filter."""

    tenant: values.TenantUid | None = setting(
        None, description="tenant of mail whose recipients are in no tenant's domain, or are not named; none by default"
    )


class SpamdSettings(DropInSettings):
    """A source in the protocol of SpamAssassin's spamd, for spamc, Exim and other clients of it."""

    # spamd's own port, 783, can be bound by root alone.
    listen: values.ListenAddresses = setting("127.0.0.1:1783", description=ASKER_LISTEN, local=True)


class RspamdSettings(DropInSettings):
    """A source in the protocols of rspamd: HTTP with JSON (`/checkv2`), and the older one that Exim speaks."""

    listen: values.ListenAddresses = setting("127.0.0.1:11333", description=ASKER_LISTEN, local=True)
    held_as: Literal["add header", "reject"] = setting(
        "add header",
        description="rspamd's action for mail with the decision `quarantine`: mail servers put it into the junk folder,"
        " or refuse it",
    )


class Door(msgspec.Struct, frozen=True):
    """What listens: its name, the key that says where, hosts and a port, or the path of a Unix socket as its host; and
    the section, which says whether other instances may listen there as well."""

    name: str
    key: tuple[str | int, ...]
    hosts: tuple[str, ...]
    port: int = 0
    section: ListeningSection | AskerSettings | None = None


# The keys of sources for mail servers that deliver themselves.
ASKERS = ("milter", "spamd", "rspamd")


class ScanSourcesSettings(Section):
    """The sources of messages; a source that is not set is off."""

    rest_api: RestApiSettings | None = setting(
        None, description="HTTPS source for abby; also written `restApi {}`; off if not set"
    )
    smtp: SmtpSettings | None = setting(
        None, description="SMTP source; off if not set", form=values.FormGroup.SMTP_PORT
    )
    milter: MilterSettings | None = setting(None, description="milter source; off if not set")
    spamd: SpamdSettings | None = setting(None, description="source in the protocol of spamd; off if not set")
    rspamd: RspamdSettings | None = setting(None, description="source in the protocols of rspamd; off if not set")

    @property
    def askers(self) -> dict[str, AskerSettings]:
        """The sources that are on for mail servers that deliver themselves, by name."""
        return {name: each for name in ASKERS if (each := getattr(self, name)) is not None}

    @property
    def doors(self) -> Iterator[Door]:
        """Everything that listens for mail, by the names of the sources."""
        above = "scanSources"
        if rest := self.rest_api:
            yield Door("restApi", (above, "restApi", "port"), rest.hosts, rest.port, rest)
        if smtp := self.smtp:
            yield Door("smtp", (above, "smtp", "port"), smtp.hosts, smtp.port, smtp)
        if smtp and smtp.outbound and smtp.outbound.port:
            key = (above, "smtp", "outbound", "port")
            yield Door("smtp.outbound", key, smtp.hosts, smtp.outbound.port, smtp)
        for name, asker in self.askers.items():
            for index, address in enumerate(asker.addresses):
                at = (above, name, "listen") if isinstance(asker.listen, str) else (above, name, "listen", index)
                host, port = (address, 0) if address.startswith("unix:") else split_address(address, 0)
                yield Door(name, at, (host,), port, asker)

    @property
    def any_source(self) -> RestApiSettings | SmtpSettings | AskerSettings | None:
        """A source that is on; None if mail comes from nowhere."""
        return self.rest_api or self.smtp or next(iter(self.askers.values()), None)


class TlsSettings(Section):
    """A certificate of the operator."""

    certificate: values.FilePath = setting(description="PEM file with the certificate and its chain")
    key: values.FilePath = setting(description="PEM file with the private key")


class RecipientRuleSettings(Section):
    """Domains and tenants whose recipients are on the list `known-recipients`, that of the tenant or the global one."""

    domains: Annotated[list[values.RouteDomain], Field(max_length=MAX_NAMES)] = setting(
        [], label="Recipient domains", description="recipient domains; `*.example.com` is every domain below that one"
    )
    tenants: Annotated[list[values.TenantUid], Field(max_length=MAX_NAMES)] = setting(
        [], label="Tenants", description="tenants, by uid; a rule without domains and tenants is for all recipients"
    )
    tag_separator: Annotated[str, Field(max_length=1)] = setting(
        "+",
        label="Sign before a tag",
        description="sign before the tag of an address: `ann+shop` is known where `ann` is; empty for none",
    )


class RecipientVerificationSettings(Section):
    """Recipients that are not on a list are refused with 550 at RCPT; off by default."""

    rules: Annotated[list[RecipientRuleSettings], Field(max_length=200)] = setting(
        [],
        label="Rule",
        form=values.FormGroup.RECIPIENTS,
        description="whose recipients are listed; the first rule that fits counts, and without one the next hop answers"
        " RCPT",
    )
