"""Checks of the mail path: cores, next hop, quarantine, the certificates on the way, and reports about domains.

The doctor warns a month before a certificate expires, so that mail does not stop on that day.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gatepost.process.hiding import hide
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.doctor.rows import DoctorRow, DoctorState, ExaminedFiles, ask_storage_if_there
from gatepost.settings.consistency import leads_to, read_validity
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.scan_sources import TlsSettings
from gatepost.times import DAY

if TYPE_CHECKING:
    from gatepost.abby.cores import Down
    from gatepost.scanning.request import Load
    from gatepost.smtp.routing import Relay, Route


RENEW_DAYS = 30


def check_certificates(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    """Yield a row for every certificate that this configuration uses."""
    tls = read.abby.tls if read.abby else "off"
    own, used = data.certificate, list[tuple[str, str | Path]]()
    if read.abby:
        if tls == "off":
            yield DoctorRow("certificate", "ok", "TLS is off; a proxy is expected in front")
        else:
            used.append(("certificate", tls.certificate if isinstance(tls, TlsSettings) else own))
        used += [("certificates of cores", ca)] if (ca := read.abby.service_providers.core.ca) else []
    if read.guard:
        sources, delivery = read.guard.scan_sources, read.guard.delivery
        used += [("certificate for next hops", delivery.certificate)] if delivery.certificate else []
        if read.guard.tls:
            used.append(("certificate of guard", read.guard.tls.certificate))
        elif tls is not None and (sources.rest_api or (sources.smtp and tls == "off")):
            used.append(("certificate of guard", own))
    for what, file in used:
        if file == own and not own.exists():
            yield DoctorRow(what, "warn", "not there yet", "gatepost serve makes one")
        else:
            renew = f"delete {own.parent} and start again" if file == own else "renew it"
            yield _check_certificate_file(what, Path(file), now, renew)


def _check_certificate_file(what: str, file: Path, now: datetime, renew: str) -> DoctorRow:
    try:
        start, end = read_validity(file.read_bytes())
    except (OSError, ValueError) as fault:
        return DoctorRow(what, "fail", f"{file} cannot be read ({type(fault).__name__})", "replace it")
    if now < start:
        return DoctorRow(what, "fail", f"{file} is not valid before {start:%Y-%m-%d}", renew)
    left = (end - now).days
    return describe_validity(what, str(file), left, renew)


def describe_validity(what: str, found: str, left: int, renew: str) -> DoctorRow:
    """Return the row of a certificate that has this many days left."""
    state: DoctorState = "ok" if left >= RENEW_DAYS else "warn" if left >= 0 else "fail"
    shown = f"{left} days left" if left >= 0 else f"expired {-left} days ago"
    return DoctorRow(what, state, f"{found}, {shown}", "" if state == "ok" else renew)


SECONDS = 10.0
ROOM_WANTED = 1 << 30


def check_mail_path(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    if read.guard:
        yield check_quarantine(read.guard, data)
        yield from check_next_hops(read.guard, now)
        yield from check_signing_keys(read.guard)
    if read.abby:
        yield from check_cores(read.abby, read.guard, data)


def check_quarantine(settings: GuardSettings, data: DataFolder) -> DoctorRow:
    from gatepost.guard.quarantine.raw_store import folder_of

    url = settings.quarantine.url
    folder = folder_of(url, data.quarantine)
    return _check_bucket(str(url)) if folder is None else _check_folder(folder, settings.quarantine.max_size)


def _check_folder(folder: Path, most: int) -> DoctorRow:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return DoctorRow("quarantine", "fail", f"{there} cannot be written", "give it to the user that runs Gatepost")
    free = shutil.disk_usage(there).free
    found = f"{folder}, {free >> 20:,} MiB free, quarantine.maxSize is {most >> 20:,} MiB"
    if free < ROOM_WANTED:
        return DoctorRow(
            "quarantine", "warn", found, "free some disk space: while mail cannot be held, SMTP answers 451"
        )
    return DoctorRow("quarantine", "ok", found)


def _check_bucket(url: str) -> DoctorRow:
    from gatepost.guard.quarantine.raw_store import RawObjects
    from gatepost.ids import new_id
    from gatepost.store.errors import StorageError

    shown = hide(url)
    try:
        # Nothing has this id: the place is asked, and nothing in it is read or changed.
        asyncio.run(asyncio.wait_for(RawObjects(url).get(new_id()), SECONDS))
    except TimeoutError:
        return DoctorRow("quarantine", "fail", f"{shown} did not answer in {SECONDS:.0f} s", "correct quarantine.url")
    except StorageError as fault:
        advice = "correct quarantine.url, and the credentials in the environment of the service"
        return DoctorRow("quarantine", "fail", str(fault), advice)
    return DoctorRow("quarantine", "ok", f"{shown} answers")


def check_next_hops(settings: GuardSettings, now: datetime) -> Iterator[DoctorRow]:
    """Check, for every route, that its next hops accept mail, and how long their certificates are valid."""
    delivery = settings.delivery
    if not delivery.has_next_hop:
        if settings.scan_sources.smtp:
            found = "none: mail that is to be delivered is answered with 451"
            yield DoctorRow("next hop", "warn", found, "name one with delivery.nextHop")
        return
    try:
        greeted = asyncio.run(_greet_next_hops(settings))
    except StartError as fault:
        yield DoctorRow("next hop", "fail", str(fault), "correct delivery in guard.yml")
        return
    for each in greeted:
        yield from _describe_next_hop(each, now)


def check_domain_reports(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    """Check that reports to others leave; no row if none are sent, or if storage cannot be read."""
    if read.guard and read.guard.domain_reports.send:
        since = int(now.timestamp() * 1_000) - DAY
        states = ask_storage_if_there(read, data, lambda store: store.sent_reports.states(since))
        if states is not None:
            yield _describe_sent(states)


def _describe_sent(states: Mapping[str, int]) -> DoctorRow:
    """Say what became of the reports to others of the last day."""
    said = ", ".join(f"{states.get(name, 0):,} {name}" for name in ("sent", "unwanted", "waiting", "failed"))
    late = states.get("waiting", 0) + states.get("failed", 0)
    if late > states.get("sent", 0):
        return DoctorRow("reports to others", "warn", said, "gatepost reports sent says why")
    return DoctorRow("reports to others", "ok", f"of the last day: {said}")


def check_signing_keys(settings: GuardSettings) -> Iterator[DoctorRow]:
    """Check, for every key that signs mail, that it can be used and that DNS has its public half."""
    from gatepost.service.signing import compare_with_dns

    for key in compare_with_dns(settings):
        what, shown = "signing key", f"{key.selector} of {key.domain}"
        advice = "run gatepost dkim list, and publish the record"
        if key.state == "ok":
            yield DoctorRow(what, "ok", f"{shown} ({key.algorithm}) is published")
        elif key.state == "unusable":
            yield DoctorRow(what, "fail", f"{shown}: {key.reason}", "correct the file, or dkim and arc in guard.yml")
        elif key.state == "unknown":
            yield DoctorRow(what, "warn", f"{shown}: DNS does not answer for {key.name}", "")
        else:
            found = "has no record" if key.state == "missing" else "has another key"
            yield DoctorRow(what, "fail", f"{shown}: DNS {found} at {key.name}", advice)


class _Greeted(msgspec.Struct, frozen=True):
    """What a next hop said: its extensions and its certificate, or why there was no answer. `others` is how many more
    next hops the route has."""

    route: str
    url: str
    tls: str
    others: int
    fault: str = ""
    features: dict[str, str] = {}
    certificate: bytes | None = None


def _describe_next_hop(found: _Greeted, now: datetime) -> Iterator[DoctorRow]:
    what = "next hop" if found.route == "default" else f"next hop of {found.route}"
    if found.fault:
        if found.others:
            advice = "start it; until then the other next hops of the route get the mail, if one can be reached"
        else:
            advice = "start it, or correct delivery.nextHop; until then senders are answered with 451"
        yield DoctorRow(what, "fail", f"{found.url} {found.fault}", advice)
        return
    secured = "under TLS" if found.certificate else "in clear"
    size = found.features.get("SIZE", "")
    limit = f", messages up to {int(size):,} bytes" if size.isdigit() and int(size) else ""
    yield DoctorRow(what, "ok", f"{found.url} answers {secured}{limit}")
    if found.certificate:
        left = (read_validity(found.certificate)[1] - now).days
        row = describe_validity(f"certificate of the {what}", found.url, left, "have it renewed there")
        # Only a verified certificate can stop mail.
        yield row if found.tls == "verified" or row.state == "ok" else msgspec.structs.replace(row, state="warn")


async def _greet_next_hops(settings: GuardSettings) -> list[_Greeted]:
    from gatepost.service.routes import open_routing

    async with open_routing(settings) as routing:
        relays = list(routing.relays()) if routing else []
        return list(await asyncio.gather(*(_greet_next_hop(route, relay) for route, relay in relays)))


async def _greet_next_hop(route: "Route", relay: "Relay") -> _Greeted:
    from gatepost.smtp.next_hop import NextHopError

    known = _Greeted(route.name, relay.url, relay.tls, len(route.relays) - 1)
    try:
        async with asyncio.timeout(SECONDS):
            link = await relay.borrow()
    except (NextHopError, TimeoutError) as fault:
        return msgspec.structs.replace(known, fault=str(fault) or f"did not answer in {SECONDS:.0f} s")
    relay.give_back(link)
    return msgspec.structs.replace(known, features=link.features, certificate=link.certificate)


def check_cores(abby: AbbySettings, guard: GuardSettings | None, data: DataFolder) -> Iterator[DoctorRow]:
    """Check that the cores answer abby, with the secret and the certificates of the configuration."""
    core, source = abby.service_providers.core, guard.scan_sources.rest_api if guard else None
    secret = core.secret or (source.secret if source else None)
    if secret is None and data.secret.exists():
        secret = data.secret.read_text("ascii").strip()
    for url in core.hosts:
        if guard and leads_to(url, guard) and not data.is_locked("guard"):
            yield DoctorRow(f"core {url}", "ok", "does not run at the moment; it would be this machine's own")
        else:
            ca = Path(core.ca) if core.ca else data.certificate
            yield _describe_core(url, asyncio.run(_ask_load(url, secret or "", ca)))


async def _ask_load(url: str, secret: str, ca: Path) -> "Load | Down":
    from gatepost.abby.cores import Down
    from gatepost.abby.remote_core import RemoteCore

    try:
        remote = RemoteCore(url, secret, ca)
    except OSError as fault:
        return Down(f"the certificate to verify it with cannot be read ({type(fault).__name__})")
    try:
        async with asyncio.timeout(SECONDS):
            return await remote.ask_load()
    except TimeoutError:
        return Down(f"no answer in {SECONDS:.0f} s")
    finally:
        await remote.close()


def _describe_core(url: str, load: "Load | Down") -> DoctorRow:
    from gatepost.abby.cores import Down

    if isinstance(load, Down):
        return DoctorRow(f"core {url}", "fail", load.reason, "start it; secret and ca must fit on both sides")
    return DoctorRow(f"core {url}", "ok", f"answers, {load.in_processing} of {load.maximum} slots in use")
