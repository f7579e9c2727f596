"""The analysis by a running Gatepost, through the client that is there for everybody."""

import contextlib
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import msgspec

from gatepost.cli.batch import Analysed, NotScanned, Scanner
from gatepost.cli.mailbox import Mail
from gatepost.client import ApiError, Client
from gatepost.mail.message import Envelope
from gatepost.service.datafolder import DataFolder, StartError

# The API wants a recipient; a file does not have one.
NOBODY = "recipient@example.invalid"
# This message cannot be scanned; the next one may.
_REFUSED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})


class Service(msgspec.Struct, frozen=True):
    """Which Gatepost, and how to trust each other; what is not given is taken from the data folder."""

    url: str
    token_file: Path | None
    cacert: Path | None
    verify: bool


@contextlib.contextmanager
def scanner(service: Service, envelope: Envelope, data: DataFolder) -> Iterator[Scanner]:
    """Whoever has a message scanned there."""
    token_file = service.token_file or data.token
    try:
        token = token_file.read_text("ascii").strip()
    except (OSError, ValueError):
        raise StartError(f"There is no token in {token_file}; name a file that has one with --token-file.") from None
    own = data.certificate if data.certificate.exists() else None
    with _connected(service, token, service.cacert or own) as client:
        yield lambda mail: _analysed(client, mail, envelope)


def _connected(service: Service, token: str, ca: Path | None) -> Client:
    try:
        return Client(service.url, token, ca=ca, verify=service.verify)
    except OSError:
        raise StartError(f"{ca} has no certificate that could be read.") from None


def _analysed(client: Client, mail: Mail, envelope: Envelope) -> Analysed | NotScanned:
    try:
        result = client.scan(
            mail.raw,
            sender=envelope.sender,
            recipients=envelope.recipients or (NOBODY,),
            remote_address=envelope.remote_address,
            helo=envelope.helo,
            tenant=envelope.tenant,
        )
    except ApiError as fault:
        if fault.status not in _REFUSED:
            raise
        return NotScanned(str(fault))
    try:
        return client.message(result.ggrid)
    except ApiError as fault:
        # Not every token may read ledgers.
        if fault.status != HTTPStatus.FORBIDDEN:
            raise
        return result
