"""`gatepost policy explain` shows the whole sum: weight, strength with its numbers, group, cap and threshold."""

import json
from collections.abc import Callable

import pytest
from tests.command_line import run_command

Explain = Callable[..., str]


@pytest.fixture
def explain() -> Explain:
    def run(*arguments: str) -> str:
        code, said, fault = run_command("policy", "explain", *arguments)
        assert code == 0, fault
        return said

    return run


def test_a_kind_with_degrees(explain: Explain) -> None:
    said = explain("text:parcel-lure")
    assert "It weighs 4.2 points × strength (0 to 1) and points to phishing." in said
    assert "Strength: (per_phrase × phrases + urgency, at most 1) × link-away" in said
    assert "0.15  some link leads to the domain of a sender that is proven and known" in said
    assert "With its group, lures (What the text wants of its reader), it counts at most 7." in said
    assert "A score of 5 gives the verdict phishing (quarantine), where at least 3 of it" in said


@pytest.mark.parametrize(
    ("kind", "sentences"),
    [
        ("auth:spf-fail", ["It weighs 1.5 points and points to spoofing.", "A score of 6 gives the verdict spoofing"]),
        ("file:eicar", ["It is conclusive: the verdict is malware (quarantine) without any threshold."]),
        ("bulk:unsubscribe", ["points to bulk."]),
    ],
)
def test_kinds_without_degrees(explain: Explain, kind: str, sentences: list[str]) -> None:
    said = explain(kind)
    assert all(sentence in said for sentence in sentences)
    assert "Strength:" not in said


def test_json(explain: Explain) -> None:
    said = json.loads(explain("text:qr-lure", "--json"))
    assert (said["rule"]["weight"], said["rule"]["group"]) == (3.0, "lures")
    (calculation,) = said["strength"]
    assert calculation["coefficients"]["code"] == {"value": 0.3, "about": "where a QR code was found in a picture"}
    assert json.loads(explain("auth:spf-fail", "--json"))["strength"] == []
