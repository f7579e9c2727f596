"""Files that pretend to be another kind of file.

`invoice.pdf.exe` shows as `invoice.pdf` where extensions are hidden; a right-to-left override turns `gpj.exe` into
`exe.jpg`; a program named `photo.jpg` is opened by whoever trusts the name less than the content.
"""

from collections.abc import Iterator

from gatepost.checks.executable import RUNNABLE_EXTENSIONS
from gatepost.files.signatures import FAMILIES
from gatepost.findings import Finding, Kind, Reading

DOUBLE = Kind("file:double-extension", "A file hides what it is behind a second, harmless extension")
REVERSED = Kind("file:right-to-left-name", "A file's name is partly written right to left, which hides its extension")
MISMATCH = Kind("file:type-mismatch", "A file is of another kind than its name says")
KINDS = (DOUBLE, REVERSED, MISMATCH)
NEEDS = frozenset({"attachment"})

HARMLESS = frozenset("pdf doc docx xls xlsx ppt pptx jpg jpeg png gif txt rtf htm html csv mp3 mp4 zip".split())
_OVERRIDES = frozenset("\u202a\u202b\u202d\u202e\u2066\u2067\u2068")
_KNOWN = frozenset().union(*(family.extensions for family in FAMILIES.values()))


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for name in file.names:
            if _OVERRIDES & set(name):
                yield REVERSED.at(file.path, about=file.sha256, name=ascii(name))
            parts = [part.strip().lower() for part in name.split(".")[1:]]
            if len(parts) > 1 and parts[-1] in RUNNABLE_EXTENSIONS and parts[-2] in HARMLESS:
                yield DOUBLE.at(file.path, about=file.sha256, name=name)
            # Parts of documents are named by programs, and an encrypted .docx is a compound file (MS-OFFCRYPTO).
            if _lies(parts[-1] if parts else "", file.type) and not file.within and not file.seen("encrypted"):
                yield MISMATCH.at(file.path, about=file.sha256, name=name, content=file.type)


def _lies(extension: str, kind: str) -> bool:
    """Only a known type under an extension of another known type is a lie; unknown ones prove nothing."""
    family = FAMILIES.get(kind)
    return family is not None and extension in _KNOWN and extension not in family.extensions
