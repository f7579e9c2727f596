"""From bytes to a tree of entities in one pass (RFC 2046 section 5.1), with offsets instead of copies.

Only lines that begin with `--` can end a part, so only those are looked at, each once, against a table of the
boundaries that are open. A line that is an outer boundary ends every part inside. Nothing recurses: open multiparts lie
on a stack, and nesting is a number with a limit.
"""

from gatepost.kinds import (
    LIMIT_DEPTH,
    MIME_BOUNDARY_PREFIX,
    MIME_COMPETING_BOUNDARIES,
    MIME_MISSING_BOUNDARY,
    MIME_MISSING_END,
    MIME_PART_AFTER_END,
    MIME_SAME_BOUNDARY,
)
from gatepost.mail.budget import ReadBudget
from gatepost.mail.entity import Entity, describe_entity
from gatepost.mail.headers import HeaderSection, read_section
from gatepost.mail.message import Part
from gatepost.speedups import native

_MOST_COMPARED = 8
_LONGEST_LINE = 1000
_NONE: frozenset[bytes] = frozenset()


def find_delimiter(
    source: bytes, at: int, opened: frozenset[bytes], closed: frozenset[bytes], prefixes: tuple[bytes, ...], most: int
) -> tuple[int, int, bool]:
    """Return the next line feed before `--` and one of the boundaries `opened` or `closed`, or the end of one, or a
    line that begins with one of `prefixes`; -1 where there is none.

    Then how many lines that begin with `--` were looked at; after `most` of them the place is that of the next one,
    and the last value False. `_speedups.c` has the same.
    """
    taken = 0
    at = source.find(b"\n--", max(0, at))
    while at >= 0 and taken < most:
        taken += 1
        eol = source.find(b"\n", at + 3)
        end = eol if eol >= 0 else len(source)
        line = source[at + 3 : min(end, at + _LONGEST_LINE)].rstrip(b" \t\r")
        plain = line.removesuffix(b"--")
        if line in opened or line in closed or plain in opened or plain in closed or line.startswith(prefixes):
            return at, taken, True
        at = source.find(b"\n--", end)
    return at, taken, False


_find_delimiter = native.find_delimiter if native else find_delimiter


class MimeNode:
    """One entity while the tree is built: where its body lies in its source."""

    __slots__ = (
        "children",
        "depth",
        "end",
        "ended",
        "entity",
        "junk",
        "outside",
        "part",
        "path",
        "source",
        "start",
        "unread",
    )

    def __init__(self, source: bytes, path: str, depth: int, entity: Entity, section: HeaderSection) -> None:
        self.source = source
        self.path = path
        self.depth = depth
        self.entity = entity
        self.start = section.body
        self.end = len(source)
        self.unread = section.unread
        self.junk = section.junk
        self.outside: list[tuple[int, int]] = []
        self.ended = False
        self.children: list[MimeNode] = []
        self.part: Part | None = None

    @property
    def body(self) -> bytes:
        return self.source[self.start : self.end]


class MimeTree:
    """The entities of one source in order. `odd` says that another program might see other ones."""

    __slots__ = (
        "_boundaries",
        "_budget",
        "_closed",
        "_is_after_end",
        "_names",
        "_stack",
        "header_bytes",
        "nodes",
        "odd",
        "source",
    )

    def __init__(self, source: bytes, path: str, depth: int, budget: ReadBudget) -> None:
        self.source = source
        self.nodes: list[MimeNode] = []
        self.odd = False
        self.header_bytes: list[tuple[int, int]] = []
        self._budget = budget
        self._stack: list[MimeNode] = []
        self._boundaries: dict[bytes, int] = {}
        self._names: frozenset[bytes] = frozenset()
        self._closed: set[bytes] = set()
        self._is_after_end = False
        self._open(0, path, depth, "text/plain")
        self._scan()

    def _open(self, position: int, path: str, depth: int, default: str, parent: MimeNode | None = None) -> None:
        """Open the entity at `position`, and those that begin right inside it."""
        budget = self._budget
        while True:
            is_part = parent is not None and parent.entity.is_multipart
            section = read_section(self.source, position, self._names, path, budget, is_part=is_part)
            entity = describe_entity(section.headers, path, budget, default)
            self.odd |= section.odd or entity.odd
            self.header_bytes.append((position, section.body))
            node = MimeNode(self.source, path, depth, entity, section)
            self.nodes.append(node)
            if parent is not None:
                parent.children.append(node)
            self._stack.append(node)
            if entity.is_multipart:
                self._enter(node)
                return
            if not (entity.is_message and entity.encodings[0] == ""):
                return
            if depth >= budget.limits.depth:
                budget.note(LIMIT_DEPTH, path)
                return
            if not budget.take_part(path):
                return
            position, depth, path, default, parent = section.body, depth + 1, f"{path}.1", "text/plain", node

    def _enter(self, node: MimeNode) -> None:
        """Look for the boundary of a multipart from now on."""
        boundaries = node.entity.boundaries
        if node.depth >= self._budget.limits.depth:
            self._budget.note(LIMIT_DEPTH, node.path)
            return
        if not boundaries:
            self._budget.note(MIME_MISSING_BOUNDARY, node.path)
            self.odd = True
            return
        if len(boundaries) > 1:
            self._budget.note(MIME_COMPETING_BOUNDARIES, node.path, " | ".join(boundaries))
            self.odd = True
        boundary = boundaries[0].encode("utf-8", "replace").rstrip(b" \t\r")
        if boundary in self._boundaries:
            self._budget.note(MIME_SAME_BOUNDARY, node.path)
            self.odd = True
        self._boundaries[boundary] = len(self._stack) - 1
        self._names = frozenset(self._boundaries)

    def _scan(self) -> None:
        source, budget = self.source, self._budget
        work, most = budget.work, budget.limits.delimiters
        position, at = self._stack[-1].start, -1
        while self._boundaries:
            prefixes = () if self.odd else tuple(self._names)
            closed = frozenset(self._closed) if self._closed and not self._is_after_end else _NONE
            at, taken, is_delimiter = _find_delimiter(
                source, position - 1, self._names, closed, prefixes, most - work.delimiters
            )
            work.delimiters += taken
            if at < 0 or (not is_delimiter and not budget.take_delimiter("message")):
                break
            eol = source.find(b"\n", at + 3)
            position = after = eol + 1 if eol >= 0 else len(source)
            line = source[at + 3 : min(after, at + _LONGEST_LINE)].rstrip(b" \t\r\n")
            if line in self._boundaries:
                if not self._begin_part(line, at, after):
                    return
                position = max(after, self._stack[-1].start)
            elif line.endswith(b"--") and line[:-2] in self._boundaries:
                self._finish(line[:-2], at, after)
            else:
                self._compare(line)
        else:
            at = source.find(b"\n--", position - 1) if self._closed else -1
        if self._closed and at >= 0:
            self._check_after_end(at)
        if any(node.entity.is_multipart and node.children and not node.ended for node in self._stack):
            budget.note(MIME_MISSING_END, "message")
        self._close(0, len(source))

    def _begin_part(self, boundary: bytes, at: int, after: int) -> bool:
        """Begin the next part of the multipart that has this boundary."""
        index = self._boundaries[boundary]
        node = self._stack[index]
        self._close(index + 1, self._find_part_end(at))
        if not node.children:
            node.outside.append((node.start, max(node.start, at)))
        if not self._budget.take_part(node.path):
            # What is left is one part, so that its bytes are scanned all the same.
            rest = MimeNode(self.source, f"{node.path}.{len(node.children) + 1}", node.depth + 1, Entity(), _NO_HEADER)
            rest.start = after
            node.children.append(rest)
            self.nodes.append(rest)
            self._close(0, len(self.source))
            return False
        default = "message/rfc822" if node.entity.types[0] == "multipart/digest" else "text/plain"
        self._open(after, f"{node.path}.{len(node.children) + 1}", node.depth + 1, default, node)
        return True

    def _finish(self, boundary: bytes, at: int, after: int) -> None:
        """End the multipart that has this boundary; what follows is its epilogue."""
        index = self._boundaries[boundary]
        node = self._stack[index]
        self._close(index + 1, self._find_part_end(at))
        if not node.children:
            node.outside.append((node.start, max(node.start, at)))
        node.outside.append((after, -1))
        node.ended = True
        self._closed.add(boundary)
        self._forget(index)

    def _close(self, index: int, end: int) -> None:
        for node in self._stack[index:]:
            node.end = max(node.start, end)
            node.outside = [(start, stop if stop >= 0 else max(start, end)) for start, stop in node.outside]
        self._forget(index)
        del self._stack[index:]

    def _forget(self, index: int) -> None:
        """Stop looking for boundaries of the nodes from `index` on; a boundary that they hid counts again."""
        if not self._boundaries or max(self._boundaries.values()) < index:
            return
        self._boundaries = {name: place for name, place in self._boundaries.items() if place < index}
        for place, node in enumerate(self._stack[:index]):
            if node.entity.is_multipart and node.entity.boundaries and not node.ended:
                name = node.entity.boundaries[0].encode("utf-8", "replace").rstrip(b" \t\r")
                self._boundaries.setdefault(name, place)
        self._names = frozenset(self._boundaries)

    def _compare(self, line: bytes) -> None:
        """Note a line that begins with an open boundary and goes on, or that is a boundary which has ended."""
        if not self.odd and line.startswith(tuple(self._boundaries)):
            self._budget.note(MIME_BOUNDARY_PREFIX, "message", ascii(line[:80]))
            self.odd = True
        elif self._closed and (line in self._closed or line.removesuffix(b"--") in self._closed):
            self._budget.note(MIME_PART_AFTER_END, "message")
            self.odd = self._is_after_end = True

    def _check_after_end(self, at: int) -> None:
        """Note a boundary that comes back after everything has ended."""
        for boundary in list(self._closed)[:_MOST_COMPARED]:
            if self.source.find(b"\n--" + boundary, at) >= 0:
                self._budget.note(MIME_PART_AFTER_END, "message")
                self.odd = True

    def _find_part_end(self, at: int) -> int:
        """Return where a part ends whose delimiter's line feed is at `at`: that line end belongs to the delimiter."""
        return at - 1 if at > 0 and self.source[at - 1] == 0x0D else max(at, 0)


_NO_HEADER = HeaderSection(Entity().headers, 0)
