"""A key that stands twice in one object is refused: readers differ on which of the two counts."""

import json
from typing import Any

import pytest

from gatepost.abby import lists
from gatepost.abby.scan import read_parameters
from gatepost.api.errors import MALFORMED_REQUEST, Failure
from gatepost.api.lists import AddEntriesRequest
from gatepost.mail.message import Envelope

UID = "0198c5a2-7c11-7d3e-9f00-00000000aa01"
BORDER = '"borderMtaData":{"envelopeFrom":"a@b.example","envelopeRecipients":["c@d.example"]}'


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
def test_list_bodies(body: str) -> None:
    refused = lists.ADD.decode(body.encode())
    assert isinstance(refused, Failure)
    assert refused.error == MALFORMED_REQUEST
    assert "twice" in refused.message


def test_list_bodies_without() -> None:
    body = {"listName": "x", "entries": [{"entry": "a", "comment": "b"}, {"entry": "a", "comment": "b"}]}
    assert isinstance(lists.ADD.decode(json.dumps(body).encode()), AddEntriesRequest)


@pytest.mark.parametrize(
    "parameters",
    [
        f"{{{BORDER},{BORDER}}}",
        f'{{{BORDER},"tenantUid":"{UID}","tenantUid":null}}',
        f'{{{BORDER},"unknown":{{"a":1,"b":[{{"c":1,"c":2}}]}}}}',
        f'{{{BORDER},"tenantUid":5,"tenantUid":6}}',
    ],
)
def test_scan_parameters(parameters: str) -> None:
    refused = read_parameters(parameters.encode())
    assert isinstance(refused, Failure)
    assert refused.error == MALFORMED_REQUEST
    assert "twice" in refused.message


@pytest.mark.parametrize(
    "unknown",
    ["1" * 5_000, "[" * 100 + "]" * 100, '{"a":{"b":1},"b":{"a":1,"b":1}}', "1e999", '"\\u0000"'],
)
def test_what_else_unknown_fields_hold(unknown: str) -> None:
    found: Any = read_parameters(f'{{{BORDER},"unknown":{unknown}}}'.encode())
    assert isinstance(found, Envelope), found


def test_bytes_that_are_not_utf_8_in_an_unknown_field() -> None:
    refused = read_parameters(f'{{{BORDER},"unknown":"'.encode() + b'\xff"}')
    assert isinstance(refused, Failure)
    assert refused.error == MALFORMED_REQUEST
