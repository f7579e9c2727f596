"""Files inside documents, and objects that are known as ways in.

A chart in a letter is an embedded spreadsheet: ordinary. What is embedded is unfolded and judged as a file of its own.
The old equation editor is another matter: nothing new is written with it, and what RTF files bring for it is mostly
an exploit (CVE-2017-11882).
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

EMBEDDED = Kind("file:embedded-object", "A document has a file or object embedded")
EQUATION = Kind("file:equation-editor", "A rich text document brings an object for the old equation editor")
KINDS = (EMBEDDED, EQUATION)
NEEDS = frozenset({"trait"})

_BY_TRAIT = {"embedded-object": EMBEDDED, "equation-editor": EQUATION}


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for trait, kind in _BY_TRAIT.items() if file.traits else ():
            if seen := file.seen(trait):
                yield kind.at(file.path, about=file.document, seen=", ".join(dict.fromkeys(seen)))
