"""The calls of the Email Scanning API as exchanges: one function each, shared by both clients.

The calls of the List API as exchanges, and its stream of lines as they come: shared by both clients.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias
from urllib.parse import quote

import msgspec

from gatepost.api.lists import (
    AddEntriesRequest,
    DeleteEntriesRequest,
    GetListsRequest,
    ListChange,
    ListEntriesRequest,
    ListFileInfo,
    ListsOfScope,
    NewListEntry,
    PublicListsEntry,
    encode_lists,
)
from gatepost.api.operations import LISTS_BASE
from gatepost.api.scanning import (
    AnalysedMessage,
    BorderMtaData,
    MessageAnalysisRequest,
    MessageAnalysisResult,
    SystemStatus,
    encode_scanning,
)
from gatepost.client.exchange import (
    BrokenStreamError,
    Exchange,
    Reply,
    Retries,
    Send,
    UnexpectedReplyError,
    answered,
    call,
    multipart,
)

Raw: TypeAlias = bytes | Path | BinaryIO


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What the border MTA knows of a message. An empty `sender` is a bounce's."""

    sender: str = ""
    recipients: Sequence[str]
    remote_address: str | None = None
    helo: str | None = None
    tenant: str | None = None


def scan(raw: Raw, envelope: Envelope, retries: Retries) -> Exchange[MessageAnalysisResult]:
    """`POST /v1/messageQueue/submitEmail`."""
    parameters = MessageAnalysisRequest(
        border_mta_data=BorderMtaData(
            envelope_from=envelope.sender,
            envelope_recipients=tuple(envelope.recipients),
            remote_address=envelope.remote_address,
            sender_helo=envelope.helo,
        ),
        tenant_uid=envelope.tenant,
    )
    content_type, body = multipart(
        [
            ("parameters", "application/json", encode_scanning(parameters)),
            ("email", "message/rfc822", _content(raw)),
        ]
    )
    request = Send("POST", "/v1/messageQueue/submitEmail", body, {"content-type": content_type})
    return call(request, MessageAnalysisResult, retries)


def status(retries: Retries) -> Exchange[SystemStatus]:
    """`POST /v1/admin/status`."""
    return call(Send("POST", "/v1/admin/status"), SystemStatus, retries)


def message(ggrid: str, retries: Retries) -> Exchange[AnalysedMessage]:
    """`GET /v1/messages/{ggrid}`."""
    return call(Send("GET", f"/v1/messages/{quote(ggrid, safe='')}"), AnalysedMessage, retries)


def _content(raw: Raw) -> bytes:
    if isinstance(raw, Path):
        return raw.read_bytes()
    return raw if isinstance(raw, bytes) else raw.read()


class Listed(msgspec.Struct, frozen=True):
    """Which list: its name, and whose it is; no tenant is the deployment-global scope."""

    name: str
    tenant: str | None = None


class Calls:
    """The four operations with one key."""

    def __init__(self, api_key: str, retries: Retries) -> None:
        self._headers: Final = {"authorization": f"apikey {api_key}", "content-type": "application/json"}
        self._retries = retries

    def add(self, target: Listed, entries: Iterable[NewListEntry | str], dry_run: bool) -> Exchange[ListChange]:
        """`POST addEntries`."""
        stated = tuple(NewListEntry(each) if isinstance(each, str) else each for each in entries)
        body = AddEntriesRequest(target.name, stated, target.tenant, dry_run or None)
        return call(self._post("addEntries", body), ListChange, self._retries)

    def delete(self, target: Listed, entries: Sequence[str], dry_run: bool) -> Exchange[ListChange]:
        """`POST deleteEntries`."""
        body = DeleteEntriesRequest(target.name, tuple(entries), target.tenant, dry_run or None)
        return call(self._post("deleteEntries", body), ListChange, self._retries)

    def lists(self, tenant: str | None) -> Exchange[tuple[ListFileInfo, ...]]:
        """`POST getLists`."""
        answer = yield from call(self._post("getLists", GetListsRequest(tenant)), ListsOfScope, self._retries)
        return answer.list_file_infos

    def entries(self, target: Listed) -> Exchange[Reply]:
        """`POST listEntries`, until the stream is open."""
        return answered(self._post("listEntries", ListEntriesRequest(target.name, target.tenant)), self._retries)

    def _post(self, operation: str, body: object) -> Send:
        return Send("POST", f"{LISTS_BASE}/{operation}", encode_lists(body), self._headers)


class Lines:
    """Entries out of the bytes of a stream, however they were cut."""

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(PublicListsEntry)
        self._rest = b""

    def feed(self, chunk: bytes) -> list[PublicListsEntry]:
        """The entries that are complete with this chunk."""
        whole, ended, rest = chunk.rpartition(b"\n")
        if not ended:
            self._rest += chunk
            return []
        data, self._rest = self._rest + whole, rest
        try:
            return self._decoder.decode_lines(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise UnexpectedReplyError(f"the answer is not one of Gatepost's: {fault}") from None

    def end(self) -> None:
        """The stream says that it is complete."""
        if self._rest:
            raise broken("its last line is not whole")


def broken(reason: str) -> BrokenStreamError:
    """What is raised where a stream ends before its end."""
    return BrokenStreamError(f"the stream of entries broke off: {reason}")
