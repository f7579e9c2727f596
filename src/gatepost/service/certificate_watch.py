"""Certificates, keys and CA files of a running process, read again when they change.

Certificates are renewed by programs that know nothing of the services that use them. So the files are looked at every
two seconds. A pair that cannot be used, because it is half written or because only one of the two files is there yet,
changes nothing and is tried again; connections that stand keep the certificate that they were opened with.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from gatepost.service.certificates import read_expiry
from gatepost.service.data_folder import StartError
from gatepost.service.listeners import Listeners, load_certificates
from gatepost.service.plan import Plan
from gatepost.settings.keys import GuardSettings

LOOK_SECONDS = 2.0

Signature = tuple[tuple[int, int, int], ...]

log = structlog.get_logger("gatepost")


class CertificateWatch:
    """Looks at the files of the plan in force; `trust` is called when the CA file of the cores has changed, and
    `renew_delivery` when a file for TLS towards next hops has."""

    def __init__(
        self,
        listeners: Listeners,
        plan: Callable[[], Plan | None],
        trust: Callable[[Path], None],
        renew_delivery: Callable[[], None],
        seconds: float = LOOK_SECONDS,
    ) -> None:
        self._listeners, self._plan, self._trust, self._seconds = listeners, plan, trust, seconds
        self._renew_delivery = renew_delivery
        self._seen: dict[str, Signature] = {}
        self._refused: Signature = ()

    async def run(self) -> None:
        """Look for as long as the process serves."""
        while True:
            await self.look()
            await asyncio.sleep(self._seconds)

    async def look(self) -> None:
        """Look once, and take over what has changed."""
        plan = self._plan()
        if plan is None:
            return
        used = (plan.certificate, plan.own_certificate, plan.guard_certificate)
        pairs = _sign({path for pair in used if pair for path in pair})
        if self._has_changed("pairs", pairs):
            await self._take_pairs(plan, pairs)
        if plan.guard and self._has_changed("delivery", files := _sign(_list_delivery_files(plan.guard))):
            self._take_delivery_files(files)
        if plan.abby and self._has_changed("ca", ca := _sign([plan.ca])):
            await self._take_ca(plan, ca)

    def _has_changed(self, what: str, now: Signature) -> bool:
        """The first look only notes what the process has started with."""
        return self._seen.setdefault(what, now) != now

    async def _take_pairs(self, plan: Plan, now: Signature) -> None:
        try:
            contexts = await asyncio.to_thread(load_certificates, plan)
            self._listeners.renew_smtp_certificate(plan)
        except StartError as fault:
            if self._refused != now:
                log.warning("changed certificate not taken over", reason=str(fault))
            self._refused = now
            return
        self._seen["pairs"] = now
        self._listeners.use_tls(contexts)
        shown = plan.smtp_certificate if plan.guard else plan.certificate or plan.own_certificate
        with contextlib.suppress(OSError, ValueError):
            expires = f"{read_expiry(shown[0].read_bytes()):%Y-%m-%d}"
            log.info("certificate taken over", file=str(shown[0]), expires=expires)

    def _take_delivery_files(self, now: Signature) -> None:
        try:
            self._renew_delivery()
        except (OSError, ValueError) as fault:
            if self._refused != now:
                log.warning("changed certificate towards next hops not taken over", reason=str(fault))
            self._refused = now
            return
        self._seen["delivery"] = now
        log.info("certificate and CA file towards next hops taken over")

    async def _take_ca(self, plan: Plan, now: Signature) -> None:
        try:
            await asyncio.to_thread(plan.ca.read_bytes)
            self._trust(plan.ca)
        except (OSError, ValueError) as fault:
            if self._refused != now:
                log.warning("changed CA file not taken over", file=str(plan.ca), reason=str(fault))
            self._refused = now
            return
        self._seen["ca"] = now
        log.info("CA file taken over", file=str(plan.ca))


def _list_delivery_files(guard: GuardSettings) -> list[Path]:
    delivery = guard.delivery
    return [Path(file) for file in (delivery.ca, delivery.certificate, delivery.key) if file]


def _sign(paths: Iterable[Path]) -> Signature:
    """Return what tells one state of files from another without reading them; a file that is missing has zeros."""
    found = []
    for path in sorted(paths):
        try:
            state = path.stat()
            found.append((state.st_mtime_ns, state.st_size, state.st_ino))
        except OSError:
            found.append((0, 0, 0))
    return tuple(found)
