"""Faults that no single key shows: keys, files and machines that contradict each other."""

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from gatepost.plugins import find_faults
from gatepost.settings.delivery import NextHops, list_hops
from gatepost.settings.document import Key
from gatepost.settings.event_keys import EventsSettings
from gatepost.settings.keys import AbbySettings, GuardSettings, PolicySettings
from gatepost.settings.values import hide_credentials, split_address

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ANY = frozenset({"0.0.0.0", "::"})  # noqa: S104  compared, not bound

Disagreement = tuple[Key, str]


def host_and_port(url: str) -> tuple[str, int]:
    """Return the host and port of a core's base URL."""
    parts = urlsplit(url)
    return (parts.hostname or "").lower(), parts.port or 443


def is_this_machine(host: str) -> bool:
    """Return whether a host name or address is that of this machine; DNS is not asked."""
    if host in LOOPBACK or host.startswith("127.") or host == socket.gethostname().lower():
        return True
    return any(_is_own_address(family, host) for family in (socket.AF_INET, socket.AF_INET6))


def _is_own_address(family: socket.AddressFamily, host: str) -> bool:
    """Try to bind a socket: the kernel allows that only for an address of this machine."""
    try:
        address = socket.inet_ntop(family, socket.inet_pton(family, host))
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def leads_to(url: str, guard: GuardSettings) -> bool:
    """Return whether a core's base URL is the `restApi` source of this guard."""
    source = guard.scan_sources.rest_api
    host, port = host_and_port(url)
    if source is None or port != source.port:
        return False
    return any(_is_reached(host, listening.lower()) for listening in source.hosts)


def is_own_core(url: str, guard: GuardSettings) -> bool:
    """Return whether a core's base URL means this guard. A guard without `restApi` listens nowhere, so that an address
    on this machine can only mean it."""
    if guard.scan_sources.rest_api is None:
        return is_this_machine(host_and_port(url)[0])
    return leads_to(url, guard)


def _is_reached(host: str, listening: str) -> bool:
    return host == listening or ((listening in LOOPBACK | ANY) and is_this_machine(host))


def find_guard_faults(guard: GuardSettings) -> Iterator[Disagreement]:
    """Yield faults across the keys of `guard.yml`."""
    yield from _find_event_faults(guard.events, has_next_hop=guard.delivery.has_next_hop)
    yield from _find_delivery_faults(guard)
    rest, smtp = guard.scan_sources.rest_api, guard.scan_sources.smtp
    if rest and smtp and rest.port == smtp.port and _overlap(rest.hosts, smtp.hosts):
        yield ("scanSources", "smtp", "port"), "is the port of scanSources.restApi as well"
    yield from _find_milter_faults(guard)
    yield from _find_outbound_faults(guard)
    yield from _find_signing_faults(guard)
    if guard.stage_limit > guard.analysis_timeout:
        yield ("stageLimit",), f"is more than analysisTimeout ({guard.analysis_timeout}), so it would never apply"
    if guard.fronts > guard.worker_processes:
        yield ("frontProcesses",), f"is more than workerProcesses ({guard.worker_processes}): each needs a worker"
    yield from _find_plugin_faults(guard.plugins)
    if guard.yara:
        from gatepost.files.yara import find_rule_faults

        yield from ((("yara", "folder"), fault) for fault in find_rule_faults(Path(guard.yara.folder)))


def _find_milter_faults(guard: GuardSettings) -> Iterator[Disagreement]:
    """Yield addresses of the milter source that another source has, or that stand there twice."""
    milter, rest, smtp = guard.scan_sources.milter, guard.scan_sources.rest_api, guard.scan_sources.smtp
    others = [(name, each) for name, each in (("restApi", rest), ("smtp", smtp)) if each]
    for index, address in enumerate(milter.addresses if milter else ()):
        key: Key = ("scanSources", "milter", "listen")
        if milter and not isinstance(milter.listen, str):
            key = (*key, index)
            if address in milter.listen[:index]:
                yield key, f"names {address} twice"
        if address.startswith("unix:"):
            continue
        host, port = split_address(address, 0)
        for name, source in others:
            if port == source.port and _overlap((host,), source.hosts):
                yield key, f"has the port of scanSources.{name}"


def find_abby_faults(abby: AbbySettings) -> Iterator[Disagreement]:
    """Yield faults across the keys of `abby.yml`."""
    yield from _find_event_faults(abby.events, has_next_hop=False)
    yield from _find_plugin_faults(abby.plugins)
    yield from _find_repeated_tokens(abby)
    yield from _find_repeated_feeds(abby)
    if abby.sign_in.openid_connect and abby.public_url is None:
        yield ("signIn", "openidConnect"), "needs publicUrl, the address that the provider sends users back to"
    core = abby.service_providers.core
    at = ("serviceProviders", "core")
    away = [(index, url) for index, url in enumerate(core.hosts) if not is_this_machine(host_and_port(url)[0])]
    if away and abby.storage.url.startswith("sqlite:"):
        yield ("storage", "url"), _describe_sqlite_fault(away[0][1])
    if away and core.secret is None:
        yield at, f"needs a secret, the same as scanSources.restApi.secret on {away[0][1]}"
    if len(set(map(host_and_port, core.hosts))) < len(core.hosts):
        yield (*at, "hosts"), "names the same core twice"


def _find_plugin_faults(stated: Sequence[str]) -> Iterator[Disagreement]:
    """Yield what is wrong with the declarations of plug-ins; their code is not imported here."""
    return ((("plugins", place), sentence) for place, sentence in find_faults(stated))


def _find_delivery_faults(guard: GuardSettings) -> Iterator[Disagreement]:
    delivery, at = guard.delivery, ("delivery", "routes")
    if (delivery.certificate is None) != (delivery.key is None):
        missing = "key" if delivery.key is None else "certificate"
        yield ("delivery", "certificate" if missing == "key" else "key"), f"needs delivery.{missing} as well"
    yield from _find_circles(guard, ("delivery", "nextHop"), delivery.next_hop)
    seen: dict[str, int] = {}
    for index, route in enumerate(delivery.routes):
        yield from _find_circles(guard, (*at, index, "nextHop"), route.next_hop)
        if not route.domains and not route.tenants:
            yield (*at, index), "needs domains or tenants: no mail would take it"
        for key, names in (("domains", route.domains), ("tenants", route.tenants)):
            for name in names:
                if seen.setdefault(name, index) != index:
                    yield (*at, index, key), f"names {name}, whose mail takes the route before"


def _find_outbound_faults(guard: GuardSettings) -> Iterator[Disagreement]:
    """Yield faults of the outbound direction: nobody would use it, or its port has another use."""
    rest, smtp = guard.scan_sources.rest_api, guard.scan_sources.smtp
    outbound = smtp.outbound if smtp else None
    if smtp is None or outbound is None:
        return
    at = ("scanSources", "smtp", "outbound")
    if not outbound.hosts and outbound.port is None:
        yield at, "needs hosts or port: no mail would be outbound"
    if outbound.port == smtp.port:
        yield (*at, "port"), "is the port of scanSources.smtp as well"
    if rest and outbound.port == rest.port and _overlap(rest.hosts, smtp.hosts):
        yield (*at, "port"), "is the port of scanSources.restApi as well"
    yield from _find_circles(guard, (*at, "nextHop"), outbound.next_hop)


def _find_signing_faults(guard: GuardSettings) -> Iterator[Disagreement]:
    """Yield two keys under one name. Whether a key can be read is seen at the start, by the user of the service."""
    seen: dict[tuple[str, str], int] = {}
    for index, key in enumerate(guard.dkim.keys):
        if seen.setdefault((key.domain, key.selector), index) != index:
            yield ("dkim", "keys", index), f"has domain and selector of the key before: {key.selector}, {key.domain}"


def _find_circles(guard: GuardSettings, key: Key, next_hop: NextHops | None) -> Iterator[Disagreement]:
    """Yield next hops that are the SMTP source of this guard itself."""
    source = guard.scan_sources.smtp
    for url in list_hops(next_hop)[0] if next_hop and source else ():
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port or (24 if parts.scheme == "lmtp" else 25)
        ports = (source.port, source.outbound.port if source.outbound else None) if source else ()
        if source and host and port in ports and any(_is_reached(host, each.lower()) for each in source.hosts):
            yield key, f"names {url}, which is scanSources.smtp of this guard: mail would go in circles"


def _find_event_faults(events: EventsSettings, *, has_next_hop: bool) -> Iterator[Disagreement]:
    alerts = events.alerts
    if alerts and not alerts.mail and not alerts.webhook:
        yield ("events", "alerts"), "needs mail or webhook: nobody would get the alerts"
    if alerts and alerts.mail and not alerts.mail.server and not has_next_hop:
        yield ("events", "alerts", "mail"), "needs a server, since there is no delivery.nextHop in this file"
    urls = [webhook.url for webhook in events.webhooks]
    if len(set(urls)) < len(urls):
        yield ("events", "webhooks"), "names the same url twice"
    if events.syslog and events.syslog.ca and not events.syslog.address.startswith("tls:"):
        yield ("events", "syslog", "ca"), "is for an address that starts with tls://"


def _describe_sqlite_fault(url: str) -> str:
    need = "abby and guard on different hosts need PostgreSQL"
    return f"is SQLite, a file on one machine, but {url} is another one: {need}"


def _find_repeated_tokens(abby: AbbySettings) -> Iterator[Disagreement]:
    seen: dict[bytes, str] = {}
    names: set[str] = set()
    for index, entry in enumerate(abby.static_api_tokens):
        if entry.name in names:
            yield (
                ("staticApiTokens", index, "name"),
                "is the name of another token as well; logs could not tell them apart",
            )
        names.add(entry.name)
        if entry.digest in seen:
            yield ("staticApiTokens", index, "token"), f"is the token of {seen[entry.digest]} as well"
        seen.setdefault(entry.digest, entry.name)


def _find_repeated_feeds(abby: AbbySettings) -> Iterator[Disagreement]:
    names = [feed.name for feed in abby.feeds]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield ("feeds", index, "name"), "is the name of another feed as well; their entries could not be told apart"


def find_shared_faults(guard: GuardSettings, abby: AbbySettings) -> Iterator[Disagreement]:
    """Yield faults of `abby.yml` against the `guard.yml` beside it, if that guard is one of its cores."""
    core, source = abby.service_providers.core, guard.scan_sources.rest_api
    if not any(leads_to(url, guard) for url in core.hosts) or source is None:
        return
    if guard.storage.url != abby.storage.url and "sqlite:" in (guard.storage.url[:7], abby.storage.url[:7]):
        yield (
            ("storage", "url"),
            f"differs from storage.url in guard.yml, {hide_credentials(guard.storage.url)}: the two share one database",
        )
    if source.secret != core.secret and (source.secret is not None or len(core.hosts) == 1):
        yield ("serviceProviders", "core", "secret"), "differs from scanSources.restApi.secret in guard.yml"
    if abby.policy != PolicySettings() and _resolve_files(abby.policy) != _resolve_files(guard.policy):
        yield ("policy",), "differs from policy in guard.yml: leave it out to use that one"
    if abby.plugins and abby.plugins != guard.plugins:
        yield ("plugins",), "differs from plugins in guard.yml: leave it out to use those"
    if abby.events != EventsSettings() and abby.events != guard.events:
        yield ("events",), "differs from events in guard.yml: leave it out to use those"
    if abby.listen.port and abby.listen.port == source.port and _overlap(abby.listen.hosts, source.hosts):
        yield ("listen", "port"), "is the port of scanSources.restApi in guard.yml as well"


def _resolve_files(policy: PolicySettings) -> dict[str, Path]:
    """Return the absolute paths of policy files, which the two files may write differently."""
    return {scope: Path(file).resolve() for scope, file in policy.files.items()}


def _overlap(some: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Return whether two services would listen on the same address."""
    return bool(set(some) & set(others) or ANY & set(some) or ANY & set(others))
