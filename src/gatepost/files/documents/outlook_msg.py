"""Outlook's saved messages (.msg, MS-OXMSG): each property is a stream, each attachment a storage of such streams."""

from gatepost.files.documents.compound import STREAM, Compound, Entry
from gatepost.files.documents.insight import Insight

MAX_ATTACHMENTS = 500
_VALUE = "__SUBSTG1.0_"
_DATA, _LONG_NAME, _SHORT_NAME = "37010102", "3707", "3704"
_BODIES = {"1000001F": "body.txt", "1000001E": "body.txt", "10130102": "body.html", "1013001F": "body.html"}


def inspect(document: Compound, insight: Insight) -> None:
    """Attachments and bodies as files."""
    folders: dict[str, dict[str, Entry]] = {}
    for entry in document.entries:
        folder, _, name = entry.path.rpartition("/")
        if entry.kind == STREAM and name.startswith(_VALUE) and len(folders) <= MAX_ATTACHMENTS:
            folders.setdefault(folder, {})[name[len(_VALUE) :]] = entry
    for folder, values in folders.items():
        if folder.rpartition("/")[2].startswith("__ATTACH") and _DATA in values:
            _msg_attachment(document, values[_DATA], _msg_name(document, values), insight)
        for tag, name in _BODIES.items():
            if tag in values:
                _msg_attachment(document, values[tag], name, insight)


def _msg_attachment(document: Compound, entry: Entry, name: str, insight: Insight) -> None:
    content = document.read(entry, insight.room(entry.size))
    if entry.path.endswith("001F"):
        content = content.decode("utf-16-le", "replace").encode()
    insight.member(name, content, len(content))


def _msg_name(document: Compound, values: dict[str, Entry]) -> str:
    for tag in (_LONG_NAME, _SHORT_NAME):
        for form, charset in (("001F", "utf-16-le"), ("001E", "cp1252")):
            if entry := values.get(tag + form):
                return document.read(entry, 1_000).decode(charset, "replace").strip("\0") or "attachment"
    return "attachment"
