"""What a plug-in declares: read without its code, and refused with a sentence that names package and fault."""

import sys

import pytest
from tests.plugins.conftest import DECLARED, MakePlugin
from tools.reference import render_findings

from gatepost.analysis.verdict import judge
from gatepost.findings.kinds import TITLES
from gatepost.plugins import PluginError, find_faults, find_plugin, find_plugins, list_installed, pin_plugins
from gatepost.policy import rules
from gatepost.policy.layers import Effective, Layer, Origin, lay_over
from gatepost.policy.rules import KindRule, shipped_policy

FINE = "example:parking-fine"


def test_the_example_is_read_and_not_imported(example: str) -> None:
    plugin = find_plugin("Gatepost_Example")
    assert (plugin.name, plugin.version, plugin.pinned) == (example, "1.0.0", f"{example}==1.0.0")
    assert list(plugin.kinds) == [FINE]
    assert plugin.added.kinds == {FINE: KindRule(3.0, "phishing", "example")}
    assert plugin.strengths[FINE].coefficients["haste"].value == 0.2
    assert len(plugin.phrases["haste"]) == 5
    assert [path.name for path in plugin.golden("attacks")] == ["parking-fine.eml"]
    assert list_installed() == [example]
    assert pin_plugins([example]) == [f"{example}==1.0.0"]
    assert not any(name.startswith("gatepost_example") for name in sys.modules)


def declare(**changed: str) -> str:
    """The declaration of a plug-in with some of its lines replaced."""
    return "\n".join(changed.get(line.partition(" ")[0], line) for line in DECLARED.splitlines())


FAULTS = {
    "": "gatepost.toml cannot be read: no such file or directory",
    "namespace = ": "gatepost.toml cannot be used: Invalid value",
    declare(api="api = 1"): "it is written for version 1 of the interface, and this Gatepost has version 2",
    declare(api=""): "Object missing required field `api`",
    declare(about='about = ""\ncolour = 1'): "Object contains unknown field `colour`",
    declare(namespace='namespace = "Own"'): "the namespace 'Own' must be 2 to 31 small letters, digits and hyphens",
    declare(namespace='namespace = "sender"'): "the namespace sender is one of Gatepost's own",
    declare(namespace='namespace = "list"'): "the namespace list is one of Gatepost's own",
    declare(namespace='namespace = "other"'): "the kind 'faulty:thing' must be called other:thing",
    declare(weight="weight = -1"): "the weight of faulty:thing must be between 0 and 1000",
    declare(weight="weight = nan"): "the weight of faulty:thing must be between 0 and 1000",
    declare(verdict='verdict = "bad"'): "Invalid enum value 'bad' - at `$.kinds[...].verdict`",
    declare(verdict='verdict = "spam"\ngroup = "none"'): "faulty:thing names the group 'none', but there is no",
    declare(title='title = " "'): "the title of faulty:thing must have between 1 and 200 printable characters",
    declare(title='title = "a\\u202eb"'): "the title of faulty:thing must have between 1 and 200 printable characters",
    DECLARED + '[kinds."faulty:thing"]\n': "Cannot declare ('kinds', 'faulty:thing') twice",
    DECLARED + '[groups.sender]\ncap = 1.0\ndescription = ""': "the group sender must be called faulty, or begin with",
    DECLARED + '[groups.faulty]\ncap = -1.0\ndescription = ""': "the cap of the group faulty must be between 0 and",
    DECLARED + '[strengths."faulty:other"]\nstrength = ""': "[faulty:other] is no kind of finding",
    DECLARED + '[strengths."faulty:thing"]\nstrength = 1': "[faulty:thing] Expected `str`, got `int`",
}


@pytest.mark.parametrize(("declared", "sentence"), FAULTS.items(), ids=range(len(FAULTS)))
def test_a_faulty_declaration_is_refused(make_plugin: MakePlugin, declared: str, sentence: str) -> None:
    name = make_plugin(declared)
    ((place, said),) = find_faults([name])
    assert place == 0
    assert said.startswith("gatepost-faulty 0.1: ")
    assert sentence in said


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ("", "gatepost-faulty 0.1 has 0 entry points in the group gatepost.checks, where it needs one"),
        ("a = x:A\nb = x:B", "gatepost-faulty 0.1 has 2 entry points in the group gatepost.checks, where it needs one"),
        ("a = not_there.checks:CHECKS", "gatepost-faulty 0.1 names the package not_there, which is not there"),
        ("a = json", "gatepost-faulty 0.1 names the entry point 'json', which is not module:name"),
        ("a = sys:path", "gatepost-faulty 0.1 names the package sys, which is not there"),
    ],
)
def test_a_faulty_entry_point_is_refused(make_plugin: MakePlugin, entries: str, sentence: str) -> None:
    with pytest.raises(PluginError) as refused:
        find_plugin(make_plugin(entries=entries))
    assert str(refused.value) == sentence


def test_what_is_not_installed_or_another_version_or_there_twice_is_refused(
    example: str, make_plugin: MakePlugin
) -> None:
    make_plugin(declared=DECLARED.replace("faulty", "example"))
    wanted = ["nobody-knows-it", f"{example}==1.0.1", f"{example}==1.0.0", example, "gatepost-faulty"]
    assert list(find_faults(wanted)) == [
        (0, f"nobody-knows-it is not installed beside Gatepost, in {sys.prefix}"),
        (1, "gatepost-example is wanted in version 1.0.1, but version 1.0.0 is installed here"),
        (3, "gatepost-example is named twice"),
        (4, "gatepost-faulty 0.1 has the same namespace as gatepost-example 1.0.0: example"),
    ]
    with pytest.raises(PluginError, match="is named twice"):
        find_plugins([example, example])


def test_the_operators_policy_changes_a_plugins_weights_like_shipped_ones(example: str) -> None:
    text = f'[kinds]\n"{FINE}" = {{ weight = 9.0 }}\n[groups]\nexample = {{ cap = 9.0 }}\n'
    with pytest.raises(rules.PolicyError, match="is not a known finding"):
        lay_over(Effective(shipped_policy()), Layer("deployment", "p.toml", text))
    plugin = find_plugin(example)
    base = Effective(rules.extend_policy(shipped_policy(), [plugin.added]))
    assert base.origins("kinds", FINE, "weight") == (Origin(3.0, "plugin"),)
    assert base.origins("kinds", "auth:spf-fail", "weight")[0].level == "shipped"
    house = lay_over(base, Layer("deployment", "p.toml", text))
    assert rules.rule_of(FINE, house.policy) == KindRule(9.0, "phishing", "example")
    assert house.origins("kinds", FINE, "weight")[-1] == Origin(9.0, "deployment", "p.toml", 2)
    assert rules.unchanged_policy(house.policy) == base.policy

    found = [plugin.kinds[FINE].at("text")]
    judged = judge(found, (), house.policy)
    assert (judged.verdict, judged.score, judged.tags) == ("phishing", 900, (FINE,))
    assert any("clean" in each for each in judged.overrides), judged.overrides
    assert judge(found, (), base.policy).score == 300


def test_titles_are_those_that_the_plugin_declares(example: str) -> None:
    plugin = find_plugin(example)
    policy = rules.extend_policy(shipped_policy(), [plugin.added])
    assert rules.title_of(FINE, policy) == plugin.added.titles[FINE]
    assert rules.collect_titles(policy) == TITLES | plugin.added.titles
    assert rules.collect_titles(shipped_policy()) is TITLES
    # A record of a time when the plug-in was enabled.
    assert rules.title_of(FINE, shipped_policy()) == FINE
    assert rules.rule_of(FINE, shipped_policy()).weight == 0


def test_the_page_on_findings_can_have_those_of_plugins(example: str) -> None:
    title = find_plugin(example).kinds[FINE].title
    page = list(render_findings([example]))
    assert "## Plug-in gatepost-example 1.0.0" in page
    assert f"| `{FINE}` | {title} | 3 | example | phishing |" in page
    assert "| example | 4 | Fines of traffic and parking |" in page
    assert not any(FINE in line for line in render_findings())
