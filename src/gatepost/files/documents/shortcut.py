"""Windows shortcuts (MS-SHLLINK) and internet shortcuts (.url): a name and an icon of one's choice for any command."""

import re

from gatepost.files.budget import Budget
from gatepost.files.documents.insight import Insight
from gatepost.files.documents.script_strings import commands
from gatepost.files.values import Contents, File

MAX_STRING = 32_768
HAS_ID_LIST, HAS_LINK_INFO, IS_UNICODE = 0x01, 0x02, 0x80
_STRINGS = ((0x04, "name"), (0x08, "target"), (0x10, "folder"), (0x20, "arguments"), (0x40, "icon"))
_URL = re.compile(r"^[ \t]*(?:BASE)?URL[ \t]*=[ \t]*([^\r\n]{1,4096})", re.IGNORECASE | re.MULTILINE)
_ICON = re.compile(r"^[ \t]*(?:IconFile|WorkingDirectory)[ \t]*=[ \t]*([^\r\n]{1,1024})", re.IGNORECASE | re.MULTILINE)
_SHARE = re.compile(r"(?:file:)?[\\/]{2,5}[^\\/]", re.IGNORECASE)


def inspect(file: File, budget: Budget) -> Contents:
    """Target, arguments and icon of a .lnk file."""
    insight = Insight(file, budget)
    content = file.content
    flags = int.from_bytes(content[20:24], "little")
    place = 76
    if flags & HAS_ID_LIST:
        place += 2 + int.from_bytes(content[place : place + 2], "little")
    target = ""
    if flags & HAS_LINK_INFO:
        size = int.from_bytes(content[place : place + 4], "little")
        target = _local_path(content[place : place + min(size, MAX_STRING)])
        place += size
    found = _strings(content, place, flags)
    command = " ".join(part for part in (target or found.get("target", ""), found.get("arguments", "")) if part)
    insight.trait("shortcut", command)
    if found.get("arguments"):
        insight.trait("shortcut-arguments", found["arguments"].strip())
    insight.member("command", commands(command))
    return insight.contents()


def _local_path(info: bytes) -> str:
    start = int.from_bytes(info[16:20], "little")
    end = info.find(b"\0", start) if 28 <= start < len(info) else -1
    return info[start:end].decode("cp1252", "replace") if end > 0 else ""


def _strings(content: bytes, place: int, flags: int) -> dict[str, str]:
    """Counted strings, those whose flags are set (section 2.4)."""
    found: dict[str, str] = {}
    width = 2 if flags & IS_UNICODE else 1
    for flag, name in _STRINGS:
        if flags & flag:
            size = int.from_bytes(content[place : place + 2], "little") * width
            raw = content[place + 2 : place + 2 + size]
            found[name] = raw.decode("utf-16-le" if width == 2 else "cp1252", "replace")
            place += 2 + size
    return found


def is_internet_shortcut(content: bytes) -> bool:
    return b"[internetshortcut" in content[:512].lower()


def inspect_internet(file: File, budget: Budget) -> Contents:
    """The address of a .url file; one on a file share is opened as a program would be."""
    insight = Insight(file, budget)
    text = file.content[:65_536].decode("utf-8", "replace")
    for match in _URL.finditer(text):
        target = match.group(1).strip()
        insight.link(target)
        insight.trait("shortcut-to-share" if _SHARE.match(target) else "internet-shortcut", target)
    for match in _ICON.finditer(text):
        if _SHARE.match(match.group(1)):
            insight.trait("shortcut-to-share", match.group(1))
    return insight.contents()
