"""Programs sent by mail: by content, or by a name that a double click would run.

Honest senders ship programs as downloads; mail systems have refused them for twenty years.
"""

from collections.abc import Iterator

from gatepost.files.signatures import FAMILIES
from gatepost.findings import Finding, Kind, Reading

PROGRAM = Kind("file:executable", "A file is a program")
RUNNABLE = Kind("file:runnable-name", "A file bears a name that a double click would run")
KINDS = (PROGRAM, RUNNABLE)
NEEDS = frozenset({"attachment"})

RUNNABLE_EXTENSIONS = frozenset(
    "exe scr com pif cpl bat cmd js jse vbs vbe wsf wsh wsc hta ps1 psm1 lnk msi msp mst reg scf jar gadget "
    "application appref-ms appx msix ade adp chm iqy settingcontent-ms library-ms search-ms url xll wll vhd "
    "vhdx".split()
)


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        family = FAMILIES.get(file.type)
        if family and family.executable and file.type != "script":
            yield PROGRAM.at(file.path, about=file.sha256, type=file.type)
        for name in file.names:
            if name.rpartition(".")[2].strip(" .").lower() in RUNNABLE_EXTENSIONS and "." in name:
                yield RUNNABLE.at(file.path, about=file.sha256, name=name)
