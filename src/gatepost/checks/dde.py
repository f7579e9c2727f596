"""Documents that ask another program for data (DDE): `DDEAUTO c:\\windows\\system32\\cmd.exe "/k …"`.

The other program may be a shell, and the question a command. Banks do link spreadsheets to their price feeds this way;
so a service that is no program of the system counts less.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

DDE = Kind("file:dde", "A document gets data from another program, which may run commands (DDE)")
KINDS = (DDE,)
NEEDS = frozenset({"trait"})

_PROGRAMS = re.compile(
    r"\b(?:cmd|powershell|pwsh|mshta|msexcel|rundll32|regsvr32|wscript|cscript|certutil|bitsadmin|wmic|msiexec|forfiles"
    r"|explorer|msdt|curl)\b|\.exe\b|system32|programs|https?:",
    re.IGNORECASE,
)
FEED = 0.2


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for command in file.seen("dde"):
            strength = 1.0 if _PROGRAMS.search(command) else FEED
            yield DDE.at(file.path, strength=strength, about=file.document, command=command)
