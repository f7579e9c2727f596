import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from gatepost.api.errors import ERRORS
from gatepost.api.openapi import document
from gatepost.api.operations import SCANNING
from gatepost.api.scanning import Ledger, encode_scanning

DOCUMENT = document(SCANNING)
SCHEMAS = DOCUMENT["components"]["schemas"]


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [found for item in value.values() for found in references(item)]
    return [found for item in value for found in references(item)] if isinstance(value, list) else []


def test_it_is_json_of_the_right_version() -> None:
    assert json.loads(encode_scanning(DOCUMENT)) == DOCUMENT
    assert DOCUMENT["openapi"] == "3.1.0"
    assert DOCUMENT["info"]["version"] == "1.1.0"


def test_every_reference_leads_somewhere() -> None:
    for reference in references(DOCUMENT):
        assert reference.removeprefix("#/components/schemas/") in SCHEMAS


@pytest.mark.parametrize(
    ("name", "required", "fields"),
    [
        ("MessageAnalysisRequest", ["borderMtaData"], ["borderMtaData", "tenantUid"]),
        (
            "BorderMtaData",
            ["envelopeFrom", "envelopeRecipients"],
            ["envelopeFrom", "envelopeRecipients", "remoteAddress", "senderHelo"],
        ),
        (
            "MessageAnalysisResult",
            ["ggrid", "created", "completed", "decision", "verdict", "tags"],
            ["ggrid", "created", "completed", "decision", "verdict", "tags"],
        ),
        ("SystemStatus", ["messageQueueStatus"], ["messageQueueStatus"]),
        ("Error", ["error"], ["error", "message"]),
    ],
)
def test_the_contract_to_the_letter(name: str, required: list[str], fields: list[str]) -> None:
    assert SCHEMAS[name]["required"] == required
    assert list(SCHEMAS[name]["properties"]) == fields


def test_enumerations_of_the_contract() -> None:
    result = SCHEMAS["MessageAnalysisResult"]["properties"]
    assert sorted(result["decision"]["enum"]) == ["bounce", "deliver", "drop", "quarantine", "undecided"]
    assert SCHEMAS["SystemStatus"]["properties"]["messageQueueStatus"]["enum"] == ["GREEN", "RED", "YELLOW"]
    assert SCHEMAS["BorderMtaData"]["properties"]["envelopeRecipients"]["minItems"] == 1


def test_every_answer_names_its_codes() -> None:
    known = {error.code: error.status for error in ERRORS}
    described = set()
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                codes = [line.split("`")[1] for line in response["description"].split("\n") if line.startswith("- ")]
                described.update(codes)
                assert all(known[code] == int(status) for code in codes)
    assert described == set(SCHEMAS["Error"]["properties"]["error"]["x-extensible-enum"])


def test_points_are_numbers_with_two_places() -> None:
    ledger = Ledger(score=Decimal(110).scaleb(-2), reason="", findings=(), outcomes=())
    assert encode_scanning(ledger).startswith(b'{"score":1.10,')
    assert msgspec.json.decode(encode_scanning(ledger), type=Ledger) == ledger
    assert SCHEMAS["Ledger"]["properties"]["score"]["type"] == "number"
