"""`gatepost serve`, `guard` and `abby`: the data folder is prepared and held, the files are read, the plan runs.

What runs is loaded only then: whoever has a fault in a file wants to read about it at once.
"""

import os
import resource
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gatepost.service import certificates, first_start, ports
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.settings import files
from gatepost.settings.agreement import ANY
from gatepost.settings.keys import Abby as AbbySettings
from gatepost.settings.keys import Guard as GuardSettings

if TYPE_CHECKING:
    from gatepost.service.running import Started as Up
    from gatepost.store.store import Store

PRIVATE = 0o077
# A Python file that lets messages make workers misbehave: for tests of what surrounds the analysis, never for mail.
FAULT_INJECTION = "GATEPOST_FAULT_INJECTION"


class Started(msgspec.Struct, frozen=True):
    """What a person wants to know of a service that is up. `certificate` is set where it has to be named to clients,
    `token_file` where the token of the first start is in force, `password` only the first time."""

    url: str
    data: DataFolder
    config: Path
    certificate: Path | None
    token_file: Path | None
    password: str | None
    notes: tuple[str, ...]


def serve(data: DataFolder, given: Path | None, greet: Callable[[Started], None]) -> None:
    """Run both; `greet` is told once they serve."""
    _take(data)
    with data.lock("guard", "abby"):
        folder = first_start.prepare(data, given)
        both = files.load(folder)
        started = partial(_welcome, data, folder, both, greet)
        _run(data, folder, both.guard, both.abby, started)


def guard(data: DataFolder, folder: Path) -> None:
    """Run the core alone."""
    _take(data)
    settings = files.load_guard(folder)
    source = settings.scan_sources.rest_api or settings.scan_sources.smtp
    if source is None:
        raise StartError(f"{folder / files.GUARD_FILE} has nothing under scanSources: there is nothing to serve.")
    with data.lock("guard"):
        _run(data, folder, settings, None, partial(_say_port, "guard", source.host))


def abby(data: DataFolder, folder: Path) -> None:
    """Run the API service alone."""
    _take(data)
    settings = files.load_abby(folder)
    with data.lock("abby"):
        _run(data, folder, None, settings, partial(_say_port, "abby", settings.listen.host))


def _run(data: DataFolder, folder: Path, guard: GuardSettings | None, abby: AbbySettings | None, started: "Up") -> None:
    from gatepost import logs
    from gatepost.service import first_start
    from gatepost.service.doctor.examination import examine_in_child
    from gatepost.service.http_servers import run
    from gatepost.service.plan import Plan
    from gatepost.service.running import run_plan

    # guard and abby may both be first, and start at the same moment.
    with data.lock_patiently("start"):
        first_start.ensure_secret(data)
        certificates.ensure_certificate(data, _hosts(guard, abby))
    settings = guard or abby
    assert settings is not None
    logs.configure(settings.log)
    warn_of_old_names(folder)
    plan = Plan(
        data,
        guard,
        abby,
        fault_injection=os.environ.get(FAULT_INJECTION, ""),
        examine=lambda: examine_in_child(folder, data.path),
    )
    run(lambda stop: run_plan(plan, stop, started))


def warn_of_old_names(folder: Path) -> None:
    """Log a warning for every old name in the configuration and policy files."""
    import structlog

    for warning in files.find_old_names(folder):
        structlog.get_logger("gatepost").warning("configuration has an old name", where=str(warning))


def _take(data: DataFolder) -> None:
    """Files are private, and there are as many descriptors as the system lets us have: each client needs one."""
    os.umask(PRIVATE)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    data.make()


def _hosts(guard: GuardSettings | None, abby: AbbySettings | None) -> list[str]:
    """Names and addresses that the certificate has to be good for."""
    source = guard.scan_sources.rest_api if guard else None
    hosts = [source.host if source else "", abby.listen.host if abby else ""]
    return [host for host in hosts if host and host not in ANY]


async def _welcome(
    data: DataFolder,
    folder: Path,
    both: files.Configuration,
    greet: Callable[[Started], None],
    port: int,
    store: "Store",
) -> None:
    from gatepost.web.credentials import generate_password

    password = None if await store.users() else generate_password()
    started = Started(
        url=local_url(both.abby, port),
        data=data,
        config=folder,
        certificate=data.certificate if both.abby.tls is None else None,
        token_file=_token_file(data, both.abby),
        password=password,
        notes=tuple(_notes(both.guard)),
    )
    greet(started)
    if password:
        await first_start.create_administrator(store, password)
    await _say("gatepost", both.abby.listen.host, port)


def local_url(settings: AbbySettings, port: int) -> str:
    """An address that works on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.listen.host, settings.listen.host)  # noqa: S104
    return f"{'http' if settings.tls == 'off' else 'https'}://{ports.render_address(host, port)}"


def _token_file(data: DataFolder, settings: AbbySettings) -> Path | None:
    if not data.token.exists():
        return None
    token = data.token.read_text("ascii").strip()
    return data.token if any(entry.token == token for entry in settings.static_api_tokens) else None


def _notes(settings: GuardSettings) -> Iterator[str]:
    if settings.scan_sources.smtp and settings.delivery.next_hop is None:
        yield "scanSources.smtp is set without delivery.nextHop: mail that is to be delivered is answered with 451."
    if settings.unsealed:
        yield "unsealed is set: what parses hostile mail may reach files and network."
    if os.environ.get(FAULT_INJECTION):
        yield f"{FAULT_INJECTION} is set: messages can make workers misbehave. For tests only."


async def _say_port(what: str, host: str, port: int, _store: "Store") -> None:
    await _say(what, host, port)


async def _say(what: str, host: str, port: int) -> None:
    import structlog

    structlog.get_logger("gatepost").info("listening", service=what, address=ports.render_address(host, port))
