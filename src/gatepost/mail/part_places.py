"""Parts of a message as bytes: messages that are attached to it, and where its attachments lie.

`find_attached_messages` gives what people forward when they report mail. Mail programs attach a message as
`message/rfc822` (RFC 2046 section 5.2.1), some of them as a file with the ending `.eml`, and a few encode it. The
outermost attached messages are found; one inside of another belongs to that one. The reader's own budgets hold, and at
most `MAX_MESSAGES` are returned.

`find_parts` gives the places of attachments, so that they can be taken out and the rest left as it is. Only a message
that reads in one way can be cut: where another mail program might see other parts (`MimeTree.odd`, or a second reading
of the whole), a cut could leave in what it should take out, so no place is given. A file inside of an encoded message
or archive has no place of its own; the attachment that holds it has.
"""

import re
from collections.abc import Iterable

from gatepost.mail.budget import ReadBudget
from gatepost.mail.mime import Entity, MimeNode
from gatepost.mail.reader import MessageParts

_PATH = re.compile(r"1(?:\.[0-9]{1,4}){0,100}(?![^/~])")
# Fields that describe the body of a message which is an attachment and nothing else; the notice brings its own.
_CONTENT_FIELD = re.compile(
    rb"^(?:content-[!-9;-~]{1,60}|mime-version)[ \t]*+:[^\r\n]*+(?>\r\n[ \t][^\r\n]*+)*+\r\n",
    re.MULTILINE | re.IGNORECASE,
)
_MOST_FIELDS = 20
# What stands for the notice while it is tried whether the message can still be read.
_NOTICE = b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\nLQ==\r\n"

# From, to, and the path of the part; "" for bytes in whose place nothing goes.
Place = tuple[int, int, str]


def find_parts(raw: bytes, wanted: Iterable[str]) -> list[Place]:
    """Return the places of the attachments that are, or hold, the files with these paths; nothing where the message
    cannot be cut. A path that is no attachment's, such as that of the text, is passed over."""
    parts = _read(raw)
    if parts is None:
        return []
    tree = parts.trees[0]
    nodes = {node.path: node for node in tree.nodes}
    heads = {id(node): head for node, (head, _) in zip(tree.nodes, tree.header_bytes, strict=True)}
    chosen: dict[str, MimeNode] = {}
    for path in wanted:
        node = _find_attachment(nodes, path)
        if node is not None:
            chosen[node.path] = node
    places: list[Place] = []
    for node in sorted(chosen.values(), key=lambda node: (heads[id(node)], -node.end)):
        if not places or heads[id(node)] >= places[-1][1]:
            places += _cut_message(raw, node) if node.path == "1" else [(heads[id(node)], node.end, node.path)]
    return places if places and _is_clean_after(raw, places, chosen.values()) else []


def _read(raw: bytes) -> MessageParts | None:
    """Read a message; None where it reads in more than one way, or was not read to its end."""
    parts = MessageParts(raw, ReadBudget())
    tree = parts.trees[0]
    whole = len(tree.nodes) == len(tree.header_bytes)
    return parts if whole and not tree.odd and not any(part.path.startswith("1~") for part in parts.flat) else None


def _find_attachment(nodes: dict[str, MimeNode], path: str) -> MimeNode | None:
    """Return the innermost attachment with a place of its own that is, or holds, the file with this path."""
    match = _PATH.match(path)
    here = match[0] if match else ""
    while here:
        node = nodes.get(here)
        if node is not None and _is_attachment(node.entity):
            return node
        here = here.rpartition(".")[0]
    return None


def _is_attachment(entity: Entity) -> bool:
    if entity.is_multipart:
        return False
    return bool(entity.names) or entity.disposition == "attachment" or not entity.types[0].startswith("text/")


def _cut_message(raw: bytes, node: MimeNode) -> list[Place]:
    """Return what replaces the message where it is the attachment: content fields, and all from the empty line on."""
    head = raw[: node.start]
    if not head.endswith(b"\r\n\r\n") and head != b"\r\n":
        return []
    end = node.start - 2
    fields = [match.span() for match in _CONTENT_FIELD.finditer(head, 0, end)]
    return [*((start, stop, "") for start, stop in fields), (end, len(raw), "1")] if len(fields) <= _MOST_FIELDS else []


def _is_clean_after(raw: bytes, places: list[Place], cut: Iterable[MimeNode]) -> bool:
    """Whether the message still reads in one way without these places, and has nothing of what was in them."""
    pieces: list[bytes] = []
    position = 0
    for start, end, path in places:
        pieces += (raw[position:start], _NOTICE if path else b"")
        position = end
    left = _read(b"".join((*pieces, raw[position:])))
    if left is None:
        return False
    gone = {node.part.content for node in cut if node.part is not None and node.part.content}
    return not any(part.content in gone for part in left.flat)


MAX_MESSAGES = 10
# Alternative readings of the same bytes carry this in their paths.
_ALTERNATIVE = "~"


def find_attached_messages(raw: bytes) -> tuple[bytes, ...]:
    """Return the messages that are attached to a message. It takes any bytes."""
    parts = MessageParts(raw, ReadBudget())
    # What had to be decoded first is a tree of its own, below the path of the part that carried it.
    decoded = {tree.nodes[0].path: tree.nodes[0].source for tree in parts.trees[1:]}
    found: list[bytes] = []
    taken: list[str] = []
    for node in parts.trees[0].nodes:
        if len(found) >= MAX_MESSAGES:
            break
        if _ALTERNATIVE in node.path or any(node.path.startswith(path) for path in taken):
            continue
        content = _read_message(node, decoded)
        if content.strip():
            found.append(content)
            taken.append(f"{node.path}.")
    return tuple(found)


def _read_message(node: MimeNode, decoded: dict[str, bytes]) -> bytes:
    inner = decoded.get(f"{node.path}.1", b"")
    if node.entity.is_message:
        return inner or node.source[node.start : node.end]
    return inner if node.part and node.part.is_named(".eml") else b""
