"""Documents that fetch a part of themselves when they are opened.

The document that is mailed is harmless; its template or an object in it comes from the attacker's server, with macros
or an exploit (CVE-2017-0199, CVE-2021-40444, CVE-2022-30190). Templates on the author's own disk are ordinary and left
out by the readers.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

TEMPLATE = Kind("file:remote-template", "A document fetches its template from another server")
OBJECT = Kind("file:remote-object", "A document fetches an object from another server when it is opened")
KINDS = (TEMPLATE, OBJECT)
NEEDS = frozenset({"trait"})

_BY_TRAIT = {"remote-template": TEMPLATE, "remote-object": OBJECT}


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for trait in file.traits:
            if kind := _BY_TRAIT.get(trait.name):
                yield kind.at(file.path, about=file.document, target=trait.detail)
