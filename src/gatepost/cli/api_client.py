"""The API that a command calls, with an API key or a token; what is not given is taken from the data folder."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gatepost.cli.commands import Option, Options
from gatepost.cli.deployment import ConfigOption, DataOption, Deployment, announce
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.client import Client

VARIABLE = "GATEPOST_API_KEY"

UrlOption = Annotated[
    str | None, Option("--url", metavar="URL", help="The Gatepost to call; by default that of the configuration.")
]
KeyFileOption = Annotated[
    Path | None,
    Option("--key-file", metavar="FILE", help=f"File with the API key; by default the key is in {VARIABLE}."),
]
TokenOption = Annotated[
    Path | None,
    Option("--token-file", metavar="FILE", help="File with the API token; that of the data folder by default."),
]
CaOption = Annotated[
    Path | None,
    Option(
        "--cacert", metavar="FILE", help="Certificate to verify the server with; that of the data folder by default."
    ),
]
NoVerifyOption = Annotated[bool, Option("--no-verify", help="Do not verify the certificate of the server.")]


class ApiService(Options, frozen=True):
    """The connection options of every command that calls a service."""

    url: UrlOption = None
    cacert: CaOption = None
    no_verify: NoVerifyOption = False
    config: ConfigOption = None
    data: DataOption = None

    @property
    def place(self) -> Deployment:
        """The deployment of this machine."""
        return Deployment(config=self.config, data=self.data)

    def announce(self, deed: str, *, yes: bool) -> None:
        """Say what will be done by which service, before it is, and ask on a terminal."""
        announce(f"{deed} {_find_url(self)}.", yes=yes)


class ListService(ApiService, frozen=True):
    """The connection options of a command for the List API."""

    key_file: KeyFileOption = None

    def connect(self) -> "Client":
        return _open_client(self, api_key=_read_key(self.key_file))


class MessageService(ApiService, frozen=True):
    """The connection options of a command for the Email Scanning API."""

    token_file: TokenOption = None

    def connect(self) -> "Client":
        file = self.token_file or self.place.data_folder.token
        try:
            token = file.read_text("ascii").strip()
        except (OSError, ValueError):
            raise StartError(f"There is no API token in {file}; name a file that has one with --token-file.") from None
        return _open_client(self, token=token)


def _open_client(service: ApiService, *, token: str = "", api_key: str = "") -> "Client":
    from gatepost.client import Client

    own = service.place.data_folder.certificate
    ca = service.cacert or (own if own.exists() else None)
    url = _find_url(service)
    try:
        return Client(url, token, api_key=api_key, ca=ca, verify=not service.no_verify)
    except OSError:
        raise StartError(f"{ca} has no certificate that could be read.") from None


def _find_url(service: ApiService) -> str:
    """Return the address of the service that is asked: that of the option, or that which the configuration describes.
    Raises `StartError` where the folders belong to different services."""
    if service.url:
        return service.url
    from gatepost.service.commands import local_url

    service.place.check_target()
    settings = service.place.load_abby()
    return local_url(settings, settings.listen.port)


def _read_key(file: Path | None) -> str:
    try:
        key = (file.read_text("ascii") if file else os.environ.get(VARIABLE, "")).strip()
    except (OSError, ValueError):
        key = ""
    if not key and file is None:
        raise StartError(
            f"An API key is needed: name a file with --key-file, or set {VARIABLE}. gatepost apikey create makes one."
        )
    if not key or not key.isascii() or not key.isprintable():
        raise StartError(f"There is no API key in {file or VARIABLE}.")
    return key
