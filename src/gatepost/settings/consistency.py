"""What no single key shows: settings that contradict each other, files that cannot be used, and what is unwise.

A contradiction between keys, files and machines is a fault, and nothing starts on it. So is a certificate or key that
cannot be loaded: a service that reads it only when it starts would refuse to start at the worst moment. An expired
certificate is a warning: clients will refuse it, but everything else works. So are weak or missing tokens and a gateway
that cannot deliver: `gatepost config check`, `gatepost doctor` and every start name them, and nothing is refused.
"""

import re
import socket
import ssl
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from gatepost.plugins import find_faults as find_plugin_faults
from gatepost.process.hiding import hide
from gatepost.settings.delivery import HopSettings, NextHops, list_hops
from gatepost.settings.document import Key
from gatepost.settings.events import EventsSettings
from gatepost.settings.keys import AbbySettings, GuardSettings, PolicySettings
from gatepost.settings.scan_sources import ASKERS, Door, TlsSettings

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ANY = frozenset({"0.0.0.0", "::"})  # noqa: S104  compared, not bound

# A key and the rest of a sentence that begins with it.
Disagreement = tuple[Key, str]


def host_and_port(url: str) -> tuple[str, int]:
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


def find_faults(settings: GuardSettings | AbbySettings) -> Iterator[Disagreement]:
    """Yield faults across the keys of one file."""
    yield from ((("plugins", place), sentence) for place, sentence in find_plugin_faults(settings.plugins))
    has_next_hop = isinstance(settings, GuardSettings) and settings.delivery.has_next_hop
    yield from _find_event_faults(settings.events, has_next_hop=has_next_hop)
    yield from _find_guard_faults(settings) if isinstance(settings, GuardSettings) else _find_abby_faults(settings)


def _find_guard_faults(guard: GuardSettings) -> Iterator[Disagreement]:
    yield from _find_delivery_faults(guard)
    yield from _find_recipient_faults(guard)
    yield from _find_shared_addresses(list(guard.scan_sources.doors))
    yield from _find_outbound_faults(guard)
    yield from _find_signing_faults(guard)
    if guard.stage_limit > guard.analysis_timeout:
        yield ("stageLimit",), f"is more than analysisTimeout ({guard.analysis_timeout}), so it would never apply"
    if guard.yara:
        from gatepost.files.yara import find_rule_faults

        yield from ((("yara", "folder"), fault) for fault in find_rule_faults(Path(guard.yara.folder)))


def _collides(door: Door, hosts: tuple[str, ...], port: int) -> bool:
    """Would another service that listens there get in the way?"""
    return port == door.port and (_overlap(hosts, door.hosts) if port else hosts == door.hosts)


def _find_shared_addresses(doors: Sequence[Door]) -> Iterator[Disagreement]:
    """Yield addresses that a source before listens on already."""
    for index, each in enumerate(doors):
        what = "port" if each.port else "socket"
        for other in doors[:index]:
            if other.name != each.name and _collides(other, each.hosts, each.port):
                yield each.key, f"is the {what} of scanSources.{other.name} as well"
            elif other.name == each.name and (other.hosts, other.port) == (each.hosts, each.port):
                yield each.key, f"names this {what} twice"


def _find_repeats(values: Iterable[Hashable]) -> Iterator[tuple[int, int]]:
    """Yield the place of each value that was there before, and the place of the first one."""
    first: dict[Hashable, int] = {}
    for index, value in enumerate(values):
        if first.setdefault(value, index) != index:
            yield index, first[value]


def _find_abby_faults(abby: AbbySettings) -> Iterator[Disagreement]:
    for index, _ in _find_repeats(feed.name for feed in abby.feeds):
        yield ("feeds", index, "name"), "is the name of another feed as well; their entries could not be told apart"
    tokens = abby.static_api_tokens
    for index, _ in _find_repeats(entry.name for entry in tokens):
        yield ("staticApiTokens", index, "name"), "is the name of another token as well; logs could not tell them apart"
    for index, first in _find_repeats(entry.digest for entry in tokens):
        yield ("staticApiTokens", index, "token"), f"is the token of {tokens[first].name} as well"
    if abby.sign_in.openid_connect and abby.public_url is None:
        yield ("signIn", "openidConnect"), "needs publicUrl, the address that the provider sends users back to"
    core = abby.service_providers.core
    at = ("serviceProviders", "core")
    away = [(index, url) for index, url in enumerate(core.hosts) if not is_this_machine(host_and_port(url)[0])]
    if away and abby.storage.url.startswith("sqlite:"):
        need = "abby and guard on different hosts need PostgreSQL"
        yield ("storage", "url"), f"is SQLite, a file on one machine, but {away[0][1]} is another one: {need}"
    if away and core.secret is None:
        yield at, f"needs a secret, the same as scanSources.restApi.secret on {away[0][1]}"
    if any(_find_repeats(map(host_and_port, core.hosts))):
        yield (*at, "hosts"), "names the same core twice"
    for index, url in enumerate(core.hosts):
        host, port = host_and_port(url)
        if port == abby.listen.port and any(_is_reached(host, each.lower()) for each in abby.listen.hosts):
            yield (*at, "hosts", index), f"names {url}, where abby itself listens; a core listens on a port of its own"


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


def _find_recipient_faults(guard: GuardSettings) -> Iterator[Disagreement]:
    """Yield rules on recipients that no recipient comes to."""
    seen: dict[str, int] = {}
    for index, rule in enumerate(guard.recipient_verification.rules):
        at = ("recipientVerification", "rules", index)
        names = [*rule.domains, *rule.tenants] or ["*"]
        for name in names:
            before = seen.get("*", seen.setdefault(name, index))
            if before != index:
                whose = "recipients" if name == "*" else name
                yield at, f"is for {whose}, and rules[{before}] before it is asked instead"
                break


def _find_outbound_faults(guard: GuardSettings) -> Iterator[Disagreement]:
    """Yield faults of the outbound direction: no mail would take it, or one login stands for two tenants."""
    outbound = guard.scan_sources.smtp.outbound if guard.scan_sources.smtp else None
    if outbound is None:
        return
    at = ("scanSources", "smtp", "outbound")
    if not outbound.hosts and outbound.port is None:
        yield at, "needs hosts or port: no mail would be outbound"
    if outbound.other_senders == "refuse" and not isinstance(outbound.hosts, dict) and not outbound.logins:
        yield (*at, "otherSenders"), "needs hosts by tenant, or logins: nobody could send for a tenant's domain"
    seen: dict[str, str] = {}
    for uid, logins in outbound.logins.items():
        for login in logins:
            if seen.setdefault(login, uid) != uid:
                yield (*at, "logins", uid), f"names {login}, which belongs to tenant {seen[login]} already"
    yield from _find_circles(guard, (*at, "nextHop"), outbound.next_hop)


def _find_signing_faults(guard: GuardSettings) -> Iterator[Disagreement]:
    """Yield two keys under one name. Whether a key can be read is seen at the start, by the user of the service."""
    for index, _ in _find_repeats((key.domain, key.selector) for key in guard.dkim.keys):
        key = guard.dkim.keys[index]
        yield ("dkim", "keys", index), f"has domain and selector of the key before: {key.selector}, {key.domain}"
    if sent := guard.domain_reports.send:
        domain = sent.sender.rpartition("@")[2].lower()
        if not any(domain == key.domain or domain.endswith(f".{key.domain}") for key in guard.dkim.keys):
            yield ("domainReports", "send", "sender"), f"needs a key of {domain} in dkim.keys: reports must be signed"
        smtp = guard.scan_sources.smtp
        if not guard.delivery.has_next_hop and not (smtp and smtp.outbound and smtp.outbound.next_hop):
            yield ("domainReports", "send"), "needs delivery.nextHop or scanSources.smtp.outbound.nextHop"


def _find_circles(guard: GuardSettings, key: Key, next_hop: NextHops | None) -> Iterator[Disagreement]:
    """Yield next hops that are a source of this guard itself."""
    for url in list_hops(next_hop)[0] if next_hop else ():
        host, port = _host_and_mail_port(url)
        for each in guard.scan_sources.doors if host else ():
            if port == each.port and any(_is_reached(host, listening.lower()) for listening in each.hosts):
                what = "mail would go in circles" if each.name.startswith("smtp") else "it takes no SMTP"
                yield key, f"names {url}, which is scanSources.{each.name} of this guard: {what}"
                break


def _find_event_faults(events: EventsSettings, *, has_next_hop: bool) -> Iterator[Disagreement]:
    if events.mail and not events.mail.server and not has_next_hop:
        yield ("events", "mail"), "needs a server, since there is no delivery.nextHop in this file"
    if any(_find_repeats(webhook.url for webhook in events.webhooks)):
        yield ("events", "webhooks"), "names the same url twice"
    if events.syslog and events.syslog.ca and not events.syslog.address.startswith("tls:"):
        yield ("events", "syslog", "ca"), "is for an address that starts with tls://"


def find_shared_faults(guard: GuardSettings, abby: AbbySettings) -> Iterator[Disagreement]:
    """Yield faults of `abby.yml` against the `guard.yml` beside it; most of them only if that guard is one of its
    cores."""
    yield from _find_shared_ports(guard, abby)
    core, source = abby.service_providers.core, guard.scan_sources.rest_api
    if source is None:
        return
    if not any(leads_to(url, guard) for url in core.hosts):
        if core.hosts and all(_misses(url, source.port) for url in core.hosts):
            listens = " and ".join(f"{host}:{source.port}" for host in source.hosts)
            where = f"scanSources.restApi in guard.yml listens on {listens}"
            yield ("serviceProviders", "core", "hosts"), f"names this machine, but {where}: abby would reach no core"
        return
    if guard.storage.url != abby.storage.url and "sqlite:" in (guard.storage.url[:7], abby.storage.url[:7]):
        yield (
            ("storage", "url"),
            f"differs from storage.url in guard.yml, {hide(guard.storage.url)}: the two share one database",
        )
    if source.secret != core.secret and (source.secret is not None or len(core.hosts) == 1):
        yield ("serviceProviders", "core", "secret"), "differs from scanSources.restApi.secret in guard.yml"
    named = {
        "policy": (_resolve_files(abby.policy), _resolve_files(guard.policy)),
        "plugins": (abby.plugins, guard.plugins),
        "events": (abby.events, guard.events),
    }
    for key, (own, other) in named.items():
        if getattr(abby, key) != AbbySettings.model_fields[key].default and own != other:
            yield (key,), f"differs from {key} in guard.yml: leave it out to use the same"


def _misses(url: str, port: int) -> bool:
    """Return whether a URL that does not lead to this guard names this machine for certain. With the right port, the
    name of the machine may stand for any of its addresses, which only DNS knows."""
    host, stated = host_and_port(url)
    is_address = host in LOOPBACK or ":" in host or host.replace(".", "").isdigit()
    return is_this_machine(host) and (stated != port or is_address)


def _find_shared_ports(guard: GuardSettings, abby: AbbySettings) -> Iterator[Disagreement]:
    """Yield uses of abby's port by the guard on the same machine: a source that listens there, or a next hop."""
    at, port = ("listen", "port"), abby.listen.port
    if not port:
        return
    for each in guard.scan_sources.doors:
        if _collides(each, abby.listen.hosts, port):
            yield at, f"is the port of scanSources.{each.name} in guard.yml as well"
    for url in _list_next_hops(guard):
        host, taken = _host_and_mail_port(url)
        if taken == port and any(_is_reached(host, each.lower()) for each in abby.listen.hosts):
            yield at, f"is the port of the next hop {url} in guard.yml: mail would be sent to abby, which takes none"


def _list_next_hops(guard: GuardSettings) -> Iterator[str]:
    """Yield the URL of every next hop that `guard.yml` names."""
    smtp = guard.scan_sources.smtp
    several = [guard.delivery.next_hop, *(route.next_hop for route in guard.delivery.routes)]
    several += [smtp.outbound.next_hop] if smtp and smtp.outbound else []
    for each in several:
        yield from list_hops(each)[0] if each else ()


def _host_and_mail_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return (parts.hostname or "").lower(), parts.port or (24 if parts.scheme == "lmtp" else 25)


def _resolve_files(policy: PolicySettings) -> dict[str, Path]:
    """Return the absolute paths of policy files, which the two files may write differently."""
    return {scope: Path(file).resolve() for scope, file in policy.files.items()}


def _overlap(some: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Return whether two services would listen on the same address."""
    first, second = _spell_out(some), _spell_out(others)
    return bool(first & second or ANY & first or ANY & second)


def _spell_out(hosts: tuple[str, ...]) -> set[str]:
    """Return hosts in lower case, with the addresses that `localhost` stands for."""
    named = {host.lower() for host in hosts}
    return named | {"127.0.0.1", "::1"} if "localhost" in named else named


SOON_DAYS = 14

_DELIVERY, _CORE = ("delivery",), ("serviceProviders", "core")


def find_certificate_faults(settings: AbbySettings | GuardSettings) -> Iterator[Disagreement]:
    """Yield why a certificate, a key or a file of authorities cannot be used."""
    for above, certificate, key in _list_certificates(settings):
        if key:
            yield from _find_pair_faults(above, Path(certificate), Path(key))
    ca = settings.delivery.ca if isinstance(settings, GuardSettings) else settings.service_providers.core.ca
    if ca is not None and (fault := _find_ca_fault(Path(ca))):
        yield (*(_DELIVERY if isinstance(settings, GuardSettings) else _CORE), "ca"), fault


def find_expired_certificates(settings: AbbySettings | GuardSettings, soon: int = SOON_DAYS) -> Iterator[Disagreement]:
    """Yield certificates that are not valid now, or for less than so many days."""
    for above, certificate, _ in _list_certificates(settings):
        yield from _find_expired((*above, "certificate"), certificate, soon)
    if isinstance(settings, AbbySettings) and (ca := settings.service_providers.core.ca):
        yield from _find_expired((*_CORE, "ca"), ca, soon)


def _list_certificates(settings: AbbySettings | GuardSettings) -> Iterator[tuple[Key, str, str | None]]:
    """Yield each section with a certificate, the file of that, and the file of its key."""
    if isinstance(settings.tls, TlsSettings):
        yield ("tls",), settings.tls.certificate, settings.tls.key
    if isinstance(settings, GuardSettings) and settings.delivery.certificate:
        yield _DELIVERY, settings.delivery.certificate, settings.delivery.key


def read_validity(pem: bytes) -> tuple[datetime, datetime]:
    """Return from when until when the first certificate of a PEM file is valid; raises `ValueError`."""
    from cryptography import x509

    first = x509.load_pem_x509_certificates(pem)[0]
    return first.not_valid_before_utc, first.not_valid_after_utc


def describe_end(pem: bytes, now: datetime, soon: int = SOON_DAYS) -> str:
    """Return why clients refuse the first certificate of a PEM file, or will do so in less than so many days; "" where
    they do not. Raises `ValueError`."""
    start, end = read_validity(pem)
    if not start <= now <= end:
        said = f"expired on {end:%Y-%m-%d}" if now > end else f"is not valid before {start:%Y-%m-%d}"
        return f"{said}: clients refuse it"
    days = (end - now).days
    return f"expires on {end:%Y-%m-%d}, in {days} days" if days < soon else ""


def _find_expired(key: Key, file: str, soon: int) -> Iterator[Disagreement]:
    with suppress(OSError, ValueError):
        if said := describe_end(Path(file).read_bytes(), datetime.now(UTC), soon):
            yield key, said


def _find_pair_faults(above: Key, certificate: Path, key: Path) -> Iterator[Disagreement]:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    certificate_key, key_key = (*above, "certificate"), (*above, "key")
    pem, secret = _read(certificate), _read(key)
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    shown = private = b""
    if isinstance(pem, str):
        yield certificate_key, pem
    else:
        try:
            shown = x509.load_pem_x509_certificates(pem)[0].public_key().public_bytes(*form)
        except ValueError:
            yield certificate_key, f"is no PEM file with a certificate: {certificate}"
    if isinstance(secret, str):
        yield key_key, secret
    else:
        try:
            private = load_pem_private_key(secret, None).public_key().public_bytes(*form)
        except TypeError:
            yield (
                key_key,
                f"is encrypted, and a service cannot ask for its passphrase; decrypt it with openssl pkey: {key}",
            )
        except ValueError:
            yield key_key, f"is no PEM file with a private key: {key}"
    if shown and private:
        if shown != private:
            yield key_key, f"does not belong to the first certificate in {certificate}"
        elif fault := find_pair_fault(certificate, key):
            yield certificate_key, f"cannot be used: {fault}"


def find_pair_fault(certificate: Path, key: Path) -> str:
    """Return why a TLS server cannot use the pair, such as for a key that is too short."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: b"")
    except (OSError, ValueError) as fault:
        return str(getattr(fault, "reason", None) or getattr(fault, "strerror", None) or fault)
    return ""


def _find_ca_fault(path: Path) -> str:
    pem = _read(path)
    if isinstance(pem, str):
        return pem
    try:
        ssl.create_default_context(cadata=pem.decode("ascii"))
    except (ssl.SSLError, ValueError):
        return f"is no PEM file with certificates: {path}"
    return ""


def _read(path: Path) -> bytes | str:
    """Return the content of a file, or why it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as fault:
        return f"cannot be read: {path}: {(fault.strerror or 'unknown error').lower()}"


# Half of what is recommended: 16 random bytes in hexadecimal, or 24 letters and digits, cannot be guessed.
MIN_LENGTH, MIN_DISTINCT = 24, 9

_PLACEHOLDER = re.compile(
    r"[<>{}\s…]|\.\.\.|hex.?digits|change.?me|replace.?(?:me|this)|your.?|example|placeholder|insert|todo|"
    r"access.?token|api.?key|password|secret|token|xxx|test|dummy|default",
    re.IGNORECASE,
)
_ADVICE = "generate one with: openssl rand -hex 32"


def find_guard_warnings(guard: GuardSettings) -> Iterator[Disagreement]:
    """Yield what `gatepost config check` warns of in `guard.yml`."""
    rest, smtp = guard.scan_sources.rest_api, guard.scan_sources.smtp
    if rest and rest.secret and (weakness := describe_weakness(rest.secret)):
        yield ("scanSources", "restApi", "secret"), f"{weakness}; {_ADVICE}"
    if smtp and not guard.delivery.has_next_hop:
        yield ("scanSources", "smtp"), "has no delivery.nextHop: mail that is to be delivered is answered with 451"
    outbound = smtp.outbound if smtp else None
    if outbound and not isinstance(outbound.hosts, dict) and not outbound.logins:
        unsigned = "mail of tenants' domains is not signed; name the hosts by tenant: hosts: {TENANT: [ADDRESS]}"
        yield ("scanSources", "smtp", "outbound"), f"binds its hosts to no tenant: {unsigned}"
    milter = guard.scan_sources.milter
    if milter and milter.quarantine == "gatepost" and not guard.delivery.has_next_hop:
        yield ("scanSources", "milter"), "has no delivery.nextHop: mail that is held can be exported, but not released"
    yield from _find_auth_warnings(guard)
    if guard.scan_sources.any_source is None:
        yield ("scanSources",), f"has neither restApi nor smtp nor {' nor '.join(ASKERS)}, so no mail reaches this core"
    yield from _find_event_warnings(guard.events)
    yield from find_expired_certificates(guard)
    if guard.unsealed:
        yield ("unsealed",), "is set: workers that parse hostile mail may reach files and network"


def _find_auth_warnings(guard: GuardSettings) -> Iterator[Disagreement]:
    several: list[tuple[Key, HopSettings]] = [(("delivery",), guard.delivery)]
    several += [(("delivery", "routes", index), route) for index, route in enumerate(guard.delivery.routes)]
    for key, settings in several:
        if settings.auth and settings.tls != "verified":
            risk = "whoever gets between the two servers can take the password"
            yield (*key, "auth"), f"is used with tls: {settings.tls}, so {risk}; verified prevents that"


def find_abby_warnings(abby: AbbySettings, guard: GuardSettings | None) -> Iterator[Disagreement]:
    """Yield what `gatepost config check` warns of in `abby.yml`; `guard` is the core beside it, if there is one."""
    if not abby.static_api_tokens and (guard is None or guard.scan_sources.rest_api):
        yield ("staticApiTokens",), f"has no token, so nobody can use the Email Scanning API; {_ADVICE}"
    for index, entry in enumerate(abby.static_api_tokens):
        if entry.token and (weakness := describe_weakness(entry.token)):
            yield ("staticApiTokens", index, "token"), f"of {entry.name} {weakness}; {_ADVICE}"
    secret = abby.service_providers.core.secret
    if secret and (weakness := describe_weakness(secret)):
        yield ("serviceProviders", "core", "secret"), f"{weakness}; {_ADVICE}"
    yield from _find_event_warnings(abby.events)
    yield from find_expired_certificates(abby)


def _find_event_warnings(events: EventsSettings) -> Iterator[Disagreement]:
    for index, webhook in enumerate(events.webhooks):
        if weakness := describe_weakness(webhook.secret):
            yield ("events", "webhooks", index, "secret"), f"{weakness}; {_ADVICE}"


def describe_weakness(secret: str) -> str:
    """Return why a secret could be guessed, as the end of a sentence; "" where it could not."""
    if _PLACEHOLDER.search(secret):
        return "looks like a placeholder, which anybody could try"
    if len(secret) < MIN_LENGTH:
        return f"is weak: it has only {len(secret)} characters"
    if len(set(secret)) < MIN_DISTINCT:
        return f"is weak: it has only {len(set(secret))} different characters"
    if secret in (secret + secret)[1:-1]:
        return "is weak: it repeats itself"
    return ""
