"""What one process runs: the parts that guard and abby share in it, and the ports, bound before anything starts.

A busy port gives one sentence instead of a half-started service. A port is bound first and listened on when the service
is ready: until then connections are refused. In between the port must be taken for good: with SO_REUSEADDR two sockets
can be bound to one port until one of them listens (socket(7)). That option is therefore used only against the remains
of closed connections, and set for all sockets once the service listens.

`reusePort` has several instances share a port (SO_REUSEPORT, socket(7)): the kernel gives each connection to one that
listens. All who bind the port have the option, and one user.
"""

import errno
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from gatepost.events.stream import NO_EVENTS, Emits
from gatepost.process.health import HealthLedger
from gatepost.process.logs import Logger
from gatepost.rejudge.policies_in_force import PoliciesInForce
from gatepost.scanning.spool import Spool
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.doctor.rows import DoctorRow
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.scan_sources import Door, TlsSettings
from gatepost.settings.values import split_address
from gatepost.store.store import Store

log = Logger("gatepost")

_REASONS = {
    errno.EADDRINUSE: "another program uses it",
    errno.EADDRNOTAVAIL: "this machine does not have that address",
    errno.EACCES: "this user may not use that port; choose one above 1023",
}

# What to change where another program has a port, by the key that names it.
_TAKEN = {
    "listen in abby.yml": "set another listen.port in abby.yml; a first start can move all ports with --port-base",
    "scanSources.restApi in guard.yml": "set another scanSources.restApi.port in guard.yml, and the same port in"
    " serviceProviders.core.hosts in abby.yml",
    "scanSources.smtp in guard.yml": "set another scanSources.smtp.port in guard.yml, and tell the mail server in"
    " front of it",
}

# What stands before the path of a Unix socket in the settings.
UNIX = "unix:"

Inherited = dict[tuple[int, tuple[str, int]], socket.socket]


def bind(
    hosts: tuple[str, ...], port: int, key: str, inherited: Inherited | None = None, *, reuse_port: bool = False
) -> tuple[socket.socket, ...]:
    """Bind a port on every address of every host, or take it from those that were inherited; `key` is the setting that
    an error names. Raises `StartError`."""
    inherited = {} if inherited is None else inherited
    kept = set(inherited.values())
    bound: dict[tuple[int, tuple[str, int]], socket.socket] = {}
    for host in hosts:
        try:
            for each in _find_addresses(host, port):
                if each not in bound and not (port == 0 and bound):
                    found = _take_inherited(each, inherited, reuse_port=reuse_port)
                    bound[each] = found or _bind_one(*each, reuse_port=reuse_port)
        except OSError as fault:
            close_sockets([each for each in bound.values() if each not in kept])
            known = {} if host.startswith(UNIX) and fault.errno == errno.EACCES else _REASONS
            reason = known.get(fault.errno or 0, (fault.strerror or str(fault)).lower())
            if fault.errno == errno.EADDRINUSE and key in _TAKEN:
                reason += f"; {_TAKEN[key]}"
            if fault.errno == errno.EADDRINUSE and reuse_port:
                reason += ". All who share a port need reusePort and the same user"
            raise StartError(f"Gatepost cannot listen on {render_address(host, port)} ({key}): {reason}.") from None
    return tuple(bound.values())


def _take_inherited(
    address: tuple[int, tuple[str, int]], inherited: Inherited, *, reuse_port: bool
) -> socket.socket | None:
    """Take a socket that was inherited and can be reached: the file of a Unix socket may have been removed."""
    family, (place, port) = address
    if family == socket.AF_UNIX and not Path(place).exists():
        return None
    found = inherited.pop(address, None)
    if found and family != socket.AF_UNIX and found.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) != reuse_port:
        hint = "stop and start the service, or set ReusePort in the socket unit"
        log.warning("reusePort does not hold for an inherited socket", address=render_address(place, port), hint=hint)
    return found


def close_sockets(sockets: Sequence[socket.socket]) -> None:
    """Close all of them, which frees their ports."""
    for each in sockets:
        each.close()


def port_of(sockets: Sequence[socket.socket]) -> int:
    """Return the port of bound sockets; the kernel chose it if 0 was asked for. A Unix socket has none, which is 0."""
    return _address_of(sockets[0])[1]


def _address_of(bound: socket.socket) -> tuple[str, int]:
    name = bound.getsockname()
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else (str(name), 0)


def render_address(host: str, port: int) -> str:
    """Return host and port as they are written in a URL, and a Unix socket as it is written in the settings."""
    if host.startswith((UNIX, "/")):
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _find_addresses(host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
    if host.startswith(UNIX):
        return [(int(socket.AF_UNIX), (host.removeprefix(UNIX), 0))]
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    if host == "::":
        # A socket for each family, so that IPv4 clients have their own addresses and not mapped ones.
        found += socket.getaddrinfo("0.0.0.0", port, type=socket.SOCK_STREAM)  # noqa: S104
    several = list(dict.fromkeys((family, (str(address[0]), port)) for family, _, _, _, address in found))
    # With port 0 each address would get a port of its own.
    return [(int(family), address) for family, address in several][: 1 if port == 0 else None]


def _bind_one(family: int, address: tuple[str, int], *, reuse_port: bool) -> socket.socket:
    if family == socket.AF_UNIX:
        return _bind_unix(address[0])
    options = (socket.SO_REUSEPORT,) if reuse_port else ()
    try:
        return _try_bind(family, address, *options)
    except OSError as fault:
        if fault.errno != errno.EADDRINUSE:
            raise
        return _try_bind(family, address, *options, socket.SO_REUSEADDR)


def _bind_unix(path: str) -> socket.socket:
    """Bind a Unix socket, closed to all but its owner. A file that nobody listens on is the remains of a service that
    has ended: files of sockets stay when it does, so that a restart can go on with them."""
    if is_left_behind(path):
        Path(path).unlink()
    created = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        created.setblocking(False)
        before = os.umask(0o177)
        try:
            created.bind(path)
        finally:
            os.umask(before)
    except OSError:
        created.close()
        raise
    return created


def is_left_behind(path: str) -> bool:
    """Whether a path is that of a Unix socket on which nobody listens."""
    try:
        if not Path(path).is_socket():
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            probe.connect(path)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def _try_bind(family: int, address: tuple[str, int], *options: int) -> socket.socket:
    created = socket.socket(family, socket.SOCK_STREAM)
    try:
        for option in options:
            created.setsockopt(socket.SOL_SOCKET, option, 1)
        if family == socket.AF_INET6:
            created.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        created.setblocking(False)
        created.bind(address)
    except OSError:
        created.close()
        raise
    return created


Bound = dict[str, tuple[socket.socket, ...]]


class Plan(msgspec.Struct, frozen=True):
    """What this process runs: a core, the API service, or both.

    `config` is the folder of the files, for child processes that read them again, and `local` that of the node's own:
    they differ where a published version is in force, `version`, or a copy of files that have changed since. `examine`
    returns what `gatepost doctor` finds.
    """

    data: DataFolder
    guard: GuardSettings | None = None
    abby: AbbySettings | None = None
    examine: Callable[[], tuple[DoctorRow, ...]] = tuple
    config: Path | None = None
    local: Path | None = None
    version: int = 0
    published_models: Path | None = None

    @property
    def service(self) -> str:
        """The name under which the data folder knows this node."""
        return "guard" if self.guard else "abby"

    @property
    def services(self) -> tuple[str, ...]:
        """The names of the services that run here."""
        return tuple(name for name, settings in (("guard", self.guard), ("abby", self.abby)) if settings)

    @property
    def models(self) -> Path:
        """The folder of text models: that of the published version, if one is in force."""
        return self.published_models or self.data.models

    @property
    def settings(self) -> GuardSettings | AbbySettings:
        """The settings that decide what both services share: storage and policy."""
        settings = self.guard or self.abby
        assert settings is not None
        return settings

    @property
    def secret(self) -> str:
        """The secret with which abby authenticates to guard."""
        source = self.guard.scan_sources.rest_api if self.guard else None
        given = (source.secret if source else None) or (self.abby.service_providers.core.secret if self.abby else None)
        return given or self.data.secret.read_text("ascii").strip()

    @property
    def ca(self) -> Path:
        """The file with which guard's certificate is verified."""
        given = self.abby.service_providers.core.ca if self.abby else None
        return Path(given) if given else self.data.certificate

    @property
    def certificate(self) -> tuple[Path, Path] | None:
        """The certificate and key that abby shows; None with `tls: off`."""
        tls = self.abby.tls if self.abby else None
        if tls == "off":
            return None
        return (Path(tls.certificate), Path(tls.key)) if isinstance(tls, TlsSettings) else self.own_certificate

    @property
    def guard_certificate(self) -> tuple[Path, Path]:
        """The certificate and key that the HTTPS source of guard shows."""
        tls = self.guard.tls if self.guard else None
        return (Path(tls.certificate), Path(tls.key)) if tls else self.own_certificate

    @property
    def smtp_certificate(self) -> tuple[Path, Path]:
        """The certificate and key for STARTTLS: guard's own, else that of abby in the same process."""
        if self.guard and self.guard.tls:
            return self.guard_certificate
        return self.certificate or self.own_certificate

    @property
    def own_certificate(self) -> tuple[Path, Path]:
        """The self-signed certificate of the data folder, and its key."""
        return self.data.certificate, self.data.key


class SharedParts(msgspec.Struct, frozen=True):
    """What guard and abby share in one process. `metrics` renders what `/metrics` answers."""

    store: Store
    spool: Spool
    policies: PoliciesInForce
    registry: CollectorRegistry
    events: Emits = NO_EVENTS
    metrics: Callable[[], bytes] = bytes
    health: HealthLedger = msgspec.field(default_factory=HealthLedger)


def bind_ports(plan: Plan, inherited: Sequence[socket.socket] = ()) -> Bound:
    """Bind every port that is needed, or none of them. Sockets that this process was started with are used; those that
    no setting names stay open, but for those that are in the way of a port that one does name. Raises `StartError`."""
    bound: Bound = {}
    left: Inherited = {(int(each.family), _address_of(each)): each for each in inherited}
    doors = list_doors(plan)
    _close_obstacles(doors, left)
    try:
        for door in doors:
            bound[door.name] = bound.get(door.name, ()) + open_door(door, left)
        _open_unix_sockets(plan)
    except StartError:
        close_sockets([each for several in bound.values() for each in several if each not in inherited])
        raise
    for _, (host, port) in left:
        log.warning("an inherited socket is not used: no setting names it", address=render_address(host, port))
    return bound


def _close_obstacles(doors: Sequence[Door], inherited: Inherited) -> None:
    """Close sockets with the port of a door and another address: `127.0.0.1` is in the way of `0.0.0.0`."""
    ports = {door.port for door in doors}
    try:
        wanted = {each for door in doors for host in door.hosts for each in _find_addresses(host, door.port)}
    except OSError:
        return  # binding tells which host that is
    for each in [each for each in inherited if each not in wanted and each[1][1] in ports]:
        inherited.pop(each).close()


def check_new_ports(before: Plan, after: Plan) -> None:
    """Raise `StartError` if a port that comes with a changed configuration cannot be bound."""
    known = {(host, door.port) for door in list_doors(before) for host in door.hosts}
    ports = {port for _, port in known if port}
    for door in list_doors(after):
        if door.port not in ports and not known.issuperset((host, door.port) for host in door.hosts):
            close_sockets(open_door(door))


def _open_unix_sockets(plan: Plan) -> None:
    """Let those use the Unix sockets whom the settings allow to."""
    for asker in plan.guard.scan_sources.askers.values() if plan.guard else ():
        for address in asker.addresses:
            if address.startswith(UNIX):
                Path(address.removeprefix(UNIX)).chmod(int(asker.socket_mode, 8))


def release_ports(bound: Bound) -> None:
    for each in bound.values():
        close_sockets(each)


# The names of ports, where they differ from the names of their sources.
_NAMES = {"restApi": "guard", "smtp.outbound": "outbound smtp"}


def list_doors(plan: Plan) -> list[Door]:
    """Return everything that listens, by the names of ports."""
    doors = []
    if plan.abby:
        listen = plan.abby.listen
        doors.append(Door("abby", ("listen", "port"), listen.hosts, listen.port, listen))
    mail = plan.guard.scan_sources.doors if plan.guard else ()
    doors += [msgspec.structs.replace(door, name=_NAMES.get(door.name, door.name)) for door in mail]
    for name, settings in (("metrics", plan.abby), ("guard metrics", plan.guard)):
        if settings and settings.metrics.listen:
            host, port = split_address(settings.metrics.listen, 0)
            doors.append(Door(name, ("metrics", "listen"), (host,), port))
    return doors


def open_door(door: Door, inherited: Inherited | None = None) -> tuple[socket.socket, ...]:
    """Bind what a door says; raises `StartError`."""
    steps = ".".join(step for step in door.key if isinstance(step, str)).removesuffix(".port")
    key = f"{steps} in {'abby' if door.name in {'abby', 'metrics'} else 'guard'}.yml"
    shared = door.section is not None and door.section.reuse_port
    return bind(door.hosts, door.port, key, inherited, reuse_port=shared)
