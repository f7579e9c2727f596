"""The deployment that a command works on, beside a service that may be running: folders, storage, policies, events.

Commands read the configuration that is in force (`Deployment.folder_in_force`), but for those that check or publish the
files of this machine. Most of them need only where storage is, and read nothing else: to check all of it takes longer
than the rest of the command. What a command changes in storage is told to the outputs of events that are configured.
"""

import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from gatepost.cli.commands import Argument, BadParameter, Option, Options, confirm
from gatepost.ids import canonical
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.store.errors import NotFound
from gatepost.times import DAY, date_time, milliseconds

if TYPE_CHECKING:
    from gatepost.events.stream import EventStream
    from gatepost.policy.layers import Policies
    from gatepost.settings.keys import AbbySettings, GuardSettings, PolicySettings
    from gatepost.store.audit import Actor
    from gatepost.store.store import Store

T = TypeVar("T")

# As `settings.files` names them; that module is not loaded for the names.
GUARD_FILE, ABBY_FILE = Path("guard/core/guard.yml"), Path("abby/abby/abby.yml")

ConfigOption = Annotated[
    Path | None,
    Option(
        "--config",
        metavar="DIR",
        variable="GATEPOST_CONFIG",
        help="Folder with guard/core/guard.yml and abby/abby/abby.yml; by default the data folder.",
    ),
]
DataOption = Annotated[
    Path | None,
    Option(
        "--data",
        metavar="DIR",
        variable="GATEPOST_DATA",
        help="Folder for all data; by default ~/.local/share/gatepost.",
    ),
]
YesOption = Annotated[bool, Option("--yes", help="Do not ask for confirmation.")]
TenantOption = Annotated[
    str | None, Option("--tenant", metavar="UID", help="The uid of a tenant; without it, all tenants.")
]
GgridArgument = Annotated[str, Argument(metavar="GGRID", help="The id of the message.")]
MailOwnerOption = Annotated[str | None, Option("--tenant", metavar="UID", help="Only mail of this tenant.")]
PolicyTenantOption = Annotated[
    str | None, Option("--tenant", metavar="UID", help="Use the policy for the mail of this tenant.")
]


class Deployment(Options, frozen=True):
    """The folders of a deployment, by the options that name them."""

    config: ConfigOption = None
    data: DataOption = None

    @property
    def data_folder(self) -> DataFolder:
        """The data folder, that of the option or the default one, by its absolute path."""
        option = self.data
        if option is None:
            home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
            option = Path(home) / "gatepost"
        return DataFolder(option.expanduser().absolute())

    @property
    def config_folder(self) -> Path:
        """The configuration folder, that of the option or else the data folder, by its absolute path."""
        return self.config.expanduser().absolute() if self.config else self.data_folder.path

    @property
    def folder_in_force(self) -> Path:
        """The folder of the files in force on this node: that of the published version, or the configuration folder."""
        versions = (self.data_folder.read_version(service) for service in ("guard", "abby"))
        return next((Path(each.folder) for each in versions if each.number), self.config_folder)

    def check_target(self) -> None:
        """Refuse one folder of the command line beside the other one of an environment variable: who names a folder for
        a trial does not mean the service whose variables are exported. Where the variables name the same folder too,
        all is well. Raises `StartError`."""
        is_data, is_config = _is_said("--data"), _is_said("--config")
        if is_data == is_config:
            return
        said, other = ("data", "config") if is_data else ("config", "data")
        variables = {"config": "GATEPOST_CONFIG", "data": "GATEPOST_DATA"}
        named = {each: _find_folder(os.environ.get(variable)) for each, variable in variables.items()}
        given = _find_folder(self.data if is_data else self.config)
        if named[other] not in (None, given) and named[said] != given:
            raise StartError(
                f"--{said} names {given}, but {variables[other]} names {named[other]}, which belongs to another"
                f" service: say --{other} as well, or unset {variables[other]}. Nothing was changed."
            )

    def announce(self, deed: str, *, yes: bool, any_node: bool = False) -> None:
        """Say what will be done to which database, before it is, and ask on a terminal, unless the answer is known.
        Standard output is for the result."""
        from gatepost.store import name_storage

        where = name_storage(self.find_storage(any_node=any_node), self.data_folder.path)
        announce(f"{deed} {where}.", yes=yes)

    @property
    def actor(self) -> "Actor":
        """Whom the audit trail names for what a command changes: the command line."""
        from gatepost.store.audit import CLI

        return CLI

    @property
    def has_guard_file(self) -> bool:
        return (self.folder_in_force / GUARD_FILE).exists()

    def load_guard(self) -> "GuardSettings":
        """Return the settings of `guard.yml`; raises `ConfigError`."""
        from gatepost.settings.files import load_guard

        return load_guard(self.folder_in_force)

    def load_guard_if_any(self) -> "GuardSettings":
        """Return the settings of `guard.yml`, or the defaults where there is none."""
        from gatepost.settings.keys import GuardSettings

        return self.load_guard() if self.has_guard_file else GuardSettings()

    def load_abby(self) -> "AbbySettings":
        """Return the settings of `abby.yml`; raises `ConfigError`."""
        from gatepost.settings.files import load_abby

        return load_abby(self.folder_in_force)

    def load_node(self) -> "GuardSettings | AbbySettings":
        """Return the settings of this node: those of `guard.yml`, or those of `abby.yml` where there is no `guard.yml`.
        Its `events` are in force on this machine. Raises `ConfigError`."""
        return self.load_guard() if self.has_guard_file else self.load_abby()

    def with_store(
        self, use: Callable[["Store"], Awaitable[T]], *, any_node: bool = False, url: str | None = None
    ) -> T:
        """Call `use` with the storage that `abby.yml` names, and return its result; with `any_node`, that of the file
        which this node has, and with `url` another one."""
        import asyncio

        from gatepost.store import open_store

        address, place = url or self.find_storage(any_node=any_node), self.data_folder
        place.make()

        async def run() -> T:
            store = open_store(address, place.path, at_once=False)
            try:
                with self.emit_changes(store):
                    return await use(store)
            finally:
                await store.close()

        return asyncio.run(run())

    def find_storage(self, *, any_node: bool = False) -> str:
        """Return the address of storage; raises `ConfigError` where the file that should name it has a fault."""
        from gatepost.settings.document import read_text

        self.check_target()
        is_guard = any_node and self.has_guard_file
        url = read_text(self.folder_in_force / (GUARD_FILE if is_guard else ABBY_FILE), "storage", "url", resolved=True)
        if url.startswith(("sqlite:", "postgresql:")):
            return url
        return (self.load_guard() if is_guard else self.load_abby()).storage.url

    @contextmanager
    def emit_changes(self, store: "Store") -> Iterator[None]:
        """Emit the events of what a command changes in storage. A command goes on where events cannot be written, and
        says so. Nothing of the event stream is loaded where no output is configured."""
        stream = self._open_events()
        if stream is None:
            yield
            return
        from gatepost.events.stream import observe_audit

        store.observe_changes(observe_audit(stream))
        try:
            yield
        finally:
            stream.close()

    def _open_events(self) -> "EventStream | None":
        file = self.folder_in_force / (GUARD_FILE if self.has_guard_file else ABBY_FILE)
        # A file without that key is not read as a whole.
        if not file.exists() or b"events" not in file.read_bytes():
            return None
        from gatepost.events.stream import OutputError, open_command_stream
        from gatepost.settings.faults import ConfigError

        try:
            events = self.load_node().events
            return open_command_stream(events, self.data_folder.path) if events.enabled else None
        except OutputError as fault:
            print(f"No events are written. {fault}", file=sys.stderr)
        except (ConfigError, OSError) as fault:
            reason = fault.faults[0] if isinstance(fault, ConfigError) else fault
            print(f"No events are written: {reason}", file=sys.stderr)
        return None

    def load_policies(self) -> "Policies":
        """Return the policies in force; the shipped policy if there is no configuration."""
        from gatepost.settings import files

        return files.load_policies(*self.load_policy_settings())

    def load_policy_settings(self) -> "tuple[PolicySettings, list[str]]":
        """Return the policy files and the plug-ins of the configuration."""
        from gatepost.settings.keys import PolicySettings

        if not self.has_guard_file and not (self.folder_in_force / ABBY_FILE).exists():
            return PolicySettings(), []
        settings = self.load_node()
        return settings.policy, settings.plugins

    def load_policies_with(self, file: Path, tenant: str | None) -> "Policies":
        """Return the policies with a file in place of the tenant's policy, or of the deployment's."""
        from gatepost.settings import files

        named, plugins = self.load_policy_settings()
        place = str(file.absolute())
        changed = {"tenants": {**named.tenants, tenant: place}} if tenant else {"file": place}
        return files.load_policies(named.model_copy(update=changed), plugins)


def _is_said(option: str) -> bool:
    return any(word == option or word.startswith(f"{option}=") for word in sys.argv[1:])


def _find_folder(stated: str | Path | None) -> Path | None:
    return Path(stated).expanduser().absolute() if stated else None


def announce(deed: str, *, yes: bool) -> None:
    """Say what will be done, and ask on a terminal, unless the answer is known. A script is not asked: it has said what
    it wants."""
    print(deed, file=sys.stderr, flush=True)
    if not yes and sys.stdin is not None and sys.stdin.isatty():
        confirm("Go on?")


def require_found(outcome: "T | NotFound", what: str) -> T:
    """Return the result of a call; raise `StartError` if it is `NotFound`."""
    if isinstance(outcome, NotFound):
        raise StartError(f"There is no {outcome.what} {what}.")
    return outcome


def find_actor() -> "Actor":
    import getpass

    from gatepost.store.audit import Actor

    try:
        return Actor("cli", getpass.getuser())
    except (KeyError, OSError):
        return Actor("cli")


def parse_tenant_uid(text: str | None, name: str = "--tenant") -> str | None:
    """Return a tenant uid in its stored form, from upper or lower case; `name` is that of the option or argument."""
    if text is None:
        return None
    uid = canonical(text)
    if uid is None:
        raise BadParameter("must be the uid of a tenant, as gatepost tenant list prints it", name)
    return uid


def parse_ggrid(text: str) -> str:
    """Return the id of a message in its stored form."""
    uid = canonical(text)
    if uid is None:
        raise BadParameter("must be a UUID", "GGRID")
    return uid


def parse_moment(text: str | None, option: str, *, end: bool = False) -> int | None:
    """Return a date or date-time as Unix milliseconds. A date alone is the start of that day in UTC, or its `end`."""
    if text is None:
        return None
    found = milliseconds(text)
    day = milliseconds(f"{text}T00:00:00Z")
    if found is None and day is None:
        raise BadParameter("must be a date such as 2030-01-31 or 2030-01-31T12:00:00Z", option)
    return found if day is None else day + (DAY if end else 0)


def render_time(milliseconds: int | None) -> str:
    """Return a time as text; empty for None."""
    return "" if milliseconds is None else date_time(milliseconds)
