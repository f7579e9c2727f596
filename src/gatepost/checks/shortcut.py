"""Shortcuts: an icon and a name of the sender's choice for any command (MS-SHLLINK), or for a file on his own server.

A shortcut points to something on one's own machine; mailed, it can only point to what every machine has: its shells.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

COMMAND = Kind("file:shortcut-command", "A shortcut runs a command of its sender's")
SHARE = Kind("file:shortcut-to-share", "A shortcut leads to a file on another computer")
KINDS = (COMMAND, SHARE)
NEEDS = frozenset({"trait"})

_SHELLS = re.compile(
    r"\b(?:cmd|powershell|pwsh|mshta|rundll32|regsvr32|wscript|cscript|certutil|bitsadmin|wmic|msiexec|forfiles|conhost"
    r"|curl|ftp|explorer|ssh|scp|python|hh|msbuild|installutil|odbcconf)(?:\.exe)?\b",
    re.IGNORECASE,
)


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for trait in file.traits:
            if trait.name == "shortcut" and (_SHELLS.search(trait.detail) or file.seen("shortcut-arguments")):
                yield COMMAND.at(file.path, about=file.document, command=trait.detail)
            elif trait.name == "shortcut-to-share":
                yield SHARE.at(file.path, about=file.document, target=trait.detail)
