"""Reading mail: any bytes become a frozen `Message`.

The ordinary way is one pass over the bytes (`tree`), then each leaf is decoded once (`leaves`). Where the form of a
message is ambiguous, a second, suspicious reading (`leaves.reread`) adds what another mail program would have found.
Messages inside encoded parts are sources of their own and wait in a queue: nothing recurses.
"""

import re
from collections import deque
from collections.abc import Iterator

from gatepost import kinds
from gatepost.mail import addresses
from gatepost.mail.budget import ReadBudget
from gatepost.mail.encodings.cms import open_cms
from gatepost.mail.encodings.transfer import DecodedBody
from gatepost.mail.headers import unfold
from gatepost.mail.leaves import decode_body, is_line_start, read_leaf, reread
from gatepost.mail.message import Field, Headers, Message, Part
from gatepost.mail.mime import MimeNode, MimeTree
from gatepost.mail.text import read_texts
from gatepost.names import Address
from gatepost.speedups import native

_SMIME_TYPES = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
_FIELD_START = re.compile(rb"content-t", re.IGNORECASE)
_FIELD_START_SIZE = len(b"content-t")
_MOST_OCCURRENCES = 2_000
_LONGEST_GREETING = 200
_GREETINGS = frozenset(
    {
        b"this is a multi-part message in mime format",
        b"this is a multipart message in mime format",
        b"this is a mime-encapsulated message",
        b"this is a mime encoded message",
        b"this is a cryptographically signed message in mime format",
        b"this is an openpgp/mime signed message (rfc 2440 and 3156)",
        b"this is an openpgp/mime signed message (rfc 4880 and 3156)",
    }
)


class MessageParts:
    """All parts of one message: `flat` has every entity of every reading, depth first."""

    __slots__ = ("_budget", "_carriers", "_extra", "flat", "root", "trees")

    def __init__(self, raw: bytes, budget: ReadBudget) -> None:
        self._budget = budget
        self.trees: list[MimeTree] = []
        self._extra: dict[str, list[Part]] = {}
        self._carriers: dict[str, list[MimeNode]] = {}
        budget.take_part("1")
        sources: deque[tuple[bytes, str, int]] = deque([(raw, "1", 0)])
        while sources:
            source, path, depth = sources.popleft()
            tree = MimeTree(source, path, depth, budget)
            self.trees.append(tree)
            if path in self._carriers:
                self._carriers[path].append(tree.nodes[0])
            for node in tree.nodes:
                inner = self._read(node)
                if inner is not None:
                    sources.append((inner, f"{node.path}.1", node.depth + 1))
                    self._carriers[f"{node.path}.1"] = node.children
        self.root = self.trees[0].nodes[0]
        self.flat = self._flatten()
        self._add_suspicious_readings()

    def _read(self, node: MimeNode) -> bytes | None:
        """Read one node's content; return the bytes of a message inside it that must be read in turn."""
        if node.unread[1] > node.unread[0]:
            self._add(node, "header", node.source[node.unread[0] : node.unread[1]])
        if node.junk >= 0 and self._budget.take_alternative(node.end - node.junk, node.path):
            self._add(node, "from-junk", node.source[node.junk : node.end])
        for number, (start, end) in enumerate(node.outside):
            self._add_outside(node, "epilogue" if number else "preamble", start, end)
        if node.children:
            return None
        entity = node.entity
        encoding = entity.encodings[0]
        body = node.body
        if entity.is_multipart:
            return self._read_childless(node, body)
        if entity.is_message and encoding and node.depth < self._budget.limits.depth:
            decoded = decode_body(body, encoding)
            if self._budget.take_part(node.path) and self._budget.take_decoded(len(decoded.content), node.path):
                self._add_leaf(node, body if not decoded.whole else b"")
                return decoded.content
        self._add_leaf(node, body)
        return self._find_attached_message(node)

    def _find_attached_message(self, node: MimeNode) -> bytes | None:
        """Return the bytes of a message that is attached as a mere file, or that is signed as one opaque block: mail
        programs open both all the same."""
        part = node.part
        if part is None or not part.content:
            return None
        inner = b""
        if any(name.lower().rstrip(". ").endswith(".eml") for name in part.names):
            inner = part.content
        elif part.content_type in _SMIME_TYPES or any(name.lower().endswith(".p7m") for name in part.names):
            inner = open_cms(part.content).content
        if not inner or node.depth >= self._budget.limits.depth or not self._budget.take_part(node.path):
            return None
        return inner if self._budget.take_decoded(0 if inner is part.content else len(inner), node.path) else None

    def _read_childless(self, node: MimeNode, body: bytes) -> bytes | None:
        """Read a multipart in which no part was found: it is a leaf, or encoded as a whole. Return the decoded bytes to
        read in turn."""
        encoding = node.entity.encodings[0]
        decoded = decode_body(body, encoding) if encoding else DecodedBody(b"")
        self._budget.note(kinds.MIME_NO_PARTS, node.path)
        self._add_leaf(node, body)
        self.trees[-1].odd = True
        if b"--" not in decoded.content or node.depth >= self._budget.limits.depth:
            return None
        self._budget.note(kinds.MIME_ENCODED_MULTIPART, node.path)
        fields = b"".join(field.raw for field in node.entity.headers.fields if field.name == "content-type")
        return fields.rstrip(b"\r\n") + b"\r\n\r\n" + decoded.content if self._budget.take_part(node.path) else None

    def _add_leaf(self, node: MimeNode, body: bytes) -> None:
        node.part, *others = read_leaf(node.path, node.entity, body, self._budget)
        if others:
            self._extra.setdefault(node.path, []).extend(others)

    def _add_outside(self, node: MimeNode, label: str, start: int, end: int) -> None:
        if end - start <= 4:
            return
        text = node.source[start:end].strip()
        if not text or b" ".join(text[:_LONGEST_GREETING].lower().split()).rstrip(b".") in _GREETINGS:
            return
        if len(text) > _LONGEST_GREETING:
            self._budget.note(kinds.MIME_OUTSIDE_PARTS, node.path)
        self._add(node, label, text)

    def _add(self, node: MimeNode, label: str, content: bytes) -> None:
        if not self._budget.take_part(node.path):
            return
        plain = type(node.entity)()
        parts = read_leaf(f"{node.path}~{label}", plain, content, self._budget)
        self._extra.setdefault(node.path, []).extend(parts)

    def _flatten(self) -> tuple[Part, ...]:
        """Build containers from the leaves up, then list all parts depth first."""
        for tree in reversed(self.trees):
            for node in reversed(tree.nodes):
                if node.children or node.part is None:
                    node.part = _make_container(node)
        flat: list[Part] = []
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if node.part is not None:
                flat.append(node.part)
            flat.extend(self._extra.get(node.path, ()))
            waiting.extend(reversed(node.children))
        return tuple(flat)

    def _add_suspicious_readings(self) -> None:
        """Read odd sources again as a program would that believes no header; add the parts that are new."""
        found: list[Part] = []
        known: set[bytes] | None = None
        names = {name for part in self.flat for name in part.names}
        for tree in self.trees:
            hidden = _has_hidden_fields(tree)
            if not (tree.odd or hidden):
                continue
            if known is None:
                known = {part.content.strip() for part in self.flat if part.content}
            for other in reread(tree.source, self._budget):
                if other.content.strip() in known and names.issuperset(other.names):
                    continue
                if other.label == "as-is" and names.issuperset(other.names):
                    continue
                if not self._budget.take_alternative(len(other.content), "message"):
                    return self._append(found)
                known.add(other.content.strip())
                names.update(other.names)
                if hidden:
                    self._budget.note(kinds.MIME_HIDDEN_PART, "message")
                path = f"1~{len(found) + 1}-{other.label}"
                found.append(Part(path, Headers(), other.content_type, other.charset, "", other.names, other.content))
        return self._append(found)

    def _append(self, found: list[Part]) -> None:
        self.flat += tuple(found)


def _make_container(node: MimeNode) -> Part:
    entity = node.entity
    return Part(
        path=node.path,
        headers=entity.headers,
        content_type=entity.types[0],
        charset=entity.charset,
        disposition=entity.disposition,
        names=entity.names,
        content=node.part.content if node.part else b"",
        children=tuple(child.part for child in node.children if child.part is not None),
    )


def _has_hidden_fields(tree: MimeTree) -> bool:
    """Return whether a content field stands at the beginning of a line that the tree did not read as a header."""
    source, start, count = tree.source, 0, 0
    for section, body in (*sorted(tree.header_bytes), (len(source), len(source))):
        for place in _find_occurrences(source, start, section):
            count += 1
            if count > _MOST_OCCURRENCES or is_line_start(source, place):
                return True
        start = max(start, body)
    return False


def _find_occurrences(source: bytes, start: int, end: int) -> Iterator[int]:
    """Yield where a content field may begin between two places."""
    place = _find_content_field(source, start, end)
    while place >= 0:
        yield place
        place = _find_content_field(source, place + 1, end)


def find_content_field(source: bytes, start: int, end: int) -> int:
    """Return where `content-t` begins between two places, in capitals or small letters; -1 where it does not.
    `_speedups.c` has the same."""
    match = _FIELD_START.search(source, max(0, start), max(0, end) + _FIELD_START_SIZE - 1)
    return match.start() if match else -1


_find_content_field = native.find_content_field if native else find_content_field


# Fields that may stand only once (RFC 5322 section 3.6).
_SINGLE = frozenset(
    {"from", "sender", "reply-to", "to", "cc", "subject", "date", "message-id", "in-reply-to", "references"}
)

_ADDRESSED = frozenset({"from", "reply-to", "to", "cc"})


def read(raw: bytes) -> Message:
    """Read one message. It takes any bytes, in linear time."""
    return read_within(raw, ReadBudget())


def read_within(raw: bytes, budget: ReadBudget) -> Message:
    """Read one message within a budget that the caller can look at afterwards."""
    parts = MessageParts(raw, budget)
    headers, end = parts.root.entity.headers, parts.root.start
    _check_header(headers, budget)
    addressed = [field for field in headers.fields if field.name in _ADDRESSED]
    senders = _read_addresses(addressed, ("from",), budget)
    reply_to = _read_addresses(addressed, ("reply-to",), budget)
    recipients = _read_addresses(addressed, ("to", "cc"), budget)
    texts, links, oddities = read_texts(parts.flat)
    return Message(
        raw=raw,
        headers=headers,
        header_end=end,
        parts=parts.flat,
        texts=texts,
        links=links,
        subject=headers.first("subject") or "",
        senders=senders,
        reply_to=reply_to,
        recipients=recipients,
        defects=(*budget.defects, *oddities),
    )


def _check_header(headers: Headers, budget: ReadBudget) -> None:
    seen: dict[str, str] = {}
    for field in headers.fields:
        if field.name in _SINGLE and seen.setdefault(field.name, field.value) != field.value:
            budget.note(kinds.MIME_DUPLICATE_HEADER, "header", field.name)
    if not any(field.name for field in headers.fields):
        budget.note(kinds.MIME_NO_HEADER, "header")


def _read_addresses(fields: list[Field], names: tuple[str, ...], budget: ReadBudget) -> tuple[Address, ...]:
    found: list[Address] = []
    for field in fields:
        if field.name in names:
            some, more = addresses.parse_addresses(unfold(field), budget.limits.addresses - len(found))
            found.extend(some)
            if more:
                budget.note(kinds.LIMIT_ADDRESSES, field.name)
    budget.work.addresses += len(found)
    return tuple(found)
