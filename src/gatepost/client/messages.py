"""The calls for messages on record and held messages, which both clients have.

Each call is written once, as an exchange in `MessageCalls`; the two classes below run them, one for each client.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, TypedDict, TypeVar, Unpack
from urllib.parse import quote

from gatepost.api.messages import (
    ActionResult,
    ActionResults,
    FoundHeldMessage,
    FoundHeldMessages,
    FoundMessage,
    FoundMessages,
    HeldMessagesRequest,
    MessageDeletion,
    MessageReport,
    MessageText,
    ReportMessageRequest,
    SearchHeldMessagesRequest,
    SearchMessagesRequest,
    ShouldHaveBeen,
    Timeline,
)
from gatepost.api.scanning import AnalysedMessage, MessageRelease, encode_scanning
from gatepost.client.exchange import Exchange, Retries, Send, build_multipart, call
from gatepost.policy.rules import Decision, Verdict

T = TypeVar("T")
_JSON = {"content-type": "application/json"}


class HeldFilters(TypedDict, total=False):
    """What held mail is searched by; see `SearchHeldMessagesRequest`."""

    tenant_uid: str
    since: str
    until: str
    sender: str
    recipient: str
    subject: str
    verdict: Verdict
    remote_address: str
    link_host: str
    file_name: str
    file_hash: str
    message_id: str
    header_from: str
    anywhere: str
    queue_id: str
    released: bool


class MessageFilters(TypedDict, total=False):
    """What results are searched by; see `SearchMessagesRequest`."""

    tenant_uid: str
    since: str
    until: str
    sender: str
    recipient: str
    subject: str
    verdict: Verdict
    decision: Decision
    tag: str
    ggrid: str
    remote_address: str
    link_host: str
    file_name: str
    file_hash: str
    message_id: str
    header_from: str
    anywhere: str
    queue_id: str
    next_hop_id: str


class MessageCalls:
    """The operations on messages, as exchanges."""

    def __init__(self, retries: Retries) -> None:
        self._retries = retries

    def read(self, ggrid: str) -> Exchange[AnalysedMessage]:
        """`GET /v1/messages/{ggrid}`."""
        return call(Send("GET", _path(ggrid)), AnalysedMessage, self._retries)

    def timeline(self, ggrid: str) -> Exchange[Timeline]:
        """`GET /v1/messages/{ggrid}/timeline`."""
        return call(Send("GET", f"{_path(ggrid)}/timeline"), Timeline, self._retries)

    def text(self, ggrid: str) -> Exchange[MessageText]:
        """`GET /v1/messages/{ggrid}/text`."""
        return call(Send("GET", f"{_path(ggrid)}/text"), MessageText, self._retries)

    def release(self, ggrid: str) -> Exchange[MessageRelease]:
        """`POST /v1/messages/{ggrid}/release`."""
        return call(Send("POST", f"{_path(ggrid)}/release"), MessageRelease, self._retries)

    def delete(self, ggrid: str) -> Exchange[MessageDeletion]:
        """`POST /v1/messages/{ggrid}/delete`."""
        return call(Send("POST", f"{_path(ggrid)}/delete"), MessageDeletion, self._retries)

    def report(
        self, ggrid: str, should_have_been: ShouldHaveBeen, tenant: str | None, message: bytes | None = None
    ) -> Exchange[MessageReport]:
        """`POST /v1/messages/{ggrid}/report`, with the message where there is one."""
        body = ReportMessageRequest(should_have_been=should_have_been, tenant_uid=tenant)
        request = _post(f"{_path(ggrid)}/report", body)
        if message is not None:
            parts = [("parameters", "application/json", encode_scanning(body)), ("email", "message/rfc822", message)]
            content_type, content = build_multipart(parts)
            request = Send("POST", request.path, content, {"content-type": content_type})
        return call(request, MessageReport, self._retries)

    def search(self, filters: MessageFilters, cursor: str | None, limit: int | None) -> Exchange[FoundMessages]:
        """`POST /v1/messages/search`."""
        body = SearchMessagesRequest(**filters, cursor=cursor, limit=limit)
        return call(_post("/v1/messages/search", body), FoundMessages, self._retries)

    def search_held(self, filters: HeldFilters, cursor: str | None, limit: int | None) -> Exchange[FoundHeldMessages]:
        """`POST /v1/heldMessages/search`."""
        body = SearchHeldMessagesRequest(**filters, cursor=cursor, limit=limit)
        return call(_post("/v1/heldMessages/search", body), FoundHeldMessages, self._retries)

    def act(self, action: str, ggrids: Sequence[str], tenant: str | None) -> Exchange[tuple[ActionResult, ...]]:
        """`POST /v1/heldMessages/release` or `…/delete`."""
        body = HeldMessagesRequest(ggrids=tuple(ggrids), tenant_uid=tenant)
        answer = yield from call(_post(f"/v1/heldMessages/{action}", body), ActionResults, self._retries)
        return answer.results


def _path(ggrid: str) -> str:
    return f"/v1/messages/{quote(ggrid, safe='')}"


def _post(path: str, body: object) -> Send:
    return Send("POST", path, encode_scanning(body), _JSON)


class MessageMethods:
    """Messages on record and held messages, for synchronous code."""

    _messages: MessageCalls

    def _run(self, exchange: Exchange[T], send: Any = None) -> T:
        raise NotImplementedError

    def message(self, ggrid: str) -> AnalysedMessage:
        """Return a stored analysis with its ledger (permission `messages.read`)."""
        return self._run(self._messages.read(ggrid))

    def message_timeline(self, ggrid: str) -> Timeline:
        """Return the way of one message (permission `messages.read`)."""
        return self._run(self._messages.timeline(ggrid))

    def message_text(self, ggrid: str) -> MessageText:
        """Return a held message as plain text (permission `messages.read`)."""
        return self._run(self._messages.text(ggrid))

    def search_messages(
        self, *, cursor: str | None = None, limit: int | None = None, **filters: Unpack[MessageFilters]
    ) -> FoundMessages:
        """Return one page of results, newest first (permission `messages.search`)."""
        return self._run(self._messages.search(filters, cursor, limit))

    def search_held(
        self, *, cursor: str | None = None, limit: int | None = None, **filters: Unpack[HeldFilters]
    ) -> FoundHeldMessages:
        """Return one page of held mail, newest first (permission `messages.search`)."""
        return self._run(self._messages.search_held(filters, cursor, limit))

    def messages(self, **filters: Unpack[MessageFilters]) -> Iterator[FoundMessage]:
        """Yield all results that match, newest first; pages are fetched as they are needed."""
        page = self.search_messages(**filters)
        yield from page.messages
        while page.next is not None:
            page = self.search_messages(cursor=page.next, **filters)
            yield from page.messages

    def held_messages(self, **filters: Unpack[HeldFilters]) -> Iterator[FoundHeldMessage]:
        """Yield all held mail that matches, newest first; pages are fetched as they are needed."""
        page = self.search_held(**filters)
        yield from page.messages
        while page.next is not None:
            page = self.search_held(cursor=page.next, **filters)
            yield from page.messages

    def release(self, ggrid: str) -> MessageRelease:
        """Send a held message on, once (permission `messages.release`)."""
        return self._run(self._messages.release(ggrid))

    def delete(self, ggrid: str) -> MessageDeletion:
        """Delete a held message for good (permission `messages.delete`)."""
        return self._run(self._messages.delete(ggrid))

    def report(
        self,
        ggrid: str,
        should_have_been: ShouldHaveBeen,
        *,
        tenant: str | None = None,
        message: bytes | None = None,
    ) -> MessageReport:
        """Report that a decision was wrong, or right, with the bytes of the message where they are at hand (permission
        `messages.report`)."""
        return self._run(self._messages.report(ggrid, should_have_been, tenant, message))

    def release_messages(self, ggrids: Sequence[str], *, tenant: str | None = None) -> tuple[ActionResult, ...]:
        """Send at most 100 held messages on; return what became of each."""
        return self._run(self._messages.act("release", ggrids, tenant))

    def delete_messages(self, ggrids: Sequence[str], *, tenant: str | None = None) -> tuple[ActionResult, ...]:
        """Delete at most 100 held messages for good; return what became of each."""
        return self._run(self._messages.act("delete", ggrids, tenant))


class AsyncMessageMethods:
    """The same calls for code that runs in an event loop."""

    _messages: MessageCalls

    async def _run(self, exchange: Exchange[T], send: Any = None) -> T:
        raise NotImplementedError

    async def message(self, ggrid: str) -> AnalysedMessage:
        """Return a stored analysis with its ledger (permission `messages.read`)."""
        return await self._run(self._messages.read(ggrid))

    async def message_timeline(self, ggrid: str) -> Timeline:
        """Return the way of one message (permission `messages.read`)."""
        return await self._run(self._messages.timeline(ggrid))

    async def message_text(self, ggrid: str) -> MessageText:
        """Return a held message as plain text (permission `messages.read`)."""
        return await self._run(self._messages.text(ggrid))

    async def search_messages(
        self, *, cursor: str | None = None, limit: int | None = None, **filters: Unpack[MessageFilters]
    ) -> FoundMessages:
        """Return one page of results, newest first (permission `messages.search`)."""
        return await self._run(self._messages.search(filters, cursor, limit))

    async def search_held(
        self, *, cursor: str | None = None, limit: int | None = None, **filters: Unpack[HeldFilters]
    ) -> FoundHeldMessages:
        """Return one page of held mail, newest first (permission `messages.search`)."""
        return await self._run(self._messages.search_held(filters, cursor, limit))

    async def messages(self, **filters: Unpack[MessageFilters]) -> AsyncIterator[FoundMessage]:
        """Yield all results that match, newest first; pages are fetched as they are needed."""
        cursor: str | None = ""
        while cursor is not None:
            page = await self.search_messages(cursor=cursor or None, **filters)
            for found in page.messages:
                yield found
            cursor = page.next

    async def held_messages(self, **filters: Unpack[HeldFilters]) -> AsyncIterator[FoundHeldMessage]:
        """Yield all held mail that matches, newest first; pages are fetched as they are needed."""
        cursor: str | None = ""
        while cursor is not None:
            page = await self.search_held(cursor=cursor or None, **filters)
            for found in page.messages:
                yield found
            cursor = page.next

    async def release(self, ggrid: str) -> MessageRelease:
        """Send a held message on, once (permission `messages.release`)."""
        return await self._run(self._messages.release(ggrid))

    async def delete(self, ggrid: str) -> MessageDeletion:
        """Delete a held message for good (permission `messages.delete`)."""
        return await self._run(self._messages.delete(ggrid))

    async def report(
        self,
        ggrid: str,
        should_have_been: ShouldHaveBeen,
        *,
        tenant: str | None = None,
        message: bytes | None = None,
    ) -> MessageReport:
        """Report that a decision was wrong, or right, with the bytes of the message where they are at hand (permission
        `messages.report`)."""
        return await self._run(self._messages.report(ggrid, should_have_been, tenant, message))

    async def release_messages(self, ggrids: Sequence[str], *, tenant: str | None = None) -> tuple[ActionResult, ...]:
        """Send at most 100 held messages on; return what became of each."""
        return await self._run(self._messages.act("release", ggrids, tenant))

    async def delete_messages(self, ggrids: Sequence[str], *, tenant: str | None = None) -> tuple[ActionResult, ...]:
        """Delete at most 100 held messages for good; return what became of each."""
        return await self._run(self._messages.act("delete", ggrids, tenant))
