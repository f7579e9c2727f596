"""`reputation.zones`: what is a zone, and what is refused with which words."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from gatepost.settings.files import differing_settings
from gatepost.settings.keys import GuardSettings, ReputationSettings, ZoneSettings, parse_codes

LISTED = {"codes": ["127.0.0.2"], "means": "listed"}
ZONE: dict[str, Any] = {"name": "block", "zone": "bl.example.org", "asks": "ip", "answers": [LISTED]}


def read(**changes: Any) -> ZoneSettings:
    return ZoneSettings.model_validate({**ZONE, **changes}, by_alias=True, by_name=False)


@pytest.mark.parametrize(
    ("text", "expected"), [("127.0.0.2", (0x7F000002,) * 2), ("127.0.0.4-127.0.0.7", (0x7F000004, 0x7F000007))]
)
def test_codes(text: str, expected: tuple[int, int]) -> None:
    assert parse_codes(text) == expected


@pytest.mark.parametrize(
    "text", ["", "2", "127.0.0", "10.0.0.1", "127.0.0.9-127.0.0.2", "127.255.255.254", "127.0.0.2-127.255.255.255", "-"]
)
def test_codes_that_no_zone_lists_with(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        parse_codes(text)


def test_what_a_zone_is_asked_about_by_default() -> None:
    assert read().subjects == ("host",)
    assert read(asks="domain").subjects == ("link", "sender")
    assert read(asks="hash").subjects == ("file",)
    assert read(asks="hash", of=["address"]).subjects == ("address",)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "Block List"}, "lower-case"),
        ({"zone": "no zone"}, "name of a DNS zone"),
        ({"zone": "{key}.example.org"}, "must have a queryKey"),
        ({"queryKey": "abc"}, "must have a queryKey if, and only if"),
        ({"zone": "{key}.example.org", "queryKey": "two.labels"}, "one label"),
        ({"of": ["file"]}, "cannot ask about file in a zone of ip"),
        ({"asks": "hash", "encoding": "hex"}, "cannot ask for sha256 in hex"),
        ({"asks": "ip", "answers": [{"codes": ["127.0.0.2"], "means": "new"}]}, "means new, which ip cannot be"),
        ({"answers": [{"means": "listed"}]}, "either codes or mask"),
        ({"answers": [{**LISTED, "mask": 4}]}, "either codes or mask"),
        ({"answers": []}, "at least 1"),
        ({"limit": 0}, "greater than or equal to 1"),
    ],
)
def test_a_faulty_zone_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        read(**changes)


def test_names_are_unique() -> None:
    with pytest.raises(ValidationError, match="two zones named block"):
        ReputationSettings.model_validate({"zones": [ZONE, ZONE]}, by_alias=True, by_name=False)


def test_the_key_is_never_shown() -> None:
    zone = {**ZONE, "zone": "{key}.example.org", "queryKey": "sesame"}
    settings = GuardSettings.model_validate({"reputation": {"zones": [zone]}}, by_alias=True, by_name=False)
    shown = differing_settings(settings)
    assert shown["reputation.zones[0].queryKey"] == "(hidden)"
    assert "sesame" not in repr(shown)


PAGE = Path(__file__).parents[2] / "docs" / "reputation.md"
BLOCKS = re.findall(r"(?ms)^```yaml\n(.*?)^```", PAGE.read_text("utf-8"))


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_entries_of_the_documentation_can_be_used(block: str) -> None:
    read = yaml.safe_load(re.sub(r"\$\{file:[^}]*\}", "k3y", block))["reputation"]
    assert ReputationSettings.model_validate(read, by_alias=True, by_name=False).zones
