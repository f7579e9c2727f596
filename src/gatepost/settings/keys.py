"""Every key of both configuration files, with its default and its meaning; the reference page is generated from here.

In the files keys are written in camelCase (`mainWorkerCount`), here as Python names (`main_worker_count`).
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag
from pydantic.alias_generators import to_camel

from gatepost.settings.values import (
    Bytes,
    CoreHost,
    Count,
    Days,
    Domain,
    FilePath,
    FolderPath,
    Host,
    ListenAddress,
    Milliseconds,
    Nameserver,
    Network,
    NextHop,
    Port,
    QuarantineUrl,
    Secret,
    StorageUrl,
    TenantUid,
)


class Section(BaseModel):
    """Strict: no coercion, no unknown keys, no changes after reading.

    `old_names` maps keys that a file may still use to the keys that replaced them.
    """

    old_names: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel, populate_by_name=True)


class RestApi(Section):
    """The HTTPS scan source of a core; only abby gets in."""

    host: Host = Field("127.0.0.1", description="address to listen on")
    port: Port = Field(9785, description="port to listen on")
    secret: Secret | None = Field(None, description="shared with abby; `gatepost serve` makes one where it is absent")
    keep: Literal["none", "held"] = Field("none", description="`held` keeps the raw mail of REST scans that are held")


class Smtp(Section):
    """The SMTP scan source of a core."""

    host: Host = Field("127.0.0.1", description="address to listen on")
    port: Port = Field(10025, description="port to listen on")
    after_queue: bool = Field(False, description="behind a queue that would bounce: `bounce` becomes `quarantine`")
    xclient_hosts: list[Network] = Field(
        [], description="addresses and networks whose XCLIENT and XFORWARD are believed"
    )
    tls: Literal["off", "offered", "required"] = Field("offered", description="STARTTLS for clients")
    max_connections: Count = Field(200, description="connections at once")
    hostname: Host | None = Field(
        None, description="our name in greeting, Received and Authentication-Results; the machine's if not set"
    )


class ScanSources(Section):
    """Where messages come from; a source that is not named is off."""

    rest_api: RestApi | None = Field(None, description="the Email Scanning API's way in; also written `restApi {}`")
    smtp: Smtp | None = Field(None, description="SMTP intake")


class Delivery(Section):
    """Where mail goes on to."""

    next_hop: NextHop | None = Field(
        None, description="`smtp://host:port`; without one, `deliver` over SMTP answers 451"
    )
    tls: Literal["off", "opportunistic", "required", "verified"] = Field("opportunistic", description="TLS to it")
    timeout: Milliseconds = Field(
        60_000, description="how long it may take for one answer, in milliseconds; five times as long for the last"
    )


class Dns(Section):
    """Name servers."""

    nameservers: list[Nameserver] = Field(
        [], description="`address` or `address:port`; the system's where none is named"
    )
    timeout: Milliseconds = Field(2000, description="how long one question may take, in milliseconds")


class Quarantine(Section):
    """Where held mail lies."""

    url: QuarantineUrl | None = Field(
        None, description="`file:`, `s3:`, `gs:` or `az:` address; a part of the data folder if none"
    )
    retention: Days = Field(30, description="days that held mail is kept")
    max_size: Bytes = Field(
        20 << 30, description="bytes of held mail at which no more is taken: over SMTP the answer is then 451"
    )


class History(Section):
    """What is kept of every message."""

    retention: Days = Field(30, description="days that results and ledgers are kept")


class SenderHistory(Section):
    """What guard remembers of delivered mail, per tenant: digests of senders and of link targets."""

    enabled: bool = Field(True, description="whether senders and sites are remembered and new ones are found")
    retention: Days = Field(180, description="days after which a sender or site that was not seen again is forgotten")
    max_keys: Count = Field(
        1_000_000, description="most senders and sites that are remembered for one tenant; about 50 bytes each"
    )
    min_days: Days = Field(7, description="days of history that a tenant needs before anything is called new")
    min_messages: Count = Field(200, description="delivered messages that a tenant needs before anything is called new")


class Yara(Section):
    """Rules of the operator."""

    folder: FolderPath = Field(description="folder with `.yar` files")


class Clamd(Section):
    """An antivirus beside Gatepost."""

    address: str = Field(description="`host:port` or the path of a socket")


class Policy(Section):
    """What an operator changes of the shipped policy."""

    file: FilePath | None = Field(None, description="TOML file laid over the shipped policy, for the whole deployment")
    tenants: dict[TenantUid, FilePath] = Field(
        {}, description="tenant uid to a TOML file that is laid over the deployment's policy for that tenant's mail"
    )


class Storage(Section):
    """Where lists, keys, results and ledgers are kept."""

    url: StorageUrl = Field(
        "sqlite:gatepost.db", description="`sqlite:FILE` (relative to the data folder) or `postgresql://…`"
    )


class Log(Section):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="the least that is logged")
    format: Literal["auto", "json", "human"] = Field("auto", description="`auto`: human in a terminal, else JSON")


class Metrics(Section):
    """Where `/metrics` answers."""

    listen: ListenAddress | None = Field(
        None, description="`address:port` of its own; else the service's port, loopback only"
    )


class Guard(Section):
    """`guard/core/guard.yml`: the core."""

    old_names = {"acquaintance": "senderHistory"}

    main_worker_count: Count = Field(20, description="messages in analysis at once that the core is sized for")
    max_guard_requests_in_processing: Count | None = Field(
        None, description="messages in processing at which further ones are refused; `mainWorkerCount` if not set"
    )
    guard_request_throttle_threshold: Count | None = Field(
        None, description="messages in processing from which new ones are delayed; `mainWorkerCount` if not set"
    )
    max_throttle_delay: Milliseconds = Field(5000, description="delay of the last message before the maximum")
    worker_processes: Count = Field(
        default_factory=lambda: os.cpu_count() or 1, description="analysis processes; as many as the machine has cores"
    )
    analysis_timeout: Milliseconds = Field(30_000, description="the most that one message's analysis may take")
    stage_limit: Milliseconds = Field(5_000, description="the most that one stage of it may take")
    worker_memory: Bytes = Field(1 << 30, description="bytes that one worker may hold")
    unsealed: bool = Field(False, description="start even where workers cannot be sealed off from files and network")
    scan_sources: ScanSources = Field(ScanSources(), description="where messages come from")
    delivery: Delivery = Field(Delivery(), description="where mail goes on to")
    dns: Dns = Field(Dns(), description="name servers")
    quarantine: Quarantine = Field(Quarantine(), description="held mail")
    history: History = Field(History(), description="results and ledgers")
    sender_history: SenderHistory = Field(
        SenderHistory(), description="senders and link targets of delivered mail, remembered per tenant"
    )
    yara: Yara | None = Field(None, description="the operator's YARA rules; off if not set")
    clamd: Clamd | None = Field(None, description="ClamAV; off if not set")
    tenants: dict[Domain, TenantUid] = Field({}, description="recipient domain to tenant uid")
    policy: Policy = Field(Policy(), description="what differs from the shipped policy")
    storage: Storage = Field(Storage(), description="the database")
    metrics: Metrics = Field(
        Metrics(), description="where `/metrics` answers; without `restApi` there is no other port"
    )
    log: Log = Field(Log(), description="logging")

    @property
    def maximum(self) -> int:
        """`maxGuardRequestsInProcessing` as it holds."""
        return self.max_guard_requests_in_processing or self.main_worker_count

    @property
    def threshold(self) -> int:
        """`guardRequestThrottleThreshold` as it holds."""
        return self.guard_request_throttle_threshold or self.main_worker_count


class Listen(Section):
    """An address and a port."""

    host: Host = Field("0.0.0.0", description="address to listen on")  # noqa: S104  the interface's default
    port: Port = Field(9081, description="port to listen on")


class Tls(Section):
    """A certificate of the operator's."""

    certificate: FilePath = Field(description="PEM file with the certificate and its chain")
    key: FilePath = Field(description="PEM file with the private key")


def _tls_form(value: Any) -> str:
    """Which of the two forms a value of `tls` is meant as, so that only that one's faults are reported."""
    return "[off]" if isinstance(value, str) else "[files]"


TlsSetting = Annotated[
    Annotated[Tls, Tag("[files]")] | Annotated[Literal["off"], Tag("[off]")],
    Discriminator(_tls_form),
]


class Core(Section):
    """The cores that abby spreads work over."""

    hosts: Annotated[list[CoreHost], Field(min_length=1)] = Field(description="base addresses, `https://host:9785`")
    long_request_timeout: Milliseconds = Field(3_600_000, description="the most that a scan may wait and run")
    secret: Secret | None = Field(
        None, description="shared with the cores; `gatepost serve` makes one where it is absent"
    )
    ca: FilePath | None = Field(None, description="PEM file that the cores' certificates are verified with")


class ServiceProviders(Section):
    """The services behind abby. Names other than `core` are accepted and not used."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, alias_generator=to_camel, populate_by_name=True)

    core: Core = Field(description="the cores")


class StaticApiToken(Section):
    """One user of the Email Scanning API."""

    name: Annotated[str, Field(min_length=1)] = Field(description="who uses it")
    token: Secret = Field(description="the secret; 64 hex digits are recommended")
    permissions: list[Literal["messages.read", "messages.release"]] = Field([], description="what it may do besides")


class Abby(Section):
    """`abby/abby/abby.yml`: the API service."""

    listen: Listen = Field(Listen(), description="where it listens")
    tls: TlsSetting | None = Field(None, description="a certificate, or `off`; self-signed if not set")
    service_providers: ServiceProviders = Field(description="the services behind it")
    static_api_tokens: list[StaticApiToken] = Field([], description="users of the Email Scanning API")
    metrics: Metrics = Field(Metrics(), description="where `/metrics` answers")
    policy: Policy = Field(
        Policy(), description="as in `guard.yml`, for dry runs; under `gatepost serve` that of `guard.yml` holds"
    )
    storage: Storage = Field(Storage(), description="the database")
    log: Log = Field(Log(), description="logging")
