import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.abby.scan import read_parameters
from gatepost.api.errors import Failure
from gatepost.mail.message import Envelope

BORDER: dict[str, Any] = {"envelopeFrom": "a@b.example", "envelopeRecipients": ["c@d.example"]}
TENANT = "0198C5A2-7C11-7D3E-9F00-00000000AA01"
STATED = f'"borderMtaData": {json.dumps(BORDER)}'


def read(found: Any) -> Envelope | Failure:
    return read_parameters(json.dumps(found).encode())


def test_everything_stated() -> None:
    border = BORDER | {"remoteAddress": "2001:DB8::0:1", "senderHelo": "mx.b.example", "unknown": {"x": [1e3]}}
    assert read({"borderMtaData": border, "tenantUid": TENANT, "more": None}) == Envelope(
        sender="a@b.example",
        recipients=("c@d.example",),
        remote_address="2001:db8::1",
        helo="mx.b.example",
        tenant=TENANT.lower(),
    )


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("", ""),
        ("<>", ""),
        ("<a@b.example>", "a@b.example"),
        ("<a@b.example", "<a@b.example"),
        (">", ">"),
        ("<", "<"),
        ("pelé@exämple.example", "pelé@exämple.example"),
        ("not an address at all", "not an address at all"),
        ("tab\tand \x07", "tab\tand \x07"),
    ],
)
def test_envelope_strings(stated: str, expected: str) -> None:
    found = read({"borderMtaData": {"envelopeFrom": stated, "envelopeRecipients": [stated]}})
    assert isinstance(found, Envelope)
    assert (found.sender, found.recipients) == (expected, (expected,))


def test_null_on_an_optional_field_means_absent() -> None:
    border = BORDER | {"remoteAddress": None, "senderHelo": None}
    assert read({"borderMtaData": border, "tenantUid": None}) == read({"borderMtaData": BORDER})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"envelopeFrom": None}, "borderMtaData.envelopeFrom must be a string, not null"),
        ({"envelopeFrom": 5}, "borderMtaData.envelopeFrom must be a string, not a number"),
        ({"envelopeFrom": "a\r\nb"}, "borderMtaData.envelopeFrom must be text without CR, LF and NUL"),
        ({"envelopeFrom": "a\n"}, "borderMtaData.envelopeFrom must be text without CR, LF and NUL"),
        ({"envelopeRecipients": []}, "borderMtaData.envelopeRecipients must have 1 to 1,000 items, not 0"),
        ({"envelopeRecipients": ["a"] * 1001}, "must have 1 to 1,000 items, not 1,001"),
        ({"envelopeRecipients": "a"}, "borderMtaData.envelopeRecipients must be an array of strings, not a string"),
        ({"envelopeRecipients": ["a", 5]}, "borderMtaData.envelopeRecipients[1] must be a string, not a number"),
        ({"envelopeRecipients": ["a", "b\0"]}, "envelopeRecipients[1] must be text without CR, LF and NUL"),
        ({"remoteAddress": "example.org"}, "borderMtaData.remoteAddress must be an IPv4 or IPv6 address"),
        ({"remoteAddress": ""}, "borderMtaData.remoteAddress must be an IPv4 or IPv6 address"),
        ({"remoteAddress": "192.0.2.1/32"}, "borderMtaData.remoteAddress must be"),
        ({"remoteAddress": "192.0.2.01"}, "borderMtaData.remoteAddress must be"),
        ({"remoteAddress": "[192.0.2.1]"}, "borderMtaData.remoteAddress must be"),
        ({"remoteAddress": "fe80::1%eth0"}, "borderMtaData.remoteAddress must be"),
        ({"remoteAddress": 3221225985}, "borderMtaData.remoteAddress must be a string, not a number"),
        ({"senderHelo": "x\ry"}, "borderMtaData.senderHelo must be text without CR, LF and NUL"),
        ({"senderHelo": False}, "borderMtaData.senderHelo must be a string, not a boolean"),
    ],
)
def test_faults_name_their_field(change: dict[str, Any], named: str) -> None:
    found = read({"borderMtaData": BORDER | change})
    assert isinstance(found, Failure)
    assert found.error.code == "invalid_parameters"
    assert named in found.message
    assert ";" not in found.message


def test_all_faults_are_reported_together() -> None:
    found = read({"borderMtaData": {"envelopeRecipients": [1], "remoteAddress": "x"}, "tenantUid": "y"})
    assert isinstance(found, Failure)
    assert found.message.split("; ") == [
        "borderMtaData.envelopeFrom is missing",
        "borderMtaData.envelopeRecipients[0] must be a string, not a number",
        "borderMtaData.remoteAddress must be an IPv4 or IPv6 address",
        "tenantUid must be a UUID",
    ]


def test_a_thousand_faults_stay_a_short_message() -> None:
    found = read({"borderMtaData": BORDER | {"envelopeRecipients": [5] * 1000}})
    assert isinstance(found, Failure)
    assert found.message.endswith("; and 980 more")
    assert len(found.message) < 3000


@pytest.mark.parametrize("found", [[], "x", 5, None, {}, {"borderMtaData": []}, {"bordermtadata": BORDER}])
def test_wrong_shapes(found: Any) -> None:
    result = read(found)
    assert isinstance(result, Failure)
    assert result.error.code == "invalid_parameters"


@pytest.mark.parametrize(
    "data",
    [
        *(
            b"",
            b"{",
            b"\xff",
            b'{"borderMtaData": "\xff"}',
            b"\xef\xbb\xbf{}",
            b"[" * 100_000,
            b"{'a':1}",
            b'"\\ud800"',
        ),
        f'{{{STATED}, "unknown": "'.encode() + b'\xff"}',
    ],
)
def test_what_is_no_json(data: bytes) -> None:
    result = read_parameters(data)
    assert isinstance(result, Failure)
    assert result.error.code == "malformed_request"


@pytest.mark.parametrize(
    "parameters",
    [
        f"{{{STATED},{STATED}}}",
        f'{{{STATED},"tenantUid":"{TENANT}","tenantUid":null}}',
        f'{{{STATED},"unknown":{{"a":1,"b":[{{"c":1,"c":2}}]}}}}',
        f'{{{STATED},"tenantUid":5,"tenantUid":6}}',
    ],
)
def test_a_key_that_stands_twice_is_refused(parameters: str) -> None:
    refused = read_parameters(parameters.encode())
    assert isinstance(refused, Failure)
    assert refused.error.code == "malformed_request"
    assert "twice" in refused.message


@pytest.mark.parametrize(
    "unknown", ["1" * 5_000, "[" * 100 + "]" * 100, '{"a":{"b":1},"b":{"a":1,"b":1}}', "1e999", '"\\u0000"']
)
def test_what_else_unknown_fields_hold(unknown: str) -> None:
    assert isinstance(read_parameters(f'{{{STATED},"unknown":{unknown}}}'.encode()), Envelope)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "borderMtaData": json_values
            | st.fixed_dictionaries(
                {},
                optional={
                    "envelopeFrom": json_values,
                    "envelopeRecipients": json_values | st.lists(st.text()),
                    "remoteAddress": json_values | st.ip_addresses().map(str),
                    "senderHelo": json_values,
                },
            ),
            "tenantUid": json_values | st.uuids().map(str),
        },
    )
)
def test_both_ways_of_looking_agree(found: Any) -> None:
    """What the fast decoder refuses, the collector can name; a failure is never without a sentence."""
    result = read(found)
    assert isinstance(result, Envelope) or result.message


@given(st.binary())
def test_reading_is_total(data: bytes) -> None:
    assert isinstance(read_parameters(data), Envelope | Failure)
