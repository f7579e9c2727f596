"""How long certificates are good: those that our services show, and those that cores are verified with.

A certificate that ends on a Sunday stops mail on a Sunday, so the doctor warns a month before.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from gatepost.service import certificates
from gatepost.service.datafolder import DataFolder
from gatepost.service.doctor.files import Files
from gatepost.service.doctor.row import Row, State
from gatepost.settings import Abby, Tls

RENEW_DAYS = 30


def examined(read: Files, data: DataFolder, now: datetime) -> Iterator[Row]:
    """A row for every certificate that this configuration uses."""
    if read.abby:
        yield from _of_abby(read.abby, data, now)
    tls = read.abby.tls if read.abby else "off"
    sources = read.guard.scan_sources if read.guard else None
    if sources and tls is not None and (sources.rest_api or (sources.smtp and tls == "off")):
        yield _made(data, now, "certificate of guard")


def _of_abby(settings: Abby, data: DataFolder, now: datetime) -> Iterator[Row]:
    tls, core = settings.tls, settings.service_providers.core
    if tls == "off":
        yield Row("certificate", "ok", "TLS is off; a proxy is expected in front")
    else:
        yield _own("certificate", Path(tls.certificate), now) if isinstance(tls, Tls) else _made(data, now)
    if core.ca:
        yield _own("certificates of cores", Path(core.ca), now)


def _made(data: DataFolder, now: datetime, what: str = "certificate") -> Row:
    """The one that was made at the first start."""
    if not data.certificate.exists():
        return Row(what, "warn", "not there yet", "gatepost serve makes one")
    return _file(what, data.certificate, now, f"delete {data.certificate.parent} and start again")


def _own(what: str, file: Path, now: datetime) -> Row:
    return _file(what, file, now, "renew it")


def _file(what: str, file: Path, now: datetime, renew: str) -> Row:
    try:
        left = (certificates.expiry(file.read_bytes()) - now).days
    except (OSError, ValueError) as fault:
        return Row(what, "fail", f"{file} cannot be read ({type(fault).__name__})", "replace it")
    return lasting(what, str(file), left, renew)


def lasting(what: str, found: str, left: int, renew: str) -> Row:
    """A certificate with so many days to go."""
    state: State = "ok" if left >= RENEW_DAYS else "warn" if left >= 0 else "fail"
    shown = f"{left} days left" if left >= 0 else f"expired {-left} days ago"
    return Row(what, state, f"{found}, {shown}", "" if state == "ok" else renew)
