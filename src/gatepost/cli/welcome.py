"""What `gatepost serve` says when it is up: where it listens, and how to send the first message."""

import shlex
import sys
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from gatepost.service.commands import Started

_PARAMETERS = '{"borderMtaData":{"envelopeFrom":"ann@example.org","envelopeRecipients":["bob@example.com"]}}'


def greet(started: Started) -> None:
    """Print the welcome. The command stands outside of the frame, so that it can be copied as it is."""
    console = Console(highlight=False)
    text = "\n".join(_lines(started))
    if console.is_terminal:
        console.print(Panel.fit(Text(text), title="Gatepost", border_style="green"))
    else:
        print(text)
    which = "" if started.token_file else ", with TOKEN set to one of staticApiTokens"
    print(f"\nSend a message, from any shell{which}:\n\n{curl(started)}\n")
    sys.stdout.flush()


def _lines(started: Started) -> list[str]:
    lines = [f"Gatepost listens on {started.url}: the web interface; the APIs are described at {started.url}/docs"]
    if started.token_file:
        lines.append(f"Token:          {started.token_file}")
    lines += [f"Configuration:  {started.config}", f"Data:           {started.data.path}"]
    if started.password:
        lines.append(f"Administrator:  admin, password {started.password} (shown only this once)")
    lines += [f"Note:           {note}" for note in started.notes]
    return [*lines, "Ctrl-C finishes requests in flight, then stops."]


def _file_name(path: Path) -> str:
    """As curl wants it, where a name may hold a comma or a semicolon."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def curl(started: Started) -> str:
    """A command that submits the example message and works as printed, in any folder."""
    token = f"$(cat {shlex.quote(str(started.token_file))})" if started.token_file else "$TOKEN"
    trust = ["--cacert", shlex.quote(str(started.certificate))] if started.certificate else []
    lines = [
        " ".join(["curl", "-sS", "--noproxy", "'*'", *trust]),
        f'-H "Authorization: Bearer {token}"',
        f"-F {shlex.quote(f'parameters={_PARAMETERS};type=application/json')}",
        f"-F {shlex.quote(f'email=@{_file_name(started.data.example)};type=message/rfc822')}",
        f"{started.url}/v1/messageQueue/submitEmail",
    ]
    return " \\\n  ".join(lines)
