"""Policy is data, and the data is checked: every kind has its line, every line its kind."""

import pytest

from gatepost.checks.registry import CHECKS
from gatepost.findings.kinds import TITLES
from gatepost.policy.layers import override
from gatepost.policy.rules import VERDICTS, PolicyError, convert_policy, shipped_policy


def test_kinds_and_policy_agree() -> None:
    assert set(shipped_policy().kinds) == set(TITLES)


def test_no_two_checks_share_a_kind() -> None:
    ids = [kind.id for check in CHECKS for kind in check.kinds]
    assert len(ids) == len(set(ids))


def test_every_group_is_used() -> None:
    assert {rule.group for rule in shipped_policy().kinds.values()} - {""} == set(shipped_policy().groups)


def test_the_default_decisions_are_those_of_the_interface() -> None:
    delivered = [verdict for verdict in VERDICTS if shipped_policy().verdicts[verdict].decision == "deliver"]
    assert delivered == ["bulk", "clean"]


def test_an_operator_states_only_what_differs() -> None:
    policy = override(shipped_policy(), '[verdicts]\nspam = {decision = "drop"}\n[kinds."file:eicar"]\nweight = 3.5\n')
    assert policy.verdicts["spam"].decision == "drop"
    assert policy.verdicts["spam"].threshold == shipped_policy().verdicts["spam"].threshold
    assert policy.kinds["file:eicar"].weight == 3.5
    assert policy.kinds["file:eicar"].conclusive


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("verdicts = 3", "verdicts"),
        ('[verdicts]\nspam = {decision = "undecided"}', "undecided"),
        ("[groups", "table declaration"),
        ('[kinds."file:eicar"]\nwieght = 1', "wieght"),
        ('[kinds."file:eicar"]\ngroup = "nowhere"', "nowhere"),
    ],
)
def test_a_faulty_file_says_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(PolicyError, match=complaint):
        override(shipped_policy(), text)


def test_a_policy_without_a_verdict_is_refused() -> None:
    with pytest.raises(PolicyError, match="malware"):
        convert_policy({"verdicts": {}, "groups": {}, "kinds": {}})
