"""Documents and packages that start programs: actions on slides, commands in place of embedded files, installers.

A presentation may run a program when the mouse moves over a shape; a packaged object may be a command line under the
icon of a letter. Nobody needs either to show slides or to send letters.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

ACTION = Kind("file:program-action", "A document starts a program when it is clicked or touched")
INSTALLER = Kind("file:installer", "A file is an installer, which runs as a program does")
KINDS = (ACTION, INSTALLER)
NEEDS = frozenset({"trait"})

_BY_TRAIT = {"program-action": ACTION, "embedded-command": ACTION, "installer": INSTALLER}


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for trait in file.traits:
            if kind := _BY_TRAIT.get(trait.name):
                yield kind.at(file.path, about=file.document, command=trait.detail)
