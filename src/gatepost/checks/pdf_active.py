"""PDFs that do more than show pages (ISO 32000-1 section 12.6).

Forms calculate with JavaScript, electronic invoices carry their data as an embedded file, and most documents open at
a page of their author's choice: all ordinary. A PDF that starts a program is not, and a script that runs at once is
rarely a form's.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

SCRIPT = Kind("file:pdf-javascript", "A PDF contains JavaScript")
LAUNCH = Kind("file:pdf-launch", "A PDF starts a program")
FILE = Kind("file:pdf-embedded-file", "A PDF has a file embedded")
AT_ONCE = Kind("file:pdf-open-action", "A PDF does something by itself when it is opened")
SUBMIT = Kind("file:pdf-submit-form", "A PDF sends what is filled in to a server")
KINDS = (SCRIPT, LAUNCH, FILE, AT_ONCE, SUBMIT)
NEEDS = frozenset({"trait"})

_BY_TRAIT = {
    "pdf-javascript": SCRIPT,
    "pdf-launch": LAUNCH,
    "pdf-embedded-file": FILE,
    "pdf-open-action": AT_ONCE,
    "pdf-submit-form": SUBMIT,
}


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for trait, kind in _BY_TRAIT.items() if file.traits else ():
            if seen := file.seen(trait):
                yield kind.at(file.path, about=file.document, seen=", ".join(dict.fromkeys(seen)))
