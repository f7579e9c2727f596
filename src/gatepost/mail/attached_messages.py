"""Messages that are attached to a message, as bytes: what people forward when they report mail.

Mail programs attach a message as `message/rfc822` (RFC 2046 section 5.2.1), some of them as a file with the ending
`.eml`, and a few encode it. The outermost attached messages are found; one inside of another belongs to that one. The
reader's own budgets hold, and at most `MAX_MESSAGES` are returned.
"""

from gatepost.mail.budget import ReadBudget
from gatepost.mail.reader import MessageParts
from gatepost.mail.tree import MimeNode

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
    names = node.part.names if node.part else ()
    return inner if any(name.lower().rstrip(". ").endswith(".eml") for name in names) else b""
