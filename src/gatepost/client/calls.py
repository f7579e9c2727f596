"""The calls of the Email Scanning API and of the List API as exchanges, shared by both clients."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

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
    build_multipart,
    call,
    request_reply,
)

Raw: TypeAlias = bytes | Path | BinaryIO


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The SMTP envelope of a message, as the border MTA knows it. A bounce has an empty `sender`."""

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
    content_type, body = build_multipart(
        [
            ("parameters", "application/json", encode_scanning(parameters)),
            ("email", "message/rfc822", _read_content(raw)),
        ]
    )
    request = Send("POST", "/v1/messageQueue/submitEmail", body, {"content-type": content_type})
    return call(request, MessageAnalysisResult, retries)


def status(retries: Retries) -> Exchange[SystemStatus]:
    """`POST /v1/admin/status`."""
    return call(Send("POST", "/v1/admin/status"), SystemStatus, retries)


def _read_content(raw: Raw) -> bytes:
    if isinstance(raw, Path):
        return raw.read_bytes()
    return raw if isinstance(raw, bytes) else raw.read()


class ListTarget(msgspec.Struct, frozen=True):
    """A list by name and tenant; without a tenant, the list for all tenants."""

    name: str
    tenant: str | None = None


class ListCalls:
    """The four operations of the List API with one API key."""

    def __init__(self, api_key: str, retries: Retries) -> None:
        self._headers: Final = {"authorization": f"apikey {api_key}", "content-type": "application/json"}
        self._retries = retries

    def add(self, target: ListTarget, entries: Iterable[NewListEntry | str], dry_run: bool) -> Exchange[ListChange]:
        """`POST addEntries`."""
        stated = tuple(NewListEntry(each) if isinstance(each, str) else each for each in entries)
        body = AddEntriesRequest(target.name, stated, target.tenant, dry_run or None)
        return call(self._post("addEntries", body), ListChange, self._retries)

    def delete(self, target: ListTarget, entries: Sequence[str], dry_run: bool) -> Exchange[ListChange]:
        """`POST deleteEntries`."""
        body = DeleteEntriesRequest(target.name, tuple(entries), target.tenant, dry_run or None)
        return call(self._post("deleteEntries", body), ListChange, self._retries)

    def lists(self, tenant: str | None) -> Exchange[tuple[ListFileInfo, ...]]:
        """`POST getLists`."""
        answer = yield from call(self._post("getLists", GetListsRequest(tenant)), ListsOfScope, self._retries)
        return answer.list_file_infos

    def entries(self, target: ListTarget) -> Exchange[Reply]:
        """`POST listEntries`, until the stream is open."""
        return request_reply(self._post("listEntries", ListEntriesRequest(target.name, target.tenant)), self._retries)

    def _post(self, operation: str, body: object) -> Send:
        return Send("POST", f"{LISTS_BASE}/{operation}", encode_lists(body), self._headers)


class EntryLines:
    """Decodes entries from the chunks of a stream."""

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(PublicListsEntry)
        self._rest = b""

    def feed(self, chunk: bytes) -> list[PublicListsEntry]:
        """Return the entries that are complete with this chunk."""
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
        """Check that the stream ended with a whole line."""
        if self._rest:
            raise broken_stream("its last line is not whole")


def broken_stream(reason: str) -> BrokenStreamError:
    """Return the error for a stream that broke off."""
    return BrokenStreamError(f"the stream of entries broke off: {reason}")
