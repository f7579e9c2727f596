"""`gatepost serve`, `gatepost guard` and `gatepost abby`: both services in one process, or one each.

`gatepost serve` prints where it listens, how to send the first message, and what a shell needs for the commands.
"""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gatepost.cli.commands import BadParameter, Option
from gatepost.cli.deployment import Deployment

if TYPE_CHECKING:
    from gatepost.service.commands import Started

_PARAMETERS = (
    '{"borderMtaData":{"envelopeFrom":"ann@company.example","envelopeRecipients":["bob@example.com"],'
    '"remoteAddress":"192.0.2.17"}}'
)


def serve(
    *,
    port_base: Annotated[
        int | None,
        Option(
            metavar="N", least=1_024, help="Count the ports of a first configuration from N: N+81, N+785 and N+1025."
        ),
    ] = None,
    place: Deployment,
) -> None:
    """Run guard and abby together; if there is no configuration, write a working one first."""
    from gatepost.service import commands

    if port_base is not None and port_base > commands.MAX_PORT_BASE:
        raise BadParameter(f"must be at most {commands.MAX_PORT_BASE}", "--port-base")

    place.check_target()

    def greet_with_storage(started: "Started") -> None:
        # The files were read and are right: the first command that only needs storage does not check them again.
        place.find_storage()
        greet(started)

    commands.serve(place.data_folder, place.config_folder if place.config else None, greet_with_storage, port_base)


def guard(*, place: Deployment) -> None:
    """Run the core alone."""
    from gatepost.service import commands

    place.check_target()
    commands.guard(place.data_folder, place.config_folder)


def abby(*, place: Deployment) -> None:
    """Run the API service alone."""
    from gatepost.service import commands

    place.check_target()
    commands.abby(place.data_folder, place.config_folder)


def greet(started: "Started") -> None:
    """Print the welcome."""
    print(*_welcome_lines(started), sep="\n")
    if started.takes_scans:
        which = "" if started.token_file else ", with TOKEN set to one of staticApiTokens"
        print(f"\nSend a message, from any shell{which}:\n\n{render_curl(started)}")
    else:
        print("\nThe Email Scanning API is off: add restApi under scanSources in guard.yml, and restart.")
    print(f"\nFor the gatepost commands of the documentation, in another shell:\n\n{render_exports(started)}\n")
    sys.stdout.flush()


def render_exports(started: "Started") -> str:
    """Return a line that makes a shell find this program and the data of this service."""
    programs = Path(sys.executable).parent
    values = [f'PATH={shlex.quote(str(programs))}:"$PATH"', f"GATEPOST_DATA={shlex.quote(str(started.data.path))}"]
    if started.config != started.data.path:
        values.append(f"GATEPOST_CONFIG={shlex.quote(str(started.config))}")
    return " ".join(["export", *values])


def _welcome_lines(started: "Started") -> list[str]:
    lines = [f"Gatepost listens on {started.url} (web interface); API documentation: {started.url}/docs"]
    if started.token_file:
        lines.append(f"Token:          {started.token_file}")
    lines += [f"Configuration:  {started.config}", f"Data:           {started.data.path}"]
    if started.password and sys.stdout.isatty():
        lines.append(f"Administrator:  admin, password {started.password} (also in {started.password_file})")
    elif started.password_file:
        lines.append(f"Administrator:  admin, password in {started.password_file}")
    lines += [f"Note:           {note}" for note in started.notes]
    return [*lines, "Ctrl-C finishes requests in flight, then stops."]


def _quote_file_name(path: Path) -> str:
    """Quote a file name for curl -F, where a name may contain a comma or a semicolon."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def render_curl(started: "Started") -> str:
    """Return a command that submits the example message and works as printed, in any folder."""
    token = f"$(cat {shlex.quote(str(started.token_file))})" if started.token_file else "$TOKEN"
    trust = ["--cacert", shlex.quote(str(started.certificate))] if started.certificate else []
    lines = [
        " ".join(["curl", "-sS", "--noproxy", "'*'", *trust]),
        f'-H "Authorization: Bearer {token}"',
        f"-F {shlex.quote(f'parameters={_PARAMETERS};type=application/json')}",
        f"-F {shlex.quote(f'email=@{_quote_file_name(started.data.example)};type=message/rfc822')}",
        f"{started.url}/v1/messageQueue/submitEmail",
    ]
    return " \\\n  ".join(lines)
