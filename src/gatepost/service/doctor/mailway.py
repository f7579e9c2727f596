"""What the doctor says of the way that mail takes: the cores, the next hop, and the place for what is held."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gatepost.config.agreement import leads_to
from gatepost.service import certificates
from gatepost.service.datafolder import DataFolder
from gatepost.service.doctor import expiry
from gatepost.service.doctor.files import Files
from gatepost.service.doctor.row import Row
from gatepost.settings import Abby as AbbySettings
from gatepost.settings import Guard as GuardSettings

if TYPE_CHECKING:
    from gatepost.abby.place import Down
    from gatepost.guard.scan import Load

SECONDS = 10.0
ROOM_WANTED = 1 << 30


def examined(read: Files, data: DataFolder, now: datetime) -> Iterator[Row]:
    """The rows that this configuration calls for."""
    if read.guard:
        yield quarantine(read.guard, data)
        yield from next_hop(read.guard, now)
    if read.abby:
        yield from cores(read.abby, read.guard, data)


def quarantine(settings: GuardSettings, data: DataFolder) -> Row:
    """Can held mail be kept?"""
    from gatepost.guard.rawstore import folder_of

    url = settings.quarantine.url
    folder = folder_of(url, data.quarantine)
    return _bucket(str(url)) if folder is None else _folder(folder, settings.quarantine.max_size)


def _folder(folder: Path, most: int) -> Row:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Row("quarantine", "fail", f"{there} cannot be written", "give it to the user that runs Gatepost")
    free = shutil.disk_usage(there).free
    found = f"{folder}, {free >> 20:,} MiB free, quarantine.maxSize is {most >> 20:,} MiB"
    if free < ROOM_WANTED:
        return Row("quarantine", "warn", found, "make room: where nothing can be held, senders are told 451")
    return Row("quarantine", "ok", found)


def _bucket(url: str) -> Row:
    from gatepost.guard.rawstore import RawObjects
    from gatepost.store.errors import StorageError

    async def listed() -> None:
        # Nothing is that old: the place is asked, and not read.
        async with asyncio.timeout(SECONDS):
            async for _ in RawObjects(url).older_than(1e11):
                return

    shown = url.partition("?")[0]
    try:
        asyncio.run(listed())
    except TimeoutError:
        return Row("quarantine", "fail", f"{shown} did not answer in {SECONDS:.0f} s", "correct quarantine.url")
    except StorageError as fault:
        advice = "correct quarantine.url, and the credentials in the environment of the service"
        return Row("quarantine", "fail", str(fault), advice)
    return Row("quarantine", "ok", f"{shown} answers")


def next_hop(settings: GuardSettings, now: datetime) -> Iterator[Row]:
    """Does it take mail, and how long is its certificate good?"""
    from gatepost.guard.smtp.nexthop import NextHopError

    url = settings.delivery.next_hop
    if url is None:
        if settings.scan_sources.smtp:
            found = "none: mail that is to be delivered is answered with 451"
            yield Row("next hop", "warn", found, "name one with delivery.nextHop")
        return
    try:
        features, certificate = asyncio.run(_greeted(settings))
    except NextHopError as fault:
        advice = "start it, or correct delivery.nextHop; until then senders are told 451"
        yield Row("next hop", "fail", f"{url}: {fault}", advice)
        return
    secured = "under TLS" if certificate else "in clear"
    size = features.get("SIZE", "")
    limit = f", messages up to {int(size):,} bytes" if size.isdigit() and int(size) else ""
    yield Row("next hop", "ok", f"{url} answers {secured}{limit}")
    if certificate:
        left = (certificates.expiry(certificate) - now).days
        row = expiry.lasting("certificate of the next hop", url, left, "have it renewed there")
        # Who does not verify it does not mind.
        yield row if settings.delivery.tls == "verified" or row.state == "ok" else _harmless(row)


def _harmless(row: Row) -> Row:
    return Row(row.what, "warn", row.found, row.advice)


async def _greeted(settings: GuardSettings) -> tuple[dict[str, str], bytes | None]:
    from gatepost.guard.smtp.nexthop import NextHopError
    from gatepost.service.gateway import build_relay

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


def cores(abby: AbbySettings, guard: GuardSettings | None, data: DataFolder) -> Iterator[Row]:
    """Do the cores answer abby, with the secret and the certificates that they have?"""
    core, source = abby.service_providers.core, guard.scan_sources.rest_api if guard else None
    secret = core.secret or (source.secret if source else None)
    if secret is None and data.secret.exists():
        secret = data.secret.read_text("ascii").strip()
    for url in core.hosts:
        if guard and leads_to(url, guard) and not data.is_locked("guard"):
            yield Row(f"core {url}", "ok", "does not run at the moment; it would be this machine's own")
        else:
            yield _core(url, asyncio.run(_load(url, secret or "", Path(core.ca) if core.ca else data.certificate)))


async def _load(url: str, secret: str, ca: Path) -> "Load | Down":
    from gatepost.abby.place import Down
    from gatepost.abby.remote import RemoteCore

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


def _core(url: str, load: "Load | Down") -> Row:
    from gatepost.abby.place import Down

    if isinstance(load, Down):
        return Row(f"core {url}", "fail", load.reason, "start it; secret and ca must fit on both sides")
    return Row(f"core {url}", "ok", f"answers, {load.in_processing} of {load.maximum} slots in use")
