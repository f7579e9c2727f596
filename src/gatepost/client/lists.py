"""The calls of the List API as exchanges, and its stream of lines as they come: shared by both clients."""

from collections.abc import Iterable, Sequence
from typing import Final

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
    encode,
)
from gatepost.api.lists_interface import BASE
from gatepost.client.errors import BrokenStreamError, UnexpectedReplyError
from gatepost.client.exchange import Exchange, Reply, Retries, Send, answered, call


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
        return Send("POST", f"{BASE}/{operation}", encode(body), self._headers)


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
