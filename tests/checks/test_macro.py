"""Macros: a fact; those that start by themselves or reach out: a sign."""

import pytest

from gatepost.checks.macro import AUTORUN, CALL, CELLS, MACRO, check
from gatepost.files.values import File, Trait
from gatepost.findings import Reading


@pytest.mark.parametrize(
    ("traits", "kinds"),
    [
        ((("macro", "Module1"),), [MACRO.id]),
        ((("macro", "Module1"), ("macro", "Module2")), [MACRO.id]),
        ((("macro", "M"), ("macro-autorun", "AutoOpen")), [MACRO.id, AUTORUN.id]),
        ((("macro", "M"), ("macro-call", "wscript.shell")), [MACRO.id, CALL.id]),
        ((("macro", "Excel 4.0"), ("macro-cells", "hidden")), [MACRO.id, CELLS.id]),
        ((), []),  # a letter
        ((("embedded-object", "chart"),), []),
        ((("encrypted", "Word"),), []),
        ((("pdf-form", "AcroForm"),), []),
    ],
)
def test_macro(traits: tuple[tuple[str, str], ...], kinds: list[str]) -> None:
    file = File("1/a.doc", b"", "ole", "0" * 64, traits=tuple(Trait(*trait) for trait in traits))
    assert [finding.kind for finding in check(Reading(files=(file,)))] == kinds


def test_a_part_stands_for_its_document() -> None:
    file = File("1/a.docm/x.bin", b"", "ole", "0" * 64, traits=(Trait("macro", "M"),), within="d" * 64)
    assert [finding.about for finding in check(Reading(files=(file,)))] == ["d" * 64]
