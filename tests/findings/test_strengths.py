"""The numbers of the strengths: what the file says and what the checks use is the same, and a fault names its table."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gatepost
from gatepost.checks.registry import CHECKS
from gatepost.findings import kinds, strengths
from gatepost.findings.kinds import BY_ID, TEXT_EXTORTION, Kind
from gatepost.findings.strengths import StrengthsError, calculations, coefficients, parse

CHECK_MODULES = sorted((Path(gatepost.__file__).parent / "checks").rglob("*.py"))


NOTES_COEFFICIENTS = """
import json
from gatepost.findings import strengths
from gatepost.findings.kinds import Kind

asked, take = [], strengths.coefficients
def note(of, *names):
    asked.append((of.id if isinstance(of, Kind) else of, names))
    return take(of, *names)
strengths.coefficients = note
import gatepost.checks.registry
print(json.dumps(asked))
"""


def test_every_number_is_used_by_one_check_and_every_used_number_is_there() -> None:
    """Every table that the checks ask for when they are imported, with the names, is one that there is, and is asked
    for once."""
    said = subprocess.run([sys.executable, "-c", NOTES_COEFFICIENTS], capture_output=True, check=True)
    asked = json.loads(said.stdout)
    stated = {name: set(each.coefficients) for name, each in calculations().items() if each.coefficients}
    assert {table: set(names) for table, names in asked} == stated
    assert len(asked) == len(stated), "a table is asked for twice"


def test_every_shared_table_is_shared() -> None:
    shared = {name for each in calculations().values() for name in each.shares}
    assert shared == {name for name in calculations() if ":" not in name}


def test_a_formula_names_every_number_and_every_shared_table() -> None:
    for name, each in calculations().items():
        words = set(re.findall(r"[\w-]+", each.formula))
        assert words >= {*each.coefficients, *each.shares}, f"[{name}] does not say how it uses all of its numbers"


def test_every_number_is_described() -> None:
    for each in calculations().values():
        assert all(number.about and not number.about.endswith(".") for number in each.coefficients.values())


def test_no_check_scales_a_strength_by_a_number_of_its_own() -> None:
    """Floats in checks are 0, 1, shares of a text, part of the search for phrases, or seconds that rules have."""
    allowed = {0.0, 1.0}
    elsewhere = {"phrases.py": {100.0, 0.5, 0.04, 0.2, 0.75}, "fields.py": {0.2}, "composites.py": {0.1}}
    for path in CHECK_MODULES:
        numbers = {
            node.value
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, float)
        }
        assert numbers <= allowed | elsewhere.get(path.name, set()), f"{path.name}: put these into strengths.toml"


def test_kinds_of_the_file_are_registered() -> None:
    registered = {kind.id for check in CHECKS for kind in check.kinds}
    assert {name for name in calculations() if ":" in name} <= registered <= BY_ID.keys()


@pytest.mark.parametrize(
    ("of", "names", "fault"),
    [
        (TEXT_EXTORTION, ("per_phrase", "wallet", "least", "colour"), "[text:extortion] lacks colour"),
        (TEXT_EXTORTION, ("per_phrase", "least"), "[text:extortion] has wallet, which no check uses"),
        (kinds.TEXT_WORD_SALAD, ("least",), "has no table [text:word-salad]"),
        ("no-such", ("least",), "has no table [no-such]"),
    ],
)
def test_a_disagreement_is_an_error_that_names_it(of: Kind | str, names: tuple[str, ...], fault: str) -> None:
    with pytest.raises(StrengthsError, match=re.escape(fault)):
        coefficients(of, *names)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('["text:nonsense"]\nstrength = "x"', "[text:nonsense] is no kind of finding"),
        ('["text:urgency"]\nstrength = "x"\nshares = ["gone"]', "[text:urgency] shares 'gone'"),
        ("[lure]\nleast = { value = 0.1, about = 'x' }", "[lure] Expected `str`"),
        ('[lure]\nstrength = "x"\nleast = { value = "much", about = "x" }', "[lure] Expected `float`"),
        ('[lure]\nstrength = "x"\nleast = 0.1', "[lure] Expected `object`"),
    ],
)
def test_a_fault_of_the_file_names_its_table(text: str, fault: str) -> None:
    with pytest.raises(StrengthsError, match=re.escape(fault)):
        parse(text)


def test_explain_gives_the_calculation_and_those_that_it_shares() -> None:
    assert [each.name for each in strengths.explain("text:parcel-lure")] == ["text:parcel-lure", "link-away", "lure"]
    assert strengths.explain("auth:spf-fail") == ()
