"""Macros: a fact; those that start by themselves or reach out: a sign."""

import pytest

from gatepost.checks.files.traits import check
from gatepost.files.values import File, Trait
from gatepost.findings import Reading
from gatepost.kinds import FILE_EMBEDDED_OBJECT, FILE_EXCEL4_MACRO, FILE_MACRO, FILE_MACRO_AUTORUN, FILE_MACRO_CALL


@pytest.mark.parametrize(
    ("traits", "kinds"),
    [
        ((("macro", "Module1"),), [FILE_MACRO.id]),
        ((("macro", "Module1"), ("macro", "Module2")), [FILE_MACRO.id]),
        ((("macro", "M"), ("macro-autorun", "AutoOpen")), [FILE_MACRO.id, FILE_MACRO_AUTORUN.id]),
        ((("macro", "M"), ("macro-call", "wscript.shell")), [FILE_MACRO.id, FILE_MACRO_CALL.id]),
        ((("macro", "Excel 4.0"), ("macro-cells", "hidden")), [FILE_MACRO.id, FILE_EXCEL4_MACRO.id]),
        ((), []),  # a letter
        ((("embedded-object", "chart"),), [FILE_EMBEDDED_OBJECT.id]),
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
