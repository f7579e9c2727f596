"""Whether mail of own users would be held, and whether sources tell enough of their clients to see spoofed mail.

An own domain that publishes a DMARC policy asks everybody to refuse its unproven mail. What its own users send is
seldom signed before it leaves, so they must be known by their network or by their login.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from gatepost.auth.dmarc_record import is_dmarc, parse_record
from gatepost.names import org_domain
from gatepost.questions import Dns
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor.rows import DoctorRow, ExaminedFiles, ask_storage_if_there
from gatepost.settings.keys import GuardSettings, by_tenant

if TYPE_CHECKING:
    from gatepost.store.store import Store

MAX_DOMAINS, LAST_MESSAGES, FEW_MESSAGES = 20, 1_000, 20
OWN_DOMAINS = "own-domains"
# What makes a source tell the address of its client, and the page that says it all.
TELLS_CLIENTS = {
    "smtp": "have the mail server in front send XFORWARD, and name it in scanSources.smtp.xclientHosts",
    "rspamd": "have the client send the field IP",
    "spamd": "use the milter or the protocol of rspamd: clients of spamd tell no addresses",
    "rest": "have the caller state borderMtaData.remoteAddress",
    "milter": "the mail server must pass connections on: take milters out of non_smtpd_milters",
}
PAGE = "see the page Mail of your own users"


class _Known(msgspec.Struct, frozen=True):
    """What storage knows: own domains, and how often the last messages of each source came from where."""

    domains: tuple[str, ...] = ()
    origins: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)


def check_own_users(read: ExaminedFiles, data: DataFolder) -> Iterator[DoctorRow]:
    """Yield a row for each own domain, and one for each source that never tells where mail comes from."""
    if read.guard is None:
        return
    known = ask_storage_if_there(read, data, _read_storage) or _Known()
    yield from check_own_domains(read.guard, known.domains)
    yield from _check_sources(known.origins)


async def _read_storage(store: "Store") -> _Known:
    domains = [domain for tenant in await store.tenants.all() for domain in tenant.domains]
    for scope in (None, *(tenant.uid for tenant in (await store.tenants.all())[:MAX_DOMAINS])):
        async with aclosing(store.lists.stream(scope, OWN_DOMAINS)) as batches:
            async for batch in batches:
                domains += [entry.key for entry in batch]
                break
    origins: Counter[tuple[str, str]] = Counter()
    async with aclosing(store.messages.recent(None, LAST_MESSAGES)) as batches:
        async for records in batches:
            origins.update((each.detail.source, each.report.authentication.origin) for each in records)
    return _Known(tuple(dict.fromkeys(domains)), origins)


def check_own_domains(settings: GuardSettings, stored: tuple[str, ...] = ()) -> Iterator[DoctorRow]:
    """Yield a row for each own domain: whether its users' mail would be held, and what to set."""
    domains = tuple(dict.fromkeys((*settings.tenants, *stored)))
    if not domains:
        return
    ways = ", ".join(_list_ways(settings))
    policies = asyncio.run(_ask_policies(settings, domains[:MAX_DOMAINS]))
    for domain, policy in policies.items():
        if policy is None:
            yield DoctorRow(f"own domain {domain}", "warn", "DNS does not answer for its DMARC policy", "")
        elif policy == "none":
            yield DoctorRow(f"own domain {domain}", "ok", "publishes no DMARC policy: mail in its name can be forged")
        elif ways:
            found = f"DMARC policy {policy}; own users are known by {ways}, and all others must prove themselves"
            yield DoctorRow(f"own domain {domain}", "ok", found)
        else:
            found = f"DMARC policy {policy}; unsigned mail of its users from a public address is held"
            yield DoctorRow(f"own domain {domain}", "warn", found, f"name their networks in ownNetworks, {PAGE}")
    if len(domains) > MAX_DOMAINS:
        yield DoctorRow("own domains", "ok", f"{len(domains) - MAX_DOMAINS:,} more were not looked at")


def _list_ways(settings: GuardSettings) -> Iterator[str]:
    """Yield how own users can be told from strangers."""
    sources = settings.scan_sources
    if any(by_tenant(settings.own_networks).values()):
        yield "ownNetworks"
    if sources.smtp and sources.smtp.outbound:
        yield "scanSources.smtp.outbound"
    if sources.smtp and sources.smtp.xclient_hosts:
        yield "what xclientHosts tell"
    if sources.milter:
        yield "logins at the milter"
    if sources.rspamd:
        yield "logins at the rspamd port"


async def _ask_policies(settings: GuardSettings, domains: tuple[str, ...]) -> dict[str, str | None]:
    """Return the DMARC policy of each domain; None where DNS did not answer."""
    from gatepost.guard.answers.dns import Resolver

    async def ask(domain: str) -> str | None:
        for name in dict.fromkeys((domain, org_domain(domain))):
            answer = await resolver.ask(Dns(f"_dmarc.{name}", "TXT"))
            if answer.status == "failed":
                return None
            if found := [record for record in answer.records if is_dmarc(record)]:
                record = parse_record(found[0])
                return record.policy if name == domain else record.subdomains
        return "none"

    resolver = Resolver(settings.dns.nameservers, settings.dns.timeout / 1_000)
    try:
        return dict(zip(domains, await asyncio.gather(*map(ask, domains)), strict=True))
    finally:
        await resolver.close()


def _check_sources(origins: Counter[tuple[str, str]]) -> Iterator[DoctorRow]:
    """Yield a row for each source none of whose last messages told where it comes from."""
    for source, advice in TELLS_CLIENTS.items():
        told = {origin: count for (name, origin), count in origins.items() if name == source and origin}
        if told.keys() == {"unknown"} and told["unknown"] >= FEW_MESSAGES:
            found = f"none of the last {told['unknown']:,} messages said where it comes from: spoofing cannot be seen"
            yield DoctorRow(f"origin of mail by {source}", "warn", found, f"{advice}; {PAGE}")
