"""The table of kinds and the registry of checks say the same, and a constant is named after its id."""

import re
from collections import Counter

from gatepost.checks.composites import load_composites
from gatepost.checks.registry import CHECKS
from gatepost.findings import kinds
from gatepost.findings.kinds import BY_ID, TITLES, Kind


def test_every_kind_is_found_by_exactly_one_check() -> None:
    found = Counter(kind for check in CHECKS for kind in check.kinds)
    # Composites and the operator's rules are applied after all checks; whose words a message has is known before.
    composites = {kind for kind, _ in load_composites()}
    known_before = {kinds.TEXT_CARRIED_MESSAGE, kinds.RECIPIENT_REPORT_MAILBOX}
    assert set(found) | composites | known_before | {kinds.LIMIT_RULE_FAILED} == set(BY_ID.values())
    assert not composites & set(found)
    assert [kind.id for kind, times in found.items() if times > 1] == []


def test_a_constant_is_named_after_its_id() -> None:
    named = {name: each for name, each in vars(kinds).items() if isinstance(each, Kind)}
    assert {name: re.sub("[:-]", "_", kind.id).upper() for name, kind in named.items()} == {
        name: name for name in named
    }
    assert len(named) == len(BY_ID) == len(TITLES)


def test_ids_and_titles_have_their_form() -> None:
    for kind in BY_ID.values():
        assert re.fullmatch(r"[a-z]+:[a-z0-9]+(-[a-z0-9]+)*", kind.id)
        assert kind.title[0].isupper() or kind.title.startswith("yEnc")
        assert not kind.title.endswith("."), f"{kind.id}: a title is no sentence with a full stop"
    assert len(set(TITLES.values())) == len(TITLES), "two kinds have the same title"


def test_a_finding_is_cut_to_what_a_ledger_keeps() -> None:
    finding = kinds.URL_IP_HOST.at("1" * 400, seen="x" * 400, number=7)
    assert (len(finding.where), len(finding.facts["seen"]), finding.facts["number"]) == (300, 300, "7")
