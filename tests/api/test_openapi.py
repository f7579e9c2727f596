import json
from decimal import Decimal
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from gatepost.api.errors import ERRORS
from gatepost.api.examples import MESSAGES
from gatepost.api.openapi import LISTS_API, SCANNING, document
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
        # Reasons are of ours, and absent where the status is GREEN.
        ("SystemStatus", ["messageQueueStatus"], ["messageQueueStatus", "reasons"]),
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


BOTH = [DOCUMENT, document(LISTS_API)]
VERBS = ("submit", "get", "search", "release", "report", "add", "delete", "list")


def operations(described: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for methods in described["paths"].values() for operation in methods.values()]


@pytest.mark.parametrize("described", BOTH, ids=["scanning", "lists"])
def test_operations_are_verbs_in_groups(described: dict[str, Any]) -> None:
    groups = {tag["name"] for tag in described["tags"] if tag["description"]}
    for operation in operations(described):
        assert operation["operationId"].startswith(VERBS)
        assert set(operation["tags"]) <= groups
        assert "security" in operation
    assert {tag for operation in operations(described) for tag in operation["tags"]} == groups


@pytest.mark.parametrize("described", BOTH, ids=["scanning", "lists"])
def test_every_request_response_and_code_has_a_valid_example(described: dict[str, Any]) -> None:
    shown: set[str] = set()
    for operation in operations(described):
        contents = [*operation.get("requestBody", {}).get("content", {}).values()]
        for response in operation["responses"].values():
            contents += response["content"].values()
        for content in contents:
            assert content["examples"], operation["operationId"]
            root = {**content["schema"], "components": described["components"]}
            for name, example in content["examples"].items():
                jsonschema_rs.validator_for(root).validate(example["value"])
                shown.add(name)
    used = {error.code for interface in (SCANNING, LISTS_API) for each in interface.operations for error in each.errors}
    assert set(described["components"]["schemas"]["Error"]["properties"]["error"]["x-extensible-enum"]) <= shown
    assert used <= MESSAGES.keys() <= {error.code for error in ERRORS}


def test_codes_of_every_path_are_described() -> None:
    for described in BOTH:
        codes = described["components"]["schemas"]["Error"]["properties"]["error"]["x-extensible-enum"]
        assert {"not_found", "method_not_allowed"} <= set(codes)
