"""Macros in documents: Visual Basic, Excel 4.0 sheets, Basic of OpenDocument.

Companies do mail each other spreadsheets with macros, so a macro alone is a fact. One that starts by itself when the
document is opened, and one that reaches out of the document (a shell, a download, foreign memory), is how a document
becomes a program.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

MACRO = Kind("file:macro", "A document contains macros")
AUTORUN = Kind("file:macro-autorun", "A macro starts by itself when the document is opened or touched")
CALL = Kind("file:macro-call", "A macro starts programs, downloads files or does other things outside its document")
CELLS = Kind("file:excel4-macro", "A workbook has macros in cells (Excel 4.0), which nobody has written for decades")
KINDS = (MACRO, AUTORUN, CALL, CELLS)
NEEDS = frozenset({"trait"})

_BY_TRAIT = {"macro": MACRO, "macro-autorun": AUTORUN, "macro-call": CALL, "macro-cells": CELLS}


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for trait, kind in _BY_TRAIT.items() if file.traits else ():
            if seen := file.seen(trait):
                yield kind.at(file.path, about=file.document, seen=", ".join(dict.fromkeys(seen)))
