"""Every key of both configuration files, with its default and its description.

The reference page is generated from here. Keys are written in camelCase in the files (`mainWorkerCount`) and as Python
names here (`main_worker_count`). Larger sections have modules of their own.

`reputation.zones` says which DNS zones are asked about a message, and what their answers mean. A zone answers with
addresses in 127.0.0.0/8 (RFC 5782 section 2.3). Either each address stands for one thing, or each bit of the last octet
does; `answers` says which, and what each one means for the message.
"""

import hashlib
import ipaddress
import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic.alias_generators import to_camel

from gatepost.policy.layers import OUTBOUND
from gatepost.questions import ReputationSubject
from gatepost.settings import values
from gatepost.settings.delivery import (
    ArcSettings,
    DeliverySettings,
    DigestSettings,
    DkimSettings,
    DomainReportSettings,
    RemediationSettings,
)
from gatepost.settings.events import EventsSettings
from gatepost.settings.feeds import MAX_FEEDS, FeedSettings
from gatepost.settings.scan_sources import (
    LISTEN,
    ConnectionSettings,
    ListeningSection,
    RecipientVerificationSettings,
    ScanSourcesSettings,
    TenantHosts,
    TenantMailboxes,
    TlsSettings,
)
from gatepost.settings.values import Section, require, setting

MAX_RULES = 500

RoleName: TypeAlias = Literal["administrator", "analyst", "auditor"]
ShortText = Annotated[str, Field(min_length=1, max_length=200)]
Minutes = Annotated[int, Field(ge=5, le=7 * 1440), values.IN_MINUTES]


class AccessRuleSettings(Section):
    """One claim of an id token, and what it opens."""

    claim: ShortText = setting(
        description="name of the claim, such as `groups`; `realm_access.roles` is `roles` inside of `realm_access`"
    )
    value: ShortText = setting(description="value that the claim must have, or that must be in its list")
    role: RoleName = setting(description="role of the user")
    tenant: values.TenantUid | None = setting(None, description="tenant of the user; by default all tenants")


class OpenidConnectSettings(Section):
    """The OpenID provider through which users sign in."""

    issuer: values.WebUrl = setting(description="issuer of the provider, exactly as it writes it in its id tokens")
    client_id: ShortText = setting(description="id of Gatepost at the provider")
    client_secret: values.Secret | None = setting(
        None, description="secret of Gatepost at the provider; not set for a public client, which PKCE alone protects"
    )
    access: Annotated[list[AccessRuleSettings], Field(min_length=1, max_length=MAX_RULES)] = setting(
        description="who gets in: the first rule that an id token meets; a user who meets none has no access"
    )
    label: ShortText | None = setting(
        None, description="name of the provider on the page for signing in; by default the host of `issuer`"
    )
    scopes: list[ShortText] = setting(
        ["openid", "profile", "email"], description="scopes that are asked for; `openid` has to be one of them"
    )
    name_claim: ShortText = setting("preferred_username", description="claim with the name of the user")
    max_age: Minutes | None = setting(
        None,
        description="minutes after which users have to prove themselves to the provider again; sessions end then too."
        " By default sessions end after 12 hours, as with passwords",
    )
    hosts: list[values.Host] = setting(
        [], description="further hosts of the provider; by default all its endpoints have to be on the host of `issuer`"
    )
    ca: values.FilePath | None = setting(
        None,
        description="PEM file to verify the certificate of the provider with; by default that of the system",
        local=True,
    )

    @property
    def provider_name(self) -> str:
        """The value of `label` that is in force."""
        return self.label or urlsplit(self.issuer).hostname or ""

    @model_validator(mode="after")
    def _check_scopes(self) -> "OpenidConnectSettings":
        if "openid" not in self.scopes:
            raise ValueError("must have openid among its scopes")
        return self


class SignInSettings(Section):
    """Signing in to the web interface."""

    passwords: bool = setting(
        True,
        label="Sign in with passwords",
        description="whether users sign in with a password; `false` leaves `openidConnect` and `emergencyAccount`",
    )
    emergency_account: Annotated[str, Field(min_length=1, max_length=100)] | None = setting(
        None,
        label="Emergency account",
        description="name of the one user whose password works although `passwords` is `false`",
    )
    second_factor: list[RoleName] = setting(
        [],
        label="Roles that need a second factor",
        description="roles whose users need a second factor; one who has none sets it up before anything else",
    )
    second_factor_tenants: Annotated[list[values.TenantUid], Field(max_length=MAX_RULES)] = setting(
        [],
        label="Tenants that need a second factor",
        description="tenants whose users need a second factor, whatever their role; users with access to all tenants"
        " are subject to `secondFactor` only",
    )
    openid_connect: OpenidConnectSettings | None = setting(
        None, description="OpenID provider through which users sign in; off if not set. It needs `publicUrl`"
    )

    @model_validator(mode="after")
    def _check_ways(self) -> "SignInSettings":
        if not self.passwords and not (self.openid_connect or self.emergency_account):
            raise ValueError("must leave a way to sign in: set openidConnect, or passwords to true")
        return self


MAX_ZONES = 30
KEY = "{key}"

Asks = Literal["ip", "domain", "hash"]
Subject = ReputationSubject
Means = Literal["listed", "dynamic", "phishing", "malware", "new", "allowed"]

# What a zone can be asked about, by what it is asked for; the first of each row are the default.
_SUBJECTS: dict[Asks, tuple[Subject, ...]] = {
    "ip": ("host", "link"),
    "domain": ("link", "sender"),
    "hash": ("file", "address"),
}
_DEFAULT_SUBJECTS: dict[Asks, tuple[Subject, ...]] = {"ip": ("host",), "domain": ("link", "sender"), "hash": ("file",)}
_MEANINGS: dict[Subject, frozenset[Means]] = {
    "host": frozenset({"listed", "dynamic", "allowed"}),
    "link": frozenset({"listed", "phishing", "malware", "new"}),
    "sender": frozenset({"listed", "phishing", "malware", "new"}),
    "address": frozenset({"listed"}),
    "file": frozenset({"listed", "malware"}),
}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}\Z")
_ZONE = re.compile(r"(?:(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?|\{key\})\.)+[a-z0-9-]{2,63}\Z")
_LABELS = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\Z")
_LISTINGS = ipaddress.IPv4Network("127.0.0.0/8")
# Answers that are errors by convention: a wrong query, a query over a public resolver, too many queries.
REFUSALS = ipaddress.IPv4Network("127.255.255.0/24")

CodeRange = tuple[int, int]


def parse_codes(text: str) -> CodeRange:
    """Return the first and the last address of `127.0.0.2` or `127.0.0.4-127.0.0.7` as numbers; raises `ValueError`."""
    first, dash, last = text.partition("-")
    try:
        low, high = (ipaddress.IPv4Address(part.strip()) for part in (first, last if dash else first))
    except ValueError:
        raise ValueError("must be an address like 127.0.0.2, or a range like 127.0.0.4-127.0.0.7") from None
    if low not in _LISTINGS or high not in _LISTINGS or low > high:
        raise ValueError("must lie in 127.0.0.0/8, the lower address first")
    if high >= REFUSALS[0] and low <= REFUSALS[-1]:
        raise ValueError("must not include 127.255.255.0/24: with these, zones refuse to answer")
    return int(low), int(high)


def _check_zone(text: str) -> str:
    normal = text.lower().rstrip(".")
    if len(normal) > 200 or not _ZONE.match(normal):
        raise ValueError("must be the name of a DNS zone, with {key} in the place of a private key")
    return normal


Codes = Annotated[str, require(parse_codes, "must be an address or a range of them")]
ZoneName = Annotated[str, require(_NAME.match, "must be lower-case letters, digits, dots, hyphens and underscores")]
QueryKey = Annotated[
    values.Secret, require(_LABELS.match, "must be one label of a domain name: letters, digits and hyphens")
]


class ZoneAnswerSettings(Section):
    """What one answer of a zone, or one bit of its answers, means."""

    codes: list[Codes] = setting([], description="answers, such as `127.0.0.2` or `127.0.0.4-127.0.0.7`")
    mask: Annotated[int, Field(ge=1, le=254)] | None = setting(
        None, description="instead of `codes`: the bits of the last octet, of which one must be set"
    )
    means: Means = setting(
        description="`listed`, or more precisely `dynamic` (a line that should not send mail itself), `phishing`,"
        " `malware`, `new` (registered lately), or `allowed`"
    )
    strength: Annotated[float, Field(gt=0, le=1)] = setting(1.0, description="part of the weight in policy that counts")
    text: Annotated[str, Field(max_length=200)] = setting("", description="what the ledger says of this answer")

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        if bool(self.codes) == (self.mask is not None):
            raise ValueError("must have either codes or mask")
        return self


class ZoneSettings(Section):
    """One zone."""

    name: ZoneName = setting(description="name of the zone in ledger, log and metrics")
    zone: Annotated[str, AfterValidator(_check_zone)] = setting(
        description="the zone; `{key}` in it is replaced by `queryKey`, which is never shown"
    )
    query_key: QueryKey | None = setting(None, description="private key of a subscription, as a rule a `${file:…}`")
    asks: Asks = setting(description="what the zone lists: `ip`, `domain` or `hash`")
    of: list[Subject] = setting(
        [],
        description="what is asked about: `host` (the sending host) and `link` for `ip`, `link` and `sender` for"
        " `domain`, `file` and `address` for `hash`; by default `host`, both, and `file`",
    )
    level: Literal["organisation", "host"] = setting(
        "organisation", description="whether a zone of domains is asked for the registered domain or the whole name"
    )
    hash: Literal["md5", "sha1", "sha256"] = setting("sha256", description="digest that a zone of hashes lists")
    encoding: Literal["hex", "base32"] = setting("base32", description="how the digest is written")
    refusals: list[Codes] = setting(
        [], description="answers with which the zone refuses queries, besides 127.255.255.0/24 which always does"
    )
    limit: Annotated[int, Field(ge=1, le=50)] = setting(10, description="maximum number of questions for a message")
    answers: Annotated[list[ZoneAnswerSettings], Field(min_length=1)] = setting(description="what each answer means")

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """What the zone is asked about."""
        return tuple(self.of) or _DEFAULT_SUBJECTS[self.asks]

    @model_validator(mode="after")
    def _check_agreement(self) -> Self:
        if (KEY in self.zone) != (self.query_key is not None):
            raise ValueError("must have a queryKey if, and only if, {key} stands in zone")
        if wrong := [subject for subject in self.of if subject not in _SUBJECTS[self.asks]]:
            raise ValueError(f"cannot ask about {wrong[0]} in a zone of {self.asks}")
        if self.asks == "hash" and self.hash == "sha256" and self.encoding == "hex":
            raise ValueError("cannot ask for sha256 in hex: a label of DNS has at most 63 characters; use base32")
        possible = frozenset[Means]().union(*(_MEANINGS[subject] for subject in self.subjects))
        for answer in self.answers:
            if answer.means not in possible:
                raise ValueError(f"has an answer that means {answer.means}, which {self.asks} cannot be")
        return self


class ReputationSettings(Section):
    """DNS zones that say what others know of hosts, domains, addresses and files."""

    zones: Annotated[list[ZoneSettings], Field(max_length=MAX_ZONES)] = setting(
        [], description="the zones; none by default"
    )

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [zone.name for zone in self.zones]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"has two zones named {twice[0]}")
        return self


Hours = Annotated[int, Field(ge=1, le=8_760), values.IN_HOURS]
LookBackDays = Annotated[int, Field(ge=0, le=365), values.IN_DAYS]


class ReportAddressSettings(Section):
    """An address to which people of a tenant forward messages."""

    address: values.MailAddress = setting(
        description="mail to this address is a report of the tenant of its domain; SMTP only"
    )
    says: Literal["unwanted", "wanted"] = setting(description="what a report says of the messages attached to it")


class LearningSettings(Section):
    """Models that reports on mail teach, for each tenant and for the deployment."""

    enabled: bool = setting(
        True,
        label="Learn from reports",
        description="whether learnt models take part, and pools are trained in the background",
    )
    interval: Hours = setting(
        24, label="Train again after", description="hours after which a pool with new reports is trained again"
    )
    retention: values.Days = setting(
        180, label="Forget reports after", description="days after which a report is forgotten"
    )
    look_back: LookBackDays = setting(
        7,
        label="Look back over delivered mail",
        description="days of delivered mail in which a new model looks for what it would have held; 0 for none",
    )
    report_addresses: Annotated[list[ReportAddressSettings], Field(max_length=1_000)] = setting(
        [], description="addresses to which people forward messages as attachments, to report them"
    )
    report_hosts: list[values.Network] = setting(
        [],
        description="addresses and networks of inside hosts from which reports are taken without proof; others must be"
        " authenticated as a domain of the tenant",
    )


class DnsSettings(Section):
    """Name servers."""

    nameservers: list[values.Nameserver] = setting(
        [], description="`address` or `address:port`; by default the name servers of the system", local=True
    )
    timeout: values.Milliseconds = setting(
        2000, label="Time for a DNS query", description="milliseconds that one query may take"
    )


class QuarantineSettings(Section):
    """Storage of held mail."""

    url: values.QuarantineUrl | None = setting(
        None, description="`file:`, `s3:`, `gs:` or `az:` URL; by default a folder in the data folder", local=True
    )
    retention: values.Days = setting(
        30, label="Keep held messages for", description="days after which held mail is deleted"
    )
    deleted_retention: values.Days = setting(
        7,
        label="Deleted messages can be restored for",
        description="days for which mail that was deleted on a page of the web interface can be restored",
    )
    html_view: bool = setting(
        True,
        description="whether the page of a held message can show its HTML as the reader would have seen it, written"
        " anew in a sealed process, without scripts, addresses and pictures from elsewhere",
    )
    max_size: values.Bytes = setting(
        20 << 30,
        label="Room for held messages",
        description="maximum size of all held mail; above it, SMTP answers 451 to mail that would be held",
    )


class HistorySettings(Section):
    """Results and ledgers of all messages."""

    retention: values.Days = setting(
        30, label="Keep results for", description="days after which results and ledgers are deleted"
    )
    headers: bool = setting(
        True,
        label="Keep header sections",
        description="whether the raw header section of each message is kept with its result, at most 16 KiB",
    )


class SenderHistorySettings(Section):
    """What guard remembers of delivered mail, per tenant: digests of senders and of link targets."""

    enabled: bool = setting(
        True, label="Remember senders", description="whether senders and sites are remembered and new ones are found"
    )
    retention: values.Days = setting(
        180,
        label="Forget senders after",
        description="days after which a sender or site that was not seen again is forgotten",
    )
    max_keys: values.Count = setting(
        1_000_000, description="most senders and sites that are remembered for one tenant; about 50 bytes each"
    )
    min_days: values.Days = setting(
        7,
        label="History before a sender is new",
        description="days of history that a tenant needs before anything is called new",
    )
    min_messages: values.Count = setting(
        200,
        label="Messages before a sender is new",
        description="delivered messages that a tenant needs before anything is called new",
    )


class YaraSettings(Section):
    """YARA rules of the operator."""

    folder: values.FolderPath = setting(description="folder with `.yar` files")


class ClamdSettings(Section):
    """An antivirus beside Gatepost."""

    address: values.ClamdAddress = setting(description="`host:port` or the path of a Unix socket", local=True)


class PolicySettings(Section):
    """Policy files of the operator."""

    file: values.FilePath | None = setting(
        None, description="TOML file that changes the shipped policy, for all tenants"
    )
    tenants: dict[values.TenantUid, values.FilePath] = setting(
        {}, description="tenant uid to a TOML file that changes the deployment's policy for the mail of that tenant"
    )
    outbound: values.FilePath | None = setting(
        None, description="TOML file that changes the deployment's policy for outbound mail, of all tenants"
    )

    @property
    def files(self) -> dict[str, str]:
        """Every file that is named: that of the deployment by "", others by their scope."""
        named = {"": self.file, **self.tenants, OUTBOUND: self.outbound}
        return {scope: file for scope, file in named.items() if file}


class StorageSettings(Section):
    """The database for lists, keys, results and ledgers."""

    url: values.StorageUrl = setting(
        "sqlite:gatepost.db", description="`sqlite:FILE` (relative to the data folder) or `postgresql://…`"
    )


class LogSettings(Section):
    """Level and format of the log."""

    level: Literal["debug", "info", "warning", "error"] = setting(
        "info", label="Log level", description="lowest level that is logged"
    )
    format: Literal["auto", "json", "human"] = setting("auto", description="`auto`: human in a terminal, else JSON")


class MetricsSettings(Section):
    """The address of `/metrics`."""

    listen: values.ListenAddress | None = setting(
        None,
        description="`address:port` for `/metrics`; by default the port of the service, for local clients only",
        local=True,
    )


def by_tenant(value: list[str] | dict[str, list[str]]) -> dict[str, list[str]]:
    """Return a setting that is a list or a map of tenants by tenant; what holds for all mail is under `*`."""
    return value if isinstance(value, dict) else {"*": value}


class GuardSettings(Section):
    """`guard/core/guard.yml`: the core."""

    old_names: ClassVar[Mapping[str, str]] = {"acquaintance": "senderHistory"}

    main_worker_count: values.Count = setting(
        20,
        label="Messages at once",
        form=values.FormGroup.THROTTLING,
        description="number of messages that the core processes at once; default of the two keys below. Raise it where"
        " messages wait for a slot while processors are idle, which `gatepost doctor` says",
    )
    max_guard_requests_in_processing: values.Count | None = setting(
        None,
        label="Refuse new ones from",
        form=values.FormGroup.THROTTLING,
        description="number of messages in processing at which further ones are refused; by default `mainWorkerCount`",
    )
    guard_request_throttle_threshold: values.Count | None = setting(
        None,
        label="Delay new ones from",
        form=values.FormGroup.THROTTLING,
        description="number of messages in processing from which new ones are delayed; by default `mainWorkerCount`",
    )
    max_throttle_delay: values.Milliseconds = setting(
        5000,
        label="Longest delay",
        form=values.FormGroup.THROTTLING,
        description="upper bound of the throttling delay; with n messages in processing, a new one starts after"
        " maxThrottleDelay × (n - threshold + 1) / (max - threshold + 1)",
    )
    worker_processes: values.Count = setting(
        default_factory=lambda: os.cpu_count() or 1, description="number of analysis processes", local=True
    )
    analysis_timeout: values.Milliseconds = setting(
        30_000,
        label="Time for a message",
        form=values.FormGroup.ANALYSIS,
        description="milliseconds that the analysis of one message may take",
    )
    stage_limit: values.Milliseconds = setting(
        5_000,
        label="Time for one stage",
        form=values.FormGroup.ANALYSIS,
        description="milliseconds that one stage of an analysis may take, by the clock",
    )
    message_cpu: values.Milliseconds = setting(
        1_000,
        label="CPU time for a message",
        form=values.FormGroup.ANALYSIS,
        description="milliseconds of CPU that all that is done about a message may take, and a larger one for each MiB;"
        " what was not done then is named in the ledger, and the message is `unscannable`",
    )
    worker_memory: values.Bytes = setting(
        1 << 30, description="maximum memory of one worker process in bytes", local=True
    )
    unsealed: bool = setting(
        False, description="start even if workers cannot be sealed off from files and network", local=True
    )
    scan_sources: ScanSourcesSettings = setting(ScanSourcesSettings(), description="sources of messages")
    delivery: DeliverySettings = setting(
        DeliverySettings(), description="next hops of delivered mail", form=values.FormGroup.OTHER_MAIL
    )
    recipient_verification: RecipientVerificationSettings = setting(
        RecipientVerificationSettings(), description="refusal of recipients that are not on a list; off by default"
    )
    tls: TlsSettings | None = setting(
        None,
        description="certificate for STARTTLS and for `restApi`; by default a self-signed one is generated, and"
        " STARTTLS shows that of abby in the same process",
        local=True,
    )
    dns: DnsSettings = setting(DnsSettings(), description="name servers", form=values.FormGroup.ANALYSIS)
    quarantine: QuarantineSettings = setting(
        QuarantineSettings(), description="held mail", form=values.FormGroup.KEEPING_MAIL
    )
    public_url: values.PublicUrl | None = setting(
        None,
        label="Address in links of mail",
        form=values.FormGroup.DIGESTS,
        description="address under which people reach the web interface, `https://host`; links in mail begin with it,"
        " and without it no digest is sent",
    )
    digests: DigestSettings = setting(
        DigestSettings(), description="daily mail to recipients about held mail", form=values.FormGroup.DIGESTS
    )
    history: HistorySettings = setting(
        HistorySettings(), description="results and ledgers", form=values.FormGroup.KEEPING_MAIL
    )
    sender_history: SenderHistorySettings = setting(
        SenderHistorySettings(),
        description="senders and link targets of delivered mail, remembered per tenant",
        form=values.FormGroup.LEARNING,
    )
    learning: LearningSettings = setting(
        LearningSettings(), description="models that reports on mail teach", form=values.FormGroup.LEARNING
    )
    domain_reports: DomainReportSettings = setting(
        DomainReportSettings(), description="DMARC reports to others about their domains"
    )
    yara: YaraSettings | None = setting(None, description="YARA rules of the operator; off if not set")
    clamd: ClamdSettings | None = setting(None, description="ClamAV; off if not set")
    reputation: ReputationSettings = setting(
        ReputationSettings(), description="DNS zones that are asked about hosts, domains, addresses and files"
    )
    dkim: DkimSettings = setting(DkimSettings(), description="DKIM signatures of mail that leaves; none without a key")
    arc: ArcSettings | None = setting(None, description="ARC sets on inbound mail; off if not set")
    tenants: dict[values.Domain, values.TenantUid] = setting({}, description="recipient domain to tenant uid")
    own_networks: TenantHosts = setting(
        [],
        description="addresses and networks from which own people and own servers send: what they send is not asked who"
        " it is from. A list counts for all mail; a map of tenant uid to addresses for the mail of each tenant, with"
        " `*` for all",
        form=values.FormGroup.OTHER_MAIL,
    )
    report_mailboxes: TenantMailboxes = setting(
        [],
        description="addresses of people who take reports: mail to them alone is delivered unless it is malware, and"
        " messages attached to it are reported as unwanted. A list counts for all mail; a map of tenant uid to"
        " addresses for the mail of each tenant, with `*` for all",
    )
    plugins: values.PluginNames = setting(
        [], description="names of installed packages whose checks run besides the shipped ones; none by default"
    )
    policy: PolicySettings = setting(PolicySettings(), description="changes of the shipped policy")
    storage: StorageSettings = setting(StorageSettings(), description="the database", local=True)
    metrics: MetricsSettings = setting(
        MetricsSettings(), description="address of `/metrics`; needed if there is no `restApi`, whose port it would use"
    )
    events: EventsSettings = setting(
        EventsSettings(), description="event stream for a SIEM and for people; off by default"
    )
    log: LogSettings = setting(LogSettings(), description="logging", form=values.FormGroup.ANALYSIS)

    @property
    def maximum(self) -> int:
        """The value of `maxGuardRequestsInProcessing` that is in force."""
        return self.max_guard_requests_in_processing or self.main_worker_count

    @property
    def threshold(self) -> int:
        """The value of `guardRequestThrottleThreshold` that is in force."""
        return self.guard_request_throttle_threshold or self.main_worker_count


class ListenSettings(ListeningSection):
    """An address and a port."""

    host: values.Hosts = setting("0.0.0.0", description=LISTEN)  # noqa: S104  the interface's default
    port: values.Port = setting(9081, description="port to listen on")


def _tls_form(value: Any) -> str:
    """Return which of the two forms a value of `tls` has, so that only the faults of that form are reported."""
    return "[files]" if isinstance(value, dict | TlsSettings) else "[off]"


TlsSetting = Annotated[
    Annotated[TlsSettings, Tag("[files]")] | Annotated[Literal["off"], Tag("[off]")], Discriminator(_tls_form)
]


class CoreSettings(Section):
    """The cores that abby distributes messages to."""

    hosts: Annotated[list[values.CoreHost], Field(min_length=1)] = setting(
        description="base URLs of the cores, `https://host:9785`"
    )
    long_request_timeout: values.Milliseconds = setting(
        3_600_000,
        description="milliseconds that a `submitEmail` call may take, from waiting for a free slot to the result; then"
        " the call fails with 504 `analysis_timeout`",
    )
    secret: values.Secret | None = setting(
        None,
        description="secret of the cores' `scanSources.restApi`; by default the one that `gatepost serve` generates",
    )
    ca: values.FilePath | None = setting(
        None,
        description="PEM file to verify the certificates of the cores with; by default that of the data folder",
        local=True,
    )


class ServiceProvidersSettings(Section):
    """The services behind abby. Names other than `core` are accepted and not used."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, alias_generator=to_camel, populate_by_name=True)

    core: CoreSettings = setting(description="the cores")


TokenHash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
TokenPermission: TypeAlias = Literal[
    "messages.search", "messages.read", "messages.release", "messages.releaseDangerous", "messages.delete",
    "messages.report",
]  # fmt: skip


class StaticApiTokenSettings(Section):
    """One user of the Email Scanning API."""

    name: Annotated[str, Field(min_length=1)] = setting(description="name of the user")
    token: values.Secret | None = setting(None, description="the bearer token; 64 hex digits are recommended")
    token_hash: TokenHash | None = setting(
        None, description="SHA-256 of the token in hex, in place of `token`; the web interface writes this"
    )
    made: Annotated[str, Field(max_length=40)] | None = setting(None, description="when it was made, for people")
    permissions: list[TokenPermission] = setting(
        [],
        description="permissions besides submitting mail: `messages.search`, `messages.read`, `messages.release`,"
        " `messages.releaseDangerous` (with it, malware and phishing too),"
        " `messages.delete` and `messages.report`, each for the mail of `tenant`",
    )
    tenant: values.TenantUid | None = setting(
        None,
        description="uid of the one tenant that the token is for, as recommended wherever a program serves one tenant:"
        " it then submits, sees and changes mail of that tenant only; by default all tenants",
    )

    @property
    def digest(self) -> bytes:
        """The SHA-256 of the token."""
        if self.token_hash:
            return bytes.fromhex(self.token_hash)
        return hashlib.sha256((self.token or "").encode("utf-8")).digest()

    @model_validator(mode="after")
    def _check_token(self) -> "StaticApiTokenSettings":
        if (self.token is None) == (self.token_hash is None):
            raise ValueError("must have either a token or a tokenHash")
        return self


class ListSettings(Section):
    """What happens besides when a list is changed."""

    look_back: LookBackDays = setting(
        0,
        label="Look back for new list entries",
        description="days of delivered mail in which entries that come through the List API are looked for, in the"
        " background; 0 for none",
    )


class AbbySettings(Section):
    """`abby/abby/abby.yml`: the API service."""

    listen: ListenSettings = setting(ListenSettings(), description="address and port to listen on", local=True)
    connections: ConnectionSettings = setting(ConnectionSettings(), description="limits on connections")
    tls: TlsSetting | None = setting(
        None, description="certificate and key, or `off`; by default a self-signed certificate", local=True
    )
    service_providers: ServiceProvidersSettings = setting(description="services behind abby")
    static_api_tokens: list[StaticApiTokenSettings] = setting([], description="users of the Email Scanning API")
    public_url: values.PublicUrl | None = setting(
        None,
        label="Address of these pages",
        form=values.FormGroup.SIGNING_IN,
        description="address at which people reach the web interface, such as `https://mail.example.com`;"
        " security keys are made for its host",
    )
    sign_in: SignInSettings = setting(
        SignInSettings(), description="signing in to the web interface", form=values.FormGroup.SIGNING_IN
    )
    feeds: Annotated[list[FeedSettings], Field(max_length=MAX_FEEDS)] = setting(
        [], description="lists that are filled from elsewhere; none by default"
    )
    lists: ListSettings = setting(
        ListSettings(), description="what happens besides when a list is changed", form=values.FormGroup.LEARNING
    )
    remediation: RemediationSettings | None = setting(
        None, description="taking delivered mail out of mailboxes; off if not set"
    )
    metrics: MetricsSettings = setting(MetricsSettings(), description="address of `/metrics`")
    events: EventsSettings = setting(
        EventsSettings(), description="as in `guard.yml`; `gatepost serve` uses those of `guard.yml`"
    )
    plugins: values.PluginNames = setting(
        [], description="as in `guard.yml`, for titles and dry runs; `gatepost serve` uses those of `guard.yml`"
    )
    policy: PolicySettings = setting(
        PolicySettings(), description="as in `guard.yml`, for dry runs; `gatepost serve` uses that of `guard.yml`"
    )
    storage: StorageSettings = setting(StorageSettings(), description="the database", local=True)
    log: LogSettings = setting(LogSettings(), description="logging", form=values.FormGroup.ANALYSIS)
