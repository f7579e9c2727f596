"""How long certificates are good: those that our services show, and those that cores are verified with.

A certificate that ends on a Sunday stops mail on a Sunday, so the doctor warns a month before.

What the doctor says of the way that mail takes: the cores, the next hop, and the place for what is held.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gatepost.service import first_start
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor.rows import DoctorRow, DoctorState, ExaminedFiles
from gatepost.settings.agreement import leads_to
from gatepost.settings.keys import Abby, Tls
from gatepost.settings.keys import Abby as AbbySettings
from gatepost.settings.keys import Guard as GuardSettings
from gatepost.settings.values import hide_credentials

if TYPE_CHECKING:
    from gatepost.abby.core_state import Down
    from gatepost.scanning.request import Load


RENEW_DAYS = 30


def examine_certificates(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    """A row for every certificate that this configuration uses."""
    if read.abby:
        yield from _of_abby(read.abby, data, now)
    tls = read.abby.tls if read.abby else "off"
    sources = read.guard.scan_sources if read.guard else None
    if sources and tls is not None and (sources.rest_api or (sources.smtp and tls == "off")):
        yield _made(data, now, "certificate of guard")


def _of_abby(settings: Abby, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    tls, core = settings.tls, settings.service_providers.core
    if tls == "off":
        yield DoctorRow("certificate", "ok", "TLS is off; a proxy is expected in front")
    else:
        yield _own("certificate", Path(tls.certificate), now) if isinstance(tls, Tls) else _made(data, now)
    if core.ca:
        yield _own("certificates of cores", Path(core.ca), now)


def _made(data: DataFolder, now: datetime, what: str = "certificate") -> DoctorRow:
    """The one that was made at the first start."""
    if not data.certificate.exists():
        return DoctorRow(what, "warn", "not there yet", "gatepost serve makes one")
    return _file(what, data.certificate, now, f"delete {data.certificate.parent} and start again")


def _own(what: str, file: Path, now: datetime) -> DoctorRow:
    return _file(what, file, now, "renew it")


def _file(what: str, file: Path, now: datetime, renew: str) -> DoctorRow:
    try:
        left = (first_start.certificate_expiry(file.read_bytes()) - now).days
    except (OSError, ValueError) as fault:
        return DoctorRow(what, "fail", f"{file} cannot be read ({type(fault).__name__})", "replace it")
    return describe_validity(what, str(file), left, renew)


def describe_validity(what: str, found: str, left: int, renew: str) -> DoctorRow:
    """A certificate with so many days to go."""
    state: DoctorState = "ok" if left >= RENEW_DAYS else "warn" if left >= 0 else "fail"
    shown = f"{left} days left" if left >= 0 else f"expired {-left} days ago"
    return DoctorRow(what, state, f"{found}, {shown}", "" if state == "ok" else renew)


SECONDS = 10.0
ROOM_WANTED = 1 << 30


def examine_mail_path(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    """The rows that this configuration calls for."""
    if read.guard:
        yield quarantine(read.guard, data)
        yield from next_hop(read.guard, now)
    if read.abby:
        yield from cores(read.abby, read.guard, data)


def quarantine(settings: GuardSettings, data: DataFolder) -> DoctorRow:
    """Can held mail be kept?"""
    from gatepost.guard.quarantine.raw_store import folder_of

    url = settings.quarantine.url
    folder = folder_of(url, data.quarantine)
    return _bucket(str(url)) if folder is None else _folder(folder, settings.quarantine.max_size)


def _folder(folder: Path, most: int) -> DoctorRow:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return DoctorRow("quarantine", "fail", f"{there} cannot be written", "give it to the user that runs Gatepost")
    free = shutil.disk_usage(there).free
    found = f"{folder}, {free >> 20:,} MiB free, quarantine.maxSize is {most >> 20:,} MiB"
    if free < ROOM_WANTED:
        return DoctorRow("quarantine", "warn", found, "make room: where nothing can be held, senders are told 451")
    return DoctorRow("quarantine", "ok", found)


def _bucket(url: str) -> DoctorRow:
    from gatepost.guard.quarantine.raw_store import RawObjects
    from gatepost.store.errors import StorageError

    async def listed() -> None:
        # Nothing is that old: the place is asked, and not read.
        async with asyncio.timeout(SECONDS):
            async for _ in RawObjects(url).older_than(1e11):
                return

    shown = hide_credentials(url)
    try:
        asyncio.run(listed())
    except TimeoutError:
        return DoctorRow("quarantine", "fail", f"{shown} did not answer in {SECONDS:.0f} s", "correct quarantine.url")
    except StorageError as fault:
        advice = "correct quarantine.url, and the credentials in the environment of the service"
        return DoctorRow("quarantine", "fail", str(fault), advice)
    return DoctorRow("quarantine", "ok", f"{shown} answers")


def next_hop(settings: GuardSettings, now: datetime) -> Iterator[DoctorRow]:
    """Does it take mail, and how long is its certificate good?"""
    from gatepost.smtp.next_hop import NextHopError

    url = settings.delivery.next_hop
    if url is None:
        if settings.scan_sources.smtp:
            found = "none: mail that is to be delivered is answered with 451"
            yield DoctorRow("next hop", "warn", found, "name one with delivery.nextHop")
        return
    try:
        features, certificate = asyncio.run(_greeted(settings))
    except NextHopError as fault:
        advice = "start it, or correct delivery.nextHop; until then senders are told 451"
        yield DoctorRow("next hop", "fail", f"{url}: {fault}", advice)
        return
    secured = "under TLS" if certificate else "in clear"
    size = features.get("SIZE", "")
    limit = f", messages up to {int(size):,} bytes" if size.isdigit() and int(size) else ""
    yield DoctorRow("next hop", "ok", f"{url} answers {secured}{limit}")
    if certificate:
        left = (first_start.certificate_expiry(certificate) - now).days
        row = describe_validity("certificate of the next hop", url, left, "have it renewed there")
        # Who does not verify it does not mind.
        yield row if settings.delivery.tls == "verified" or row.state == "ok" else _harmless(row)


def _harmless(row: DoctorRow) -> DoctorRow:
    return DoctorRow(row.what, "warn", row.found, row.advice)


async def _greeted(settings: GuardSettings) -> tuple[dict[str, str], bytes | None]:
    from gatepost.service.assembly import build_relay
    from gatepost.smtp.next_hop import NextHopError

    relay = build_relay(settings)
    assert relay is not None
    try:
        async with asyncio.timeout(SECONDS):
            link = await relay.lend()
    except TimeoutError:
        raise NextHopError(f"no answer in {SECONDS:.0f} s") from None
    found = link.features, link.certificate
    relay.give_back(link)
    await relay.close()
    return found


def cores(abby: AbbySettings, guard: GuardSettings | None, data: DataFolder) -> Iterator[DoctorRow]:
    """Do the cores answer abby, with the secret and the certificates that they have?"""
    core, source = abby.service_providers.core, guard.scan_sources.rest_api if guard else None
    secret = core.secret or (source.secret if source else None)
    if secret is None and data.secret.exists():
        secret = data.secret.read_text("ascii").strip()
    for url in core.hosts:
        if guard and leads_to(url, guard) and not data.is_locked("guard"):
            yield DoctorRow(f"core {url}", "ok", "does not run at the moment; it would be this machine's own")
        else:
            yield _core(url, asyncio.run(_load(url, secret or "", Path(core.ca) if core.ca else data.certificate)))


async def _load(url: str, secret: str, ca: Path) -> "Load | Down":
    from gatepost.abby.core_clients import RemoteCore
    from gatepost.abby.core_state import Down

    try:
        remote = RemoteCore(url, secret, ca)
    except OSError as fault:
        return Down(f"the certificate to verify it with cannot be read ({type(fault).__name__})")
    try:
        async with asyncio.timeout(SECONDS):
            return await remote.load()
    except TimeoutError:
        return Down(f"no answer in {SECONDS:.0f} s")
    finally:
        await remote.close()


def _core(url: str, load: "Load | Down") -> DoctorRow:
    from gatepost.abby.core_state import Down

    if isinstance(load, Down):
        return DoctorRow(f"core {url}", "fail", load.reason, "start it; secret and ca must fit on both sides")
    return DoctorRow(f"core {url}", "ok", f"answers, {load.in_processing} of {load.maximum} slots in use")
