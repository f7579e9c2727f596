"""The calls for messages of both clients, over real HTTP bodies and a transport that answers from a table."""

import json
from typing import Any

import httpx
import pytest

from gatepost.api import examples
from gatepost.api.messages import FoundHeldMessages, FoundMessages
from gatepost.api.scanning import encode_scanning
from gatepost.client import ApiError, AsyncClient, Client

GGRID = examples.RESULT.ggrid
ANSWERS: dict[str, Any] = {
    f"GET /v1/messages/{GGRID}": examples.MESSAGE,
    f"GET /v1/messages/{GGRID}/text": examples.TEXT,
    f"POST /v1/messages/{GGRID}/release": examples.RELEASE,
    f"POST /v1/messages/{GGRID}/delete": examples.DELETION,
    "POST /v1/heldMessages/release": examples.RELEASED,
    f"POST /v1/messages/{GGRID}/report": examples.REPORT,
    "POST /v1/heldMessages/delete": examples.DELETED,
}


class Table:
    """Answers as the table says; a search has two pages."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        name = f"{request.method} {request.url.path}"
        assert request.headers["authorization"] == "Bearer secret"
        if request.content:
            assert request.headers["content-type"] == "application/json"
            self.bodies.append(json.loads(request.content))
        if request.url.path.endswith("/search"):
            first = self.bodies[-1]["cursor"] is None
            following = "1.2" if first else None
            page: FoundMessages | FoundHeldMessages = FoundMessages(examples.FOUND.messages, following)
            if "held" in request.url.path:
                page = FoundHeldMessages(examples.FOUND_HELD.messages, following)
            return httpx.Response(200, content=encode_scanning(page))
        if name not in ANSWERS:
            return httpx.Response(404, json={"error": "message_not_found", "message": "none"})
        return httpx.Response(200, content=encode_scanning(ANSWERS[name]))


def test_synchronous_calls() -> None:
    table = Table()
    with Client("http://x", "secret", transport=httpx.MockTransport(table)) as client:
        assert client.message(GGRID) == examples.MESSAGE
        assert client.message_text(GGRID) == examples.TEXT
        assert client.release(GGRID) == examples.RELEASE
        assert client.delete(GGRID) == examples.DELETION
        assert client.report(GGRID, "held", tenant=GGRID) == examples.REPORT
        assert client.release_messages([GGRID]) == examples.RELEASED.results
        assert client.delete_messages([GGRID], tenant=GGRID) == examples.DELETED.results
        assert table.bodies.pop()["tenantUid"] == GGRID
        assert [each.ggrid for each in client.messages(link_host="evil.example", verdict="phishing")] == [GGRID] * 2
        assert [(body["cursor"], body["linkHost"]) for body in table.bodies[-2:]] == [
            (None, "evil.example"),
            ("1.2", "evil.example"),
        ]
        assert [each.ggrid for each in client.held_messages(released=True)] == [GGRID] * 2
        assert client.search_messages(limit=5).next == "1.2"
        assert client.search_held(cursor="1.2").next is None
        with pytest.raises(ApiError, match="message_not_found"):
            client.message("../admin")


async def test_calls_in_an_event_loop() -> None:
    async with AsyncClient("http://x", "secret", transport=httpx.MockTransport(Table())) as client:
        assert await client.message(GGRID) == examples.MESSAGE
        assert await client.message_text(GGRID) == examples.TEXT
        assert await client.release(GGRID) == examples.RELEASE
        assert await client.delete(GGRID) == examples.DELETION
        assert await client.report(GGRID, "held") == examples.REPORT
        assert await client.release_messages([GGRID]) == examples.RELEASED.results
        assert await client.delete_messages([GGRID]) == examples.DELETED.results
        assert [each.ggrid async for each in client.messages(link_host="evil.example")] == [GGRID] * 2
        assert [each.ggrid async for each in client.held_messages()] == [GGRID] * 2
