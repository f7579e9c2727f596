"""Bodies of the List API: what a hostile one costs. Its faults are not counted to the end, and a large one is decoded
beside the event loop."""

import asyncio
import json
import threading
from typing import Any

import pytest
from starlette.requests import Request

from gatepost.abby import lists
from gatepost.abby.json_bodies import LARGE_BODY, MAX_FAULTS_COUNTED, MAX_FAULTS_SHOWN, list_faults
from gatepost.api.errors import INVALID_REQUEST, MALFORMED_REQUEST, Failure
from gatepost.api.lists import AddEntriesRequest

UID = "0198c5a2-7c11-7d3e-9f00-00000000aa01"


def test_faults_are_not_counted_to_the_end() -> None:
    made = 0

    def faults() -> Any:
        nonlocal made
        for _ in range(10_000_000):
            made += 1
            yield "wrong"

    found = list_faults(INVALID_REQUEST, faults())
    assert made == MAX_FAULTS_COUNTED + 1
    assert found.message.endswith("; and more than 980 more")
    exact = list_faults(INVALID_REQUEST, ["wrong"] * MAX_FAULTS_COUNTED)
    assert exact.message.endswith(f"; and {MAX_FAULTS_COUNTED - MAX_FAULTS_SHOWN} more")


@pytest.mark.parametrize(
    ("size", "in_thread"), [(LARGE_BODY // 4, False), (LARGE_BODY, True)], ids=["ordinary", "large"]
)
def test_a_large_body_is_decoded_in_a_thread(monkeypatch: pytest.MonkeyPatch, size: int, in_thread: bool) -> None:
    """8 MiB of numbers where objects should be took twelve seconds of the event loop."""
    body = b'{"listName": "blocked-urls", "entries": [1' + b",1" * (size // 2) + b"]}"
    threads: list[int] = []
    decode = lists.ADD.decode

    def noted(data: bytes) -> Any:
        threads.append(threading.get_ident())
        return decode(data)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", b"application/json")]}
    monkeypatch.setattr(lists.ADD, "decode", noted)
    found = asyncio.run(lists.ADD.read(Request(scope, receive)))
    assert isinstance(found, Failure)
    assert found.error is INVALID_REQUEST
    assert (threads != [threading.get_ident()]) == in_thread


@pytest.mark.parametrize(
    "body",
    [
        f'{{"listName":"blocked-urls","tenantUid":"{UID}","entries":[],"tenantUid":null}}',
        f'{{"listName":"blocked-urls","tenantUid":null,"entries":[],"tenant\\u0055id":"{UID}"}}',
        '{"listName":"blocked-urls","entries":[{"entry":"a.example","entry":"b.example"}]}',
        '{"listName":"a","listName":"a","entries":[]}',
        '{"listName":"a","entries":5,"entries":"x"}',
    ],
)
def test_a_key_that_stands_twice_is_refused(body: str) -> None:
    """Readers differ on which of the two counts: a proxy could take a global call for one of a tenant."""
    refused = lists.ADD.decode(body.encode())
    assert isinstance(refused, Failure)
    assert refused.error == MALFORMED_REQUEST
    assert "twice" in refused.message


def test_the_same_text_twice_is_no_key_twice() -> None:
    body = {"listName": "x", "entries": [{"entry": "a", "comment": "b"}, {"entry": "a", "comment": "b"}]}
    assert isinstance(lists.ADD.decode(json.dumps(body).encode()), AddEntriesRequest)
