"""What a document, page or package can do by itself: one kind for each trait that the readers of files note.

- Macros: companies do mail each other spreadsheets with macros, so a macro alone is a fact. One that starts by itself,
  and one that reaches out of its document (a shell, a download, foreign memory), makes a document a program.
- Actions: a slide runs a program when the mouse moves over a shape; a packaged object is a command line under the icon
  of a letter. An installer runs as a program does.
- Remote parts: the mailed document is harmless; its template or object comes from the attacker's server
  (CVE-2017-0199, CVE-2021-40444, CVE-2022-30190). Templates on the author's own disk are left out by the readers.
- Embedded objects: a chart in a letter is an embedded spreadsheet, and what is embedded is judged as a file of its own.
  Nothing new is written with the old equation editor; what brings an object for it is mostly CVE-2017-11882.
- PDF (ISO 32000-1 section 12.6): forms calculate with JavaScript and electronic invoices embed their data; a PDF that
  starts a program is not ordinary, and a script that runs at once is rarely a form's.
- HTML smuggling (ATT&CK T1027.006): a page holds a file as a literal and saves it by script, behind every scanner. An
  honest sender attaches the file.
- Attached pages: the browser runs what the mail program would not. A page that asks for a password brings the phishing
  site along, so that no link gives it away.
"""

from collections.abc import Iterator

import msgspec

from gatepost.findings import Reading
from gatepost.kinds import (
    FILE_EMBEDDED_OBJECT,
    FILE_EQUATION_EDITOR,
    FILE_EXCEL4_MACRO,
    FILE_HTML_FORM,
    FILE_HTML_PASSWORD_FORM,
    FILE_HTML_REDIRECT,
    FILE_HTML_SCRIPT,
    FILE_HTML_SMUGGLING,
    FILE_HTML_WRITTEN_PAGE,
    FILE_INSTALLER,
    FILE_MACRO,
    FILE_MACRO_AUTORUN,
    FILE_MACRO_CALL,
    FILE_PDF_EMBEDDED_FILE,
    FILE_PDF_JAVASCRIPT,
    FILE_PDF_LAUNCH,
    FILE_PDF_OPEN_ACTION,
    FILE_PDF_SUBMIT_FORM,
    FILE_PROGRAM_ACTION,
    FILE_REMOTE_OBJECT,
    FILE_REMOTE_TEMPLATE,
    FILE_SVG_SCRIPT,
    Finding,
    Kind,
)


class Stated(msgspec.Struct, frozen=True):
    """How a trait is stated: under which name its detail stands among the facts, and whether several of one file are
    `joined` into one finding or each are one."""

    kind: Kind
    fact: str = "seen"
    joined: bool = True


BY_TRAIT: dict[str, Stated] = {
    "macro": Stated(FILE_MACRO),
    "macro-autorun": Stated(FILE_MACRO_AUTORUN),
    "macro-call": Stated(FILE_MACRO_CALL),
    "macro-cells": Stated(FILE_EXCEL4_MACRO),
    "program-action": Stated(FILE_PROGRAM_ACTION, "command", joined=False),
    "embedded-command": Stated(FILE_PROGRAM_ACTION, "command", joined=False),
    "installer": Stated(FILE_INSTALLER, "command", joined=False),
    "remote-template": Stated(FILE_REMOTE_TEMPLATE, "target", joined=False),
    "remote-object": Stated(FILE_REMOTE_OBJECT, "target", joined=False),
    "embedded-object": Stated(FILE_EMBEDDED_OBJECT),
    "equation-editor": Stated(FILE_EQUATION_EDITOR),
    "pdf-javascript": Stated(FILE_PDF_JAVASCRIPT),
    "pdf-launch": Stated(FILE_PDF_LAUNCH),
    "pdf-embedded-file": Stated(FILE_PDF_EMBEDDED_FILE),
    "pdf-open-action": Stated(FILE_PDF_OPEN_ACTION),
    "pdf-submit-form": Stated(FILE_PDF_SUBMIT_FORM),
    "smuggling": Stated(FILE_HTML_SMUGGLING),
    "written-page": Stated(FILE_HTML_WRITTEN_PAGE),
    "page-password-field": Stated(FILE_HTML_PASSWORD_FORM, joined=False),
    "page-form": Stated(FILE_HTML_FORM, joined=False),
    "page-script": Stated(FILE_HTML_SCRIPT, joined=False),
    "page-svg-script": Stated(FILE_SVG_SCRIPT, joined=False),
    "page-meta-refresh": Stated(FILE_HTML_REDIRECT, joined=False),
}
KINDS = tuple(dict.fromkeys(stated.kind for stated in BY_TRAIT.values()))
NEEDS = frozenset({"trait"})


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for name in dict.fromkeys(trait.name for trait in file.traits):
            stated = BY_TRAIT.get(name)
            if stated is None:
                continue
            details = dict.fromkeys(file.seen(name)) if stated.joined else file.seen(name)
            for detail in [", ".join(details)] if stated.joined else details:
                facts = {stated.fact: detail}
                yield stated.kind.at(file.path, strength=1.0, about=file.document, **facts)
