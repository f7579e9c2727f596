"""Files that run a command of their sender's: shortcuts, and documents that ask another program for data (DDE).

`DDEAUTO c:\\windows\\system32\\cmd.exe "/k …"`: the other program may be a shell, and the question a command. Banks do
link spreadsheets to their price feeds this way, so a service that is no program of the system counts less. A shortcut
(MS-SHLLINK) gives any command an icon and a name of the sender's choice. It points to something on one's own machine;
mailed, it can only point to what every machine has, its shells, or to a file on the sender's server.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import FILE_DDE, FILE_SHORTCUT_COMMAND, FILE_SHORTCUT_TO_SHARE, Finding
from gatepost.strengths import coefficients

KINDS = (FILE_DDE, FILE_SHORTCUT_COMMAND, FILE_SHORTCUT_TO_SHARE)
NEEDS = frozenset({"trait"})

_PROGRAMS = re.compile(
    r"\b(?:cmd|powershell|pwsh|mshta|msexcel|rundll32|regsvr32|wscript|cscript|certutil|bitsadmin|wmic|msiexec|forfiles"
    r"|explorer|msdt|curl)\b|\.exe\b|system32|programs|https?:",
    re.IGNORECASE,
)
_SHELLS = re.compile(
    r"\b(?:cmd|powershell|pwsh|mshta|rundll32|regsvr32|wscript|cscript|certutil|bitsadmin|wmic|msiexec|forfiles|conhost"
    r"|curl|ftp|explorer|ssh|scp|python|hh|msbuild|installutil|odbcconf)(?:\.exe)?\b",
    re.IGNORECASE,
)
(FEED,) = coefficients(FILE_DDE, "feed")


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for command in file.seen("dde"):
            strength = 1.0 if _PROGRAMS.search(command) else FEED
            yield FILE_DDE.at(file.path, strength=strength, about=file.document, command=command)
        for target in file.seen("shortcut"):
            if _SHELLS.search(target) or file.seen("shortcut-arguments"):
                yield FILE_SHORTCUT_COMMAND.at(file.path, about=file.document, command=target)
        for target in file.seen("shortcut-to-share"):
            yield FILE_SHORTCUT_TO_SHARE.at(file.path, about=file.document, target=target)
