"""Pages sent as files: what the mail program would not run, the browser will.

An invoice as HTML is a page without script; a report may draw its charts by one. A page that asks for a password
brings the phishing site along, so that no link gives it away.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

PASSWORD = Kind("file:html-password-form", "An attached page asks for a password")
FORM = Kind("file:html-form", "An attached page has a form to fill in")
SCRIPT = Kind("file:html-script", "An attached page runs a script")
PICTURE = Kind("file:svg-script", "An attached picture (SVG) runs a script")
REDIRECT = Kind("file:html-redirect", "An attached page sends the reader on to another one by itself")
KINDS = (PASSWORD, FORM, SCRIPT, PICTURE, REDIRECT)
NEEDS = frozenset({"trait"})

_BY_TRAIT = {
    "page-password-field": PASSWORD,
    "page-form": FORM,
    "page-script": SCRIPT,
    "page-svg-script": PICTURE,
    "page-meta-refresh": REDIRECT,
}


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for trait in file.traits:
            if kind := _BY_TRAIT.get(trait.name):
                yield kind.at(file.path, about=file.document, seen=trait.detail)
