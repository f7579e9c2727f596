"""Shortcuts: a name and an icon of one's choice for any command or address (.lnk, .url, and those of macOS)."""

import re
from html import unescape
from itertools import islice

from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.script_strings import expand_commands
from gatepost.files.file_types import find_last_extensions
from gatepost.files.values import File

MAX_STRING = 32_768
HAS_ID_LIST, HAS_LINK_INFO, IS_UNICODE = 0x01, 0x02, 0x80
_STRINGS = ((0x04, "name"), (0x08, "target"), (0x10, "folder"), (0x20, "arguments"), (0x40, "icon"))
_URL = re.compile(r"^[ \t]*(?:BASE)?URL[ \t]*=[ \t]*([^\r\n]{1,4096})", re.IGNORECASE | re.MULTILINE)
_ICON = re.compile(
    r"^[ \t]*(?:IconFile|IconResource|WorkingDirectory|LocalizedResourceName)[ \t]*=[ \t]*([^\r\n]{1,1024})",
    re.IGNORECASE | re.MULTILINE,
)
_LIST_ADDRESS = re.compile(r"(?:https?|ftps?|file|smb|afp|nfs|vnc|ssh):/{0,5}[^\s<>\"\x00-\x1f]{3,2000}", re.IGNORECASE)
_PROPERTY_LISTS = frozenset({"webloc", "inetloc", "fileloc", "afploc", "ftploc", "mailloc"})
MAX_ADDRESSES = 20
_SHARE = re.compile(r"(?:file:)?[\\/]{2,5}[^\\/]", re.IGNORECASE)


def inspect_shortcut(builder: ContentsBuilder) -> None:
    """Add target and arguments of a .lnk file (MS-SHLLINK)."""
    content = builder.file.content
    flags = int.from_bytes(content[20:24], "little")
    place = 76
    if flags & HAS_ID_LIST:
        place += 2 + int.from_bytes(content[place : place + 2], "little")
    target = ""
    if flags & HAS_LINK_INFO:
        size = int.from_bytes(content[place : place + 4], "little")
        target = _find_local_path(content[place : place + min(size, MAX_STRING)])
        place += size
    found = _read_strings(content, place, flags)
    command = " ".join(part for part in (target or found.get("target", ""), found.get("arguments", "")) if part)
    builder.add_trait("shortcut", command)
    if found.get("arguments"):
        builder.add_trait("shortcut-arguments", found["arguments"].strip())
    builder.add_member("command", expand_commands(command))


def _find_local_path(info: bytes) -> str:
    start = int.from_bytes(info[16:20], "little")
    end = info.find(b"\0", start) if 28 <= start < len(info) else -1
    return info[start:end].decode("cp1252", "replace") if end > 0 else ""


def _read_strings(content: bytes, place: int, flags: int) -> dict[str, str]:
    """Return the counted strings whose flags are set (section 2.4)."""
    found: dict[str, str] = {}
    width = 2 if flags & IS_UNICODE else 1
    for flag, name in _STRINGS:
        if flags & flag:
            size = int.from_bytes(content[place : place + 2], "little") * width
            raw = content[place + 2 : place + 2 + size]
            found[name] = raw.decode("utf-16-le" if width == 2 else "cp1252", "replace")
            place += 2 + size
    return found


def is_property_list(file: File) -> bool:
    """Return whether this is a shortcut of macOS (.webloc, .inetloc, .fileloc): a property list with one address."""
    return any(_PROPERTY_LISTS.intersection(find_last_extensions(name)) for name in file.names)


def inspect_property_list(builder: ContentsBuilder) -> None:
    """Add the address of a shortcut of macOS, which is XML or binary; one of a file is opened as a program would be."""
    text = builder.file.content[:65_536].decode("latin-1")
    for match in islice(_LIST_ADDRESS.finditer(text), MAX_ADDRESSES):
        target = unescape(match.group().strip())
        builder.add_link(target)
        is_file = target.lower().startswith(("file:", "smb:", "afp:", "nfs:"))
        builder.add_trait("shortcut-to-share" if is_file else "internet-shortcut", target)


def inspect_internet_shortcut(builder: ContentsBuilder) -> None:
    """Add the address of a .url file; one on a file share is opened as a program would be."""
    text = builder.file.content[:65_536].decode("utf-8", "replace")
    for match in _URL.finditer(text):
        target = match.group(1).strip()
        builder.add_link(target)
        builder.add_trait("shortcut-to-share" if _SHARE.match(target) else "internet-shortcut", target)
    for match in _ICON.finditer(text):
        if _SHARE.match(match.group(1)):
            builder.add_trait("shortcut-to-share", match.group(1))
