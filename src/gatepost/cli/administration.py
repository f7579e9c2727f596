"""`gatepost-admin`: any `gatepost` command as the user of the service, with the environment of the service.

An installation under systemd has its folders and passwords in an environment file, and its data belong to a user of
their own. A command that root runs by itself would have neither: it would look for another data folder, leave files
that the service cannot read, and let libraries look into root's home. So this program reads the file, becomes that
user for good, and only then runs `gatepost` with the same arguments. Nothing of mail or configuration is read before.

The file has the form of systemd's `EnvironmentFile` (systemd.exec(5)): lines of NAME=value, the value as it is or in
single or double quotes; lines that begin with `#` or `;` say nothing. Here a value takes one line.
"""

import os
import pwd
import re
import stat
import sys
from pathlib import Path
from typing import NoReturn

FILE = Path("/etc/gatepost/gatepost.env")
# Another file than that, for a second installation on a machine, and the user of the service.
FILE_VARIABLE, USER_VARIABLE = "GATEPOST_ENVIRONMENT", "GATEPOST_USER"
DEFAULTS = {"GATEPOST_CONFIG": "/etc/gatepost", "GATEPOST_DATA": "/var/lib/gatepost", USER_VARIABLE: "gatepost"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What of the caller's environment a command may know: how to write to the terminal.
_KEPT = ("TERM", "LANG", "LANGUAGE", "TZ", "COLUMNS", "LINES", "NO_COLOR", "GATEPOST_API_KEY")
_MAX_BYTES = 1 << 20
_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.ASCII)


class AdministrationError(Exception):
    """Why a command cannot be run, as a sentence that says what to do."""


def main() -> NoReturn:
    """Run a command of `gatepost` as the user of the service."""
    try:
        environment = build_environment(Path(os.environ.get(FILE_VARIABLE) or FILE))
        become(environment[USER_VARIABLE])
        # Not `-m` alone, which would take modules from the folder that the caller is in.
        command = [sys.executable, "-I", "-m", "gatepost", *sys.argv[1:]]
        os.execve(sys.executable, command, environment)  # noqa: S606  the arguments are the caller's own
    except AdministrationError as fault:
        sys.exit(str(fault))
    except OSError as fault:
        sys.exit(f"{sys.executable} cannot be run as the user of the service: {fault.strerror}.")


def build_environment(file: Path) -> dict[str, str]:
    """Return the environment of a command: what the file says, the defaults of an installation, and little of the
    caller's. Raises `AdministrationError`."""
    said = DEFAULTS | read_environment(file)
    user = _find_user(said[USER_VARIABLE])
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}
    about = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "PATH": PATH}
    return kept | about | said


def read_environment(file: Path) -> dict[str, str]:
    """Return the variables of an environment file; none where there is no file. Raises `AdministrationError` where
    others than root and its owner could have written it, and for a line that is no assignment."""
    try:
        with file.open("rb") as stream:
            about = os.fstat(stream.fileno())
            raw = stream.read(_MAX_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as fault:
        hint = "run it as root" if os.geteuid() else "look at its rights"
        raise AdministrationError(f"{file} cannot be read: {fault.strerror}; {hint}.") from None
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or about.st_uid not in (0, os.geteuid()):
        raise AdministrationError(f"{file} can be changed by others than root: chown root and chmod go-w it first.")
    found: dict[str, str] = {}
    for number, line in enumerate(raw.decode("utf-8", "replace").splitlines(), 1):
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise AdministrationError(f"{file}, line {number}: it must be NAME=value.")
        found[match[1]] = _unquote(match[2].strip(), f"{file}, line {number}")
    return found


def _unquote(value: str, where: str) -> str:
    if value[:1] not in ("'", '"'):
        return value
    quote, inner = value[0], value[1:-1]
    if len(value) < 2 or value[-1] != quote or quote in inner.replace(f"\\{quote}", "") or inner.endswith("\\"):
        raise AdministrationError(f"{where}: the quotes must end with the line.")
    return inner.replace(f"\\{quote}", quote).replace("\\\\", "\\") if quote == '"' else inner


def become(name: str) -> None:
    """Be this user from now on, with its groups and no others. Raises `AdministrationError`."""
    user = _find_user(name)
    if os.geteuid() == user.pw_uid:
        return
    if os.geteuid() != 0:
        raise AdministrationError(f"gatepost-admin must be run by root or by {name}, for example with sudo.")
    os.initgroups(user.pw_name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    os.umask(0o077)


def _find_user(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise AdministrationError(
            f"There is no user {name}: create the user of the service, or name it with {USER_VARIABLE} in {FILE}."
        ) from None
