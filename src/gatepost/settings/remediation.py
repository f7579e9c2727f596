"""Keys of `abby.yml` on taking delivered mail out of mailboxes. Off where they are not set."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from gatepost.settings.values import (
    Count,
    Domain,
    FilePath,
    Milliseconds,
    Secret,
    Section,
    TenantUid,
    live,
)

MAX_MAILBOX_SERVERS, MAX_NAMES = 100, 1_000


def _check_imap(text: str) -> str:
    try:
        parts = urlsplit(text)
        fits = (
            parts.scheme in ("imaps", "imap") and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        )
    except ValueError:
        fits = False
    if not fits or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("must be of the form imaps://host:port, or imap://host:port for STARTTLS")
    return text


def _check_user(text: str) -> str:
    if "{address}" not in text and "{local}" not in text:
        raise ValueError("must have {address} or {local} in it, which stands for the recipient")
    return text


ImapServer = Annotated[str, AfterValidator(_check_imap)]
MailboxUser = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[ -~]+$"), AfterValidator(_check_user)]
FolderName = Annotated[str, Field(min_length=1, max_length=100, pattern=r'^[^"\\*%&\x00-\x1f\x7f-\U0010ffff]+$')]


class MailboxServerSettings(Section):
    """An IMAP server, and whose mailboxes it has."""

    domains: Annotated[list[Domain], Field(max_length=MAX_NAMES)] = live(
        [], description="domains of recipients whose mailboxes are here"
    )
    tenants: Annotated[list[TenantUid], Field(max_length=MAX_NAMES)] = live(
        [], description="uids of tenants whose mailboxes are here; a server that names the domain goes before"
    )
    server: ImapServer = live(description="`imaps://host:port`, or `imap://host:port`, which must offer STARTTLS")
    user: MailboxUser = live(
        description="name that opens a mailbox; `{address}` and `{local}` stand for the recipient:"
        " `{address}*gatepost` is a master user of Dovecot"
    )
    password: Secret = live(description="password of that user; `${env:NAME}` and `${file:PATH}` are replaced")
    ca: FilePath | None = live(
        None, description="PEM file with the authorities that the certificate is checked with", local=True
    )
    folder: FolderName = live(
        "Removed by Gatepost", description="folder of the mailbox that messages are moved to; it is made if need be"
    )


class RemediationSettings(Section):
    """Taking delivered mail out of mailboxes."""

    servers: Annotated[list[MailboxServerSettings], Field(min_length=1, max_length=MAX_MAILBOX_SERVERS)] = live(
        description="where mailboxes are; the first that names the recipient's domain, else the tenant, counts"
    )
    removes: Literal["move", "delete"] = live(
        "move", description="`move` to the folder, which can be undone, or `delete`, which cannot"
    )
    only_exact: bool = live(
        False,
        description="whether a copy must end with the very bytes that were scanned; else Message-ID and size do",
    )
    max_per_hour: Count = live(
        1_000, description="maximum number of copies that are removed in an hour, for each tenant"
    )
    timeout: Milliseconds = live(30_000, description="milliseconds to wait for an answer of the server")
