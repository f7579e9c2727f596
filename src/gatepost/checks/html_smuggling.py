"""Pages that put a file or a second page together by script (ATT&CK T1027.006).

The attachment is text; the file comes into being in the browser, behind every scanner. A page that holds a file as a
literal and saves it has no honest reason to: an honest sender attaches the file.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

SMUGGLING = Kind("file:html-smuggling", "A page puts a file together by script and saves it")
WRITTEN = Kind("file:html-written-page", "A page hides another page in a script that writes it")
KINDS = (SMUGGLING, WRITTEN)
NEEDS = frozenset({"trait"})

_BY_TRAIT = {"smuggling": SMUGGLING, "written-page": WRITTEN}


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for trait, kind in _BY_TRAIT.items() if file.traits else ():
            if seen := file.seen(trait):
                yield kind.at(file.path, about=file.document, seen=", ".join(seen))
