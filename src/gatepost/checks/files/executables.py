"""Programs sent by mail, and files that pretend to be another kind of file.

A program shows by its content, or by a name that a double click would run; honest senders ship programs as downloads,
and mail systems have refused them for twenty years. `invoice.pdf.exe` shows as `invoice.pdf` where extensions are
hidden; a right-to-left override turns `gpj.exe` into `exe.jpg`; a program named `photo.jpg` is opened by a reader who
trusts the name.
"""

from collections.abc import Iterator

from gatepost.files.signatures import FAMILIES
from gatepost.files.values import File
from gatepost.findings import Reading
from gatepost.kinds import (
    FILE_DOUBLE_EXTENSION,
    FILE_EXECUTABLE,
    FILE_RIGHT_TO_LEFT_NAME,
    FILE_RUNNABLE_NAME,
    FILE_TYPE_MISMATCH,
    Finding,
)

KINDS = (FILE_EXECUTABLE, FILE_RUNNABLE_NAME, FILE_DOUBLE_EXTENSION, FILE_RIGHT_TO_LEFT_NAME, FILE_TYPE_MISMATCH)
NEEDS = frozenset({"attachment"})

RUNNABLE_EXTENSIONS = frozenset(
    "exe scr com pif cpl bat cmd js jse vbs vbe wsf wsh wsc hta ps1 psm1 lnk msi msp mst reg scf jar gadget "
    "application appref-ms appx msix ade adp chm iqy settingcontent-ms library-ms search-ms url xll wll vhd "
    "vhdx".split()
)
HARMLESS = frozenset("pdf doc docx xls xlsx ppt pptx jpg jpeg png gif txt rtf htm html csv mp3 mp4 zip".split())
_OVERRIDES = frozenset("\u202a\u202b\u202d\u202e\u2066\u2067\u2068")
_KNOWN = frozenset().union(*(family.extensions for family in FAMILIES.values()))


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        family = FAMILIES.get(file.type)
        if family and family.executable and file.type != "script":
            yield FILE_EXECUTABLE.at(file.path, about=file.sha256, type=file.type)
        for name in file.names:
            if name.rpartition(".")[2].strip(" .").lower() in RUNNABLE_EXTENSIONS and "." in name:
                yield FILE_RUNNABLE_NAME.at(file.path, about=file.sha256, name=name)
            yield from _find_disguise(name, file)


def _find_disguise(name: str, file: File) -> Iterator[Finding]:
    if _OVERRIDES & set(name):
        yield FILE_RIGHT_TO_LEFT_NAME.at(file.path, about=file.sha256, name=ascii(name))
    parts = [part.strip().lower() for part in name.split(".")[1:]]
    if len(parts) > 1 and parts[-1] in RUNNABLE_EXTENSIONS and parts[-2] in HARMLESS:
        yield FILE_DOUBLE_EXTENSION.at(file.path, about=file.sha256, name=name)
    # Parts of documents are named by programs, and an encrypted .docx is a compound file (MS-OFFCRYPTO).
    if _contradicts(parts[-1] if parts else "", file.type) and not file.within and not file.seen("encrypted"):
        yield FILE_TYPE_MISMATCH.at(file.path, about=file.sha256, name=name, content=file.type)


def _contradicts(extension: str, kind: str) -> bool:
    """Return whether a known type stands under an extension of another known type; unknown ones prove nothing."""
    family = FAMILIES.get(kind)
    return family is not None and extension in _KNOWN and extension not in family.extensions
