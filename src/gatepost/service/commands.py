"""`gatepost serve`, `guard` and `abby`: prepare and lock the data folder, read the files, and run the plan.

A first start leads from an empty folder to a service that takes mail. Every file is written whole or not at all, and
only if it is absent. A start that was killed in between is therefore completed by the next one, and a second start
changes nothing. The administrator's password is the exception: storage has only its hash, so the password is written to
a file first and stored afterwards; a start that is interrupted between the two makes a new one. The file is for the
service's user alone, and is deleted by the first start after the password was changed. A terminal is shown the
password; what is no terminal ends in a journal, and is told where the file is.

The services are loaded only after the files were read, so that a fault in a file is reported at once.
"""

import asyncio
import json
import os
import resource
import secrets
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from gatepost.service import systemd
from gatepost.service.changes import (
    LoadedFiles,
    NodeFiles,
    digest_files,
    load_services,
    save_loaded,
)
from gatepost.service.data_folder import DataFolder, StartError, lock_sqlite_file
from gatepost.settings import files
from gatepost.settings.consistency import ANY
from gatepost.settings.document import read_text
from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load_guard
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.workers.loading import WorkerFiles, begin_loader

if TYPE_CHECKING:
    from gatepost.service.plan import Plan
    from gatepost.store.store import Store
    from gatepost.store.users import Users


ADMINISTRATOR = "admin"
# The ports of a first configuration, counted from a base: 9081, 9785 and 10025 by default.
PORT_BASE = 9_000
API_PORT, REST_PORT, SMTP_PORT = 81, 785, 1_025
MAX_PORT_BASE = 65_535 - SMTP_PORT

GUARD_YML = """\
# guard, Gatepost's core: sources of mail and limits of the analysis.
# Every key is described in docs/reference/configuration.md. After a change: `gatepost config check`, then SIGHUP.

# Number of messages that are processed at once. maxGuardRequestsInProcessing (further messages are refused) and
# guardRequestThrottleThreshold (further messages are delayed) have this value unless they are set. Most of its time a
# message waits for DNS, so 20 keep a few processors busy. On a machine with more than eight, or with slow name servers,
# raise it until messages do not wait while processors are idle: `gatepost doctor` says so.
mainWorkerCount: 20

scanSources:
  # The HTTPS source for abby; `restApi: {{}}` alone means the same.
  restApi: {{host: 127.0.0.1, port: {rest}}}
  # smtp: {{host: 127.0.0.1, port: {smtp}}}

# delivery: {{nextHop: "smtp://127.0.0.1:10026"}}

# By default the name servers of the system are used.
# dns: {{nameservers: ["192.0.2.53:53"], timeout: 2000}}

# Results and ledgers are kept in one file of the data folder.
storage: {{url: "sqlite:gatepost.db"}}
"""
ABBY_YML = """\
# abby, Gatepost's API service: its users, and the cores that analyse their mail.
# Every key is described in docs/reference/configuration.md. After a change: `gatepost config check`, then SIGHUP.

# Only this machine can reach it. 0.0.0.0 opens it to others; then configure your own certificate:
# tls: {{certificate: /path/fullchain.pem, key: /path/privkey.pem}}
listen: {{host: 127.0.0.1, port: {listen}}}

serviceProviders:
  core:
    # The cores that messages are distributed to. Cores on several machines need PostgreSQL as storage.
    hosts: ["https://127.0.0.1:{port}"]
{secret}    # Milliseconds that a scan may take, waiting included.
    longRequestTimeout: 3600000

# Users of the Email Scanning API: `Authorization: Bearer TOKEN`. Generate tokens with `openssl rand -hex 32`, and keep
# each in a file that only Gatepost can read.
staticApiTokens:
  - name: first
    token: "{token}"
    permissions: [messages.read]

storage: {{url: "{storage}"}}
"""
# Relative to the file, so that the folder can be moved. The token itself stands in one file of mode 0600 and nowhere
# else: a configuration is copied, sent to colleagues and put under version control.
TOKEN_REFERENCE = "${file:../../token}"  # noqa: S105  no token, but where it is
EXAMPLE = """\
From: Ann Example <ann@company.example>\r
To: Bob Example <bob@example.com>\r
Subject: Minutes of Tuesday\r
Date: Tue, 10 Nov 2026 09:12:00 +0000\r
Message-ID: <minutes-1@example.org>\r
MIME-Version: 1.0\r
Content-Type: text/plain; charset=utf-8\r
\r
Hello Bob,\r
\r
the minutes of Tuesday's meeting are on the shared drive as usual.\r
\r
Regards\r
Ann\r
"""


def prepare(data: DataFolder, config: Path | None, base: int | None = None) -> Path:
    """Complete what is missing in the data folder; returns the folder of the configuration. `base` is what the ports of
    a first configuration are counted from.

    A configuration that the operator keeps elsewhere is never written to. Raises `StartError` where there is one
    already and a base was given.
    """
    written = next((file for file in (GUARD_FILE, ABBY_FILE) if ((config or data.path) / file).exists()), None)
    if base is not None and written and not systemd.is_restarted():
        raise StartError(
            f"{(config or data.path) / written} is there already, and --port-base is for a first start: change"
            " listen.port in abby.yml, scanSources.restApi.port in guard.yml, and that port in"
            " serviceProviders.core.hosts in abby.yml."
        )
    if config is None:
        _write_configuration(data, PORT_BASE if base is None else base)
    ensure_secret(data)
    data.write_once(data.example, EXAMPLE)
    return config or data.path


def check_first_ports(base: int) -> None:
    """Look whether the ports of a first configuration are free. Raises `StartError` where one is not: nothing is
    written yet then, so that the next start can move all of them."""
    from gatepost.service.plan import bind, close_sockets

    if "LISTEN_FDS" in os.environ:  # systemd holds the ports
        return
    for port, key in ((API_PORT, "abby"), (REST_PORT, "guard")):
        try:
            close_sockets(bind(("127.0.0.1",), base + port, key))
        except StartError as fault:
            raise StartError(
                f"{fault} Nothing was written yet. To move all ports, say --port-base 19000"
                " (make serve PORT_BASE=19000)."
            ) from None


def ensure_secret(data: DataFolder) -> None:
    """Write the secret that abby authenticates to guard with, unless it is there."""
    data.write_once(data.secret, secrets.token_hex(32))


def _write_configuration(data: DataFolder, base: int) -> None:
    data.write_once(data.path / GUARD_FILE, GUARD_YML.format(rest=base + REST_PORT, smtp=base + SMTP_PORT))
    if (data.path / ABBY_FILE).exists():
        return
    data.write_once(data.token, secrets.token_hex(32))
    guard = load_guard(data.path)
    source = guard.scan_sources.rest_api
    # As the operator wrote them: a reference to a secret stays one.
    secret = read_text(data.path / GUARD_FILE, "scanSources", "restApi", "secret")
    storage = read_text(data.path / GUARD_FILE, "storage", "url")
    text = ABBY_YML.format(
        listen=base + API_PORT,
        port=source.port if source else base + REST_PORT,
        secret=f"    secret: {json.dumps(secret)}\n" if secret else "",
        token=TOKEN_REFERENCE,
        storage=json.dumps(storage or guard.storage.url)[1:-1],
    )
    data.write_once(data.path / ABBY_FILE, text)


async def create_administrator(store: "Users", password: str) -> None:
    from gatepost.store.audit import SYSTEM
    from gatepost.web.credentials import PasswordHashes

    hashed = await PasswordHashes().hash(password)
    await store.create(ADMINISTRATOR, "administrator", None, hashed, SYSTEM, first_password=True)


PRIVATE = 0o077
# Called once everything serves, with the port of abby or of guard.
OnPlanStart: TypeAlias = "Callable[[Plan, int, Store], Awaitable[None]]"


class Started(msgspec.Struct, frozen=True):
    """What the operator is told about a service that runs.

    `certificate` is set if clients need it, `token_file` if the token of the first start is valid, `password` only the
    first time, `password_file` for as long as that password was not changed. `takes_scans` says whether there is a
    source for the Email Scanning API.
    """

    url: str
    data: DataFolder
    config: Path
    certificate: Path | None
    token_file: Path | None
    password: str | None
    notes: tuple[str, ...]
    takes_scans: bool = True
    password_file: Path | None = None


def serve(data: DataFolder, given: Path | None, greet: Callable[[Started], None], base: int | None = None) -> None:
    """Run both services; `greet` is called once they serve for the first time. `base` is what the ports of a first
    configuration are counted from."""
    _prepare_process(data)
    with data.lock("guard", "abby"):
        if given is None and not any((data.path / file).exists() for file in (GUARD_FILE, ABBY_FILE)):
            check_first_ports(PORT_BASE if base is None else base)
        folder = prepare(data, given, base)
        welcome = partial(_welcome_operator, data, folder, greet)
        _run(data, folder, ("guard", "abby"), _log_listening if systemd.is_restarted() else welcome)


def guard(data: DataFolder, folder: Path) -> None:
    _prepare_process(data)
    with data.lock("guard"):
        _run(data, folder, ("guard",), _log_listening)


def abby(data: DataFolder, folder: Path) -> None:
    _prepare_process(data)
    with data.lock("abby"):
        _run(data, folder, ("abby",), _log_listening)


def _run(data: DataFolder, local: Path, services: tuple[str, ...], started: OnPlanStart) -> None:
    """Run services by the files in force on this node; `local` is the folder of its own. A configuration that is tried
    and cannot be run gives way to the one before: the process starts again."""
    node, inherited = NodeFiles(data, services[0]), systemd.take_inherited_sockets()
    try:
        _run_in_force(node, data, local, services, started, inherited)
    except Exception as fault:
        if not node.end_broken_trial(fault):
            raise
    else:
        return
    systemd.replace_process(systemd.duplicate(each for each in inherited if each.fileno() >= 0))


def _run_in_force(
    node: NodeFiles,
    data: DataFolder,
    local: Path,
    services: tuple[str, ...],
    started: OnPlanStart,
    inherited: Sequence[socket.socket],
) -> None:
    version, folder = node.prepare_start(local)
    guard, abby = load_services(folder, services)
    models = folder / "models" if version.number else None
    if guard:
        # It loads while this process imports the services.
        rules = guard.yara.folder if guard.yara else ""
        begin_loader(WorkerFiles(rules, str(models or data.models), tuple(guard.plugins)))
    from gatepost.process import logs
    from gatepost.service.certificates import ensure_certificate
    from gatepost.service.doctor.examination import examine_in_child
    from gatepost.service.plan import Plan, bind_ports
    from gatepost.service.running import run_service
    from gatepost.store.errors import StorageError

    if folder == local:
        node.keep(local)
    if services == ("guard",) and guard and guard.scan_sources.any_source is None:
        raise StartError(f"{folder / GUARD_FILE} has no source under scanSources, so there is nothing to serve.")
    # guard and abby may both be first, and start at the same moment.
    with data.lock_patiently("start"):
        ensure_secret(data)
        ensure_certificate(data, _list_hosts(guard, abby))
    settings = guard or abby
    assert settings is not None
    logs.configure(settings.log.level, settings.log.format)
    plan = Plan(
        data,
        guard,
        abby,
        examine=lambda: examine_in_child(folder, data.path),
        config=folder,
        local=local,
        version=version.number,
        published_models=models,
    )

    async def started_with_warnings(port: int, store: "Store") -> None:
        await started(plan, port, store)
        await asyncio.to_thread(log_warnings, folder)

    save_loaded(data, plan.service, LoadedFiles(str(folder), time.time(), digest_files(folder, guard, abby)))
    with lock_sqlite_file(data, settings.storage.url, plan.services):
        bound = bind_ports(plan, inherited)
        used = {each for several in bound.values() for each in several}
        try:
            run_service(plan, bound, started_with_warnings, [each for each in inherited if each not in used])
        except StorageError as fault:
            said = "The service does not start, since its storage cannot be used; a service manager starts it again"
            raise StartError(f"{said}: {fault}") from None


def log_warnings(folder: Path) -> None:
    """Log what `gatepost config check` warns of: old names, weak tokens, certificates that expire."""
    from gatepost.process.logs import Logger

    for warning in files.find_warnings(folder):
        Logger("gatepost").warning("configuration warning", warning=str(warning))


def _prepare_process(data: DataFolder) -> None:
    """Make new files private, have SIGHUP wait until it can be heard, and allow as many descriptors as the system
    permits: each client needs one."""
    os.umask(PRIVATE)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    data.make()


def _list_hosts(guard: GuardSettings | None, abby: AbbySettings | None) -> list[str]:
    """Return the names and addresses that the certificate must cover."""
    source = guard.scan_sources.rest_api if guard else None
    hosts = [*(source.hosts if source else ()), *(abby.listen.hosts if abby else ())]
    return [host for host in hosts if host not in ANY]


async def _welcome_operator(
    data: DataFolder, folder: Path, greet: Callable[[Started], None], plan: "Plan", port: int, store: "Store"
) -> None:
    from gatepost.web.credentials import generate_password

    guard, abby = plan.guard, plan.abby
    assert guard is not None
    assert abby is not None
    users = await store.users.all()
    password = None if users else generate_password()
    if password:
        await asyncio.to_thread(data.replace, data.first_password, f"{password}\n")
    elif not any(user.first_password for user in users):
        data.first_password.unlink(missing_ok=True)
    started = Started(
        url=local_url(abby, port),
        data=data,
        config=folder,
        certificate=data.certificate if abby.tls is None else None,
        token_file=_find_token_file(data, abby),
        password=password,
        notes=tuple(_write_notes(guard)),
        takes_scans=guard.scan_sources.rest_api is not None,
        password_file=data.first_password if data.first_password.exists() else None,
    )
    await asyncio.to_thread(greet, started)
    if password:
        await create_administrator(store.users, password)
    await _log_listening(plan, port, store)


def local_url(settings: AbbySettings, port: int) -> str:
    """Return a URL of the service that works on this machine."""
    from gatepost.service.plan import render_address

    first = settings.listen.hosts[0]
    host = "127.0.0.1" if first in ANY else first
    return f"{'http' if settings.tls == 'off' else 'https'}://{render_address(host, port)}"


def _find_token_file(data: DataFolder, settings: AbbySettings) -> Path | None:
    if not data.token.exists():
        return None
    token = data.token.read_text("ascii").strip()
    return data.token if any(entry.token == token for entry in settings.static_api_tokens) else None


def _write_notes(settings: GuardSettings) -> Iterator[str]:
    if settings.scan_sources.smtp and not settings.delivery.has_next_hop:
        yield "scanSources.smtp is set without delivery.nextHop: mail that is to be delivered is answered with 451."
    if settings.unsealed:
        yield "unsealed is set: workers that parse hostile mail may reach files and network."
    if "GATEPOST_FAULT_INJECTION" in os.environ:
        yield "GATEPOST_FAULT_INJECTION is set: messages can make workers misbehave. For tests only."


async def _log_listening(plan: "Plan", port: int, _store: "Store") -> None:
    from gatepost.process.logs import Logger
    from gatepost.service.plan import render_address

    what = "gatepost" if len(plan.services) > 1 else plan.service
    source = plan.guard.scan_sources.any_source if plan.guard else None
    hosts = plan.abby.listen.hosts if plan.abby else source.hosts if source else ()
    shown = ", ".join(render_address(host, port) for host in hosts)
    Logger("gatepost").info("service listening", service=what, address=shown)
