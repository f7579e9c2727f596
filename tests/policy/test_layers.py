"""Layers: what a tenant's file says over the deployment's over the shipped policy, and who said what."""

import msgspec
import pytest

from gatepost.policy.layers import Effective, Layer, Origin, Policies, lay_over, unchanged_policies
from gatepost.policy.rules import PolicyError, shipped_policy

TENANT = "0198c5a2-7c11-7d3e-9f00-00000000aa01"
HOUSE = Layer(
    "deployment",
    "house.toml",
    '[kinds."url:shortener"]\nweight = 0.5\n[verdicts]\nspam = {decision = "drop", threshold = 5.0}\n',
)
ACME = Layer("tenant", "acme.toml", '[kinds."url:shortener"]\nweight = 3.0\nverdict = "phishing"\n')

house = lay_over(Effective(shipped_policy()), HOUSE)
acme = lay_over(house, ACME)


def test_the_upper_layer_wins_and_the_rest_stays() -> None:
    assert house.policy.kinds["url:shortener"].weight == 0.5
    assert acme.policy.kinds["url:shortener"].weight == 3.0
    assert acme.policy.verdicts["spam"].decision == "drop"
    assert acme.policy.kinds["url:shortener"].group == shipped_policy().kinds["url:shortener"].group
    assert shipped_policy().kinds["url:shortener"].weight == 1.2


def test_every_value_knows_where_it_comes_from() -> None:
    assert acme.origins("kinds", "url:shortener", "weight") == (
        Origin(1.2, "shipped"),
        Origin(0.5, "deployment", "house.toml", 2),
        Origin(3.0, "tenant", "acme.toml", 2),
    )
    assert acme.origins("verdicts", "spam", "decision")[-1] == Origin("drop", "deployment", "house.toml", 4)
    assert acme.origins("kinds", "url:shortener", "group") == (Origin("links", "shipped"),)
    assert acme.origins("groups", "nowhere", "cap") == (Origin(None, "shipped"),)


def test_the_ledger_s_words_name_only_what_differs_and_no_file() -> None:
    assert acme.policy.changes == {
        "kinds.url:shortener": "weight 3 instead of 1.2 (tenant), verdict phishing instead of spam (tenant)",
        "verdicts.spam": "decision drop instead of quarantine (deployment)",
    }


def test_a_tenant_can_take_back_what_the_deployment_changed() -> None:
    back = lay_over(house, Layer("tenant", "t", '[verdicts.spam]\ndecision = "quarantine"\n'))
    assert "verdicts.spam" not in back.policy.changes
    assert len(back.origins("verdicts", "spam", "decision")) == 3


def test_a_list_of_the_operator_s_own_can_have_a_weight() -> None:
    text = '[kinds."list:our-banks"]\nconclusive = false\nweight = 2\nverdict = "suspicious"\n'
    rule = lay_over(house, Layer("deployment", "x", text)).policy.kinds["list:our-banks"]
    assert (rule.weight, rule.verdict, rule.conclusive) == (2.0, "suspicious", False)


def test_tenants_without_a_file_have_the_deployment_s_policy() -> None:
    policies = Policies(house, {TENANT: acme})
    assert policies.of(TENANT) is acme
    assert policies.of("0198c5a2-7c11-7d3e-9f00-00000000aa02") is house
    assert policies.of(None) is house
    assert unchanged_policies().of(TENANT).policy == shipped_policy()


def test_a_faulty_layer_names_its_file_and_every_line() -> None:
    with pytest.raises(PolicyError) as caught:
        lay_over(house, Layer("tenant", "t.toml", "[kinds]\nx = 1\ny = 2\n"))
    assert str(caught.value).splitlines() == [
        "t.toml:2: kinds.x is not a known finding",
        "t.toml:3: kinds.y is not a known finding",
    ]


def test_a_policy_crosses_the_process_border_whole() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(acme.policy), type=type(acme.policy)) == acme.policy
