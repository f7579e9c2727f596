"""Tricks that a reader sees and a check states: each trait leads to its kind, and ordinary ones to none."""

import pytest

from gatepost.checks.files.traits import check
from gatepost.files.values import File, Trait
from gatepost.findings import Reading


@pytest.mark.parametrize(
    ("trait", "kinds"),
    [
        (Trait("remote-template", "http://evil.test/t.dotm"), ["file:remote-template"]),
        (Trait("remote-object", "http://evil.test/x"), ["file:remote-object"]),
        (Trait("embedded-object", "a.txt"), ["file:embedded-object"]),
        (Trait("equation-editor", "Equation.3"), ["file:equation-editor"]),
        (Trait("program-action", "cmd /c calc"), ["file:program-action"]),
        (Trait("embedded-command", "cmd /c calc"), ["file:program-action"]),
        (Trait("installer", "MSI"), ["file:installer"]),
        (Trait("pdf-javascript", "app.alert(1)"), ["file:pdf-javascript"]),
        (Trait("pdf-launch", "cmd.exe"), ["file:pdf-launch"]),
        (Trait("pdf-embedded-file", "invoice.xml"), ["file:pdf-embedded-file"]),
        (Trait("pdf-open-action", "JavaScript"), ["file:pdf-open-action"]),
        (Trait("pdf-submit-form", "https://a.test/"), ["file:pdf-submit-form"]),
        (Trait("smuggling", "zip, 900 bytes"), ["file:html-smuggling"]),
        (Trait("written-page", "900 bytes"), ["file:html-written-page"]),
        (Trait("page-password-field", "pass"), ["file:html-password-form"]),
        (Trait("page-form", "action=x"), ["file:html-form"]),
        (Trait("page-script", "x()"), ["file:html-script"]),
        (Trait("page-svg-script", "x()"), ["file:svg-script"]),
        (Trait("page-meta-refresh", "https://a.test/"), ["file:html-redirect"]),
        (Trait("pdf-form", "AcroForm"), []),
        (Trait("page-base", "https://a.test/"), []),
        (Trait("calendar-method", "REQUEST"), []),
        (Trait("internet-shortcut", "https://a.test/"), []),
        (Trait("encrypted", "PDF"), []),
        (Trait("document-password", "1234"), []),
    ],
)
def test_traits(trait: Trait, kinds: list[str]) -> None:
    reading = Reading(files=(File("1/a", b"", "data", "0" * 64, traits=(trait,)), File("2/b", b"", "pdf", "1" * 64)))
    findings = list(check(reading))
    assert [finding.kind for finding in findings] == kinds
    assert all(finding.about == "0" * 64 for finding in findings)
