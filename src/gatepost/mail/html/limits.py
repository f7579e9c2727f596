"""HTML that would make any standard parser slow, made harmless before it is parsed.

The tree construction of the HTML standard is quadratic on hostile input: each `<div>` looks up the whole stack of open
elements, each attribute is compared with those before it, and formatting elements left open (`<p><b a=1><b a=2>…</p>`)
are built anew in every later paragraph, which also multiplies memory. Documents with few tags cannot hurt, nor can
those whose elements nest as they should, which most programs write. Others are split into tags as the standard's
tokenizer does (HTML section 13.2.5) and written out again with a limit on depth, on attributes, on open formatting
elements and on tags. Only what the limits refuse is left out; text never is, save what follows the last tag that is
read.
"""

import re
from collections import Counter

import msgspec

from gatepost.findings import kinds
from gatepost.findings.kinds import Kind
from gatepost.speedups import native

MAX_HTML = 16_000_000
MAX_TAGS = 100_000
MAX_DEPTH = 400
MAX_ATTRIBUTES = 100
MAX_REBUILT = 200_000
FEW_TAGS = 1_500
SOME_TAGS = 6_000
SHORT = 65_536

_SPACE = r"[\t\n\f\r ]"
_ATTRIBUTE = (
    r"[^\t\n\f\r />][^\t\n\f\r />=]*+"
    rf"(?>{_SPACE}*+={_SPACE}*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[^\t\n\f\r >]*+))?+"
)
TOKEN = re.compile(
    r"<(?:!--(?:-?>|.*?(?:--!?>|\Z))"
    r"|[!?][^>]*+>?|/(?![A-Za-z]|\Z)[^>]*+>?"
    rf"|(/?)([A-Za-z][^\t\n\f\r />]*+)((?>[\t\n\f\r /]++|{_ATTRIBUTE})*+)(>?))",
    re.DOTALL,
)
_TAG = re.compile(rf"<(/?[A-Za-z][^\t\n\f\r />]*+)((?>[\t\n\f\r /]++|{_ATTRIBUTE})*+)")
_TAG_START = re.compile(r"</?[A-Za-z]")
_EACH_ATTRIBUTE = re.compile(_ATTRIBUTE, re.DOTALL)
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr bgsound basefont frame".split())
# These close each other or may stand once: they do not nest unless an element between them does.
_UNNESTED = frozenset("a p li td th tr tbody thead tfoot dt dd option html head body colgroup caption".split())
_FORMATTING = frozenset("b big code em font i s small strike strong tt u nobr".split())
_RAW = frozenset("script style title textarea xmp iframe noembed noframes".split())
_DROPPED = frozenset({"plaintext"})
# The tags that begin these close nothing that is open.
_INLINE = _FORMATTING | frozenset("a abbr br cite del img ins input label q span sub sup wbr".split())
# These and what is in them have rules of their own.
_FOREIGN = frozenset("svg math template frameset plaintext".split())
_SMALL = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_LONG_TAG = 1_000
_BEFORE_SLASH = ("", '"', "'", " ", "\t", "\n", "\r", "\f")


class LimitedHtml(msgspec.Struct, frozen=True):
    """HTML that any parser reads in linear time, `limit:` kinds, the number of tags, and where reading ended or -1."""

    html: str
    limits: tuple[Kind, ...] = ()
    tags: int = 0
    end: int = -1


def limit_html(html: str, tags: int = MAX_TAGS, *, is_strict: bool = False) -> LimitedHtml:
    """Return the same document where it is harmless, else one cut to the limits; `tags` are left to read."""
    count = html.count("<")
    if count <= min(FEW_TAGS, tags) and len(html) <= SHORT and not is_strict:
        return LimitedHtml(html, (), count)
    if (
        count <= tags
        and len(html) <= MAX_HTML
        and not is_strict
        and _is_harmless(html, _LONG_TAG, MAX_REBUILT * 4)
        and (count <= SOME_TAGS or _is_well_nested(html, MAX_DEPTH, MAX_REBUILT))
    ):
        return LimitedHtml(html, (), count)
    limiter = _HtmlLimiter(tags)
    limiter.read(html[:MAX_HTML])
    limits = limiter.limits | ({kinds.LIMIT_HTML_SIZE} if len(html) > MAX_HTML else set())
    end = limiter.end if limiter.end >= 0 or len(html) <= MAX_HTML else MAX_HTML
    return LimitedHtml("".join(limiter.out), tuple(sorted(limits, key=lambda kind: kind.id)), limiter.tags, end)


def is_harmless(html: str, longest: int, most: int) -> bool:
    """Return whether a larger document is harmless after all.

    Where every tag start begins a tag of its own, none hides inside another, and a parser that takes some for text
    (in a comment, in a script) can only see fewer tags than these. No tag may have `longest` characters of attributes,
    and of few tags those that format text times all may be so many. `_speedups.c` has the same.
    """
    tags = _TAG.findall(html)
    if len(tags) != len(_TAG_START.findall(html)) or any(len(attributes) >= longest for _, attributes in tags):
        return False
    return len(tags) > SOME_TAGS or sum(name.lower() in _FORMATTING for name, _ in tags) * len(tags) <= most


_is_harmless = native.is_harmless if native else is_harmless
_MARKUP = re.compile(
    rf"<(?:(!--)|[!?][^<>]*+>|/(?![A-Za-z])[^<>]*+>|(/?)([A-Za-z][^\t\n\f\r />]*+)(?>[\t\n\f\r /]++|{_ATTRIBUTE})*+>)"
)
_ODD_MARKUP = re.compile(r"<[!?/A-Za-z]")


def is_well_nested(html: str, deepest: int, most: int) -> bool:
    """Return whether no parser can have more than so many elements of a harmless document open at once.

    An element counts as closed only where its end tag comes next after all that was opened inside of it, or where one
    of its own kind follows that never nests (`<li>`): then every parser closes it. Other end tags may be ignored by
    one: `<div><select></div>` leaves the `div` open, `<span><p></span>` the `span`. Formatting that is open where
    something may close it from outside is built anew, at most so often. `_speedups.c` has the same.
    """
    opened: list[str] = []
    formatting = rebuilt = at = 0
    while found := _ODD_MARKUP.search(html, at):
        tag = _MARKUP.match(html, found.start())
        if tag is None:
            return False
        at = tag.end()
        comment, slash, name = tag.groups()
        if comment:
            end = html.find("-->", at)
            if end < 0 or html.startswith((">", "->"), at) or html.find("--!>", at, end) >= 0:
                return False
            at = end + 3
            continue
        if name is None:
            continue
        name = name.translate(_SMALL)
        if slash:
            if opened and opened[-1] == name:
                opened.pop()
                formatting -= name in _FORMATTING
            else:
                rebuilt += formatting
            continue
        rebuilt += 0 if name in _INLINE else formatting
        if name in _RAW:
            at = _find_raw_end(html, at, name)
        if name in _FOREIGN or at < 0 or (name in _RAW and "select" in opened):
            return False
        if name not in _VOID and not (name in _UNNESTED and opened and opened[-1] == name):
            opened.append(name)
            formatting += name in _FORMATTING
        if len(opened) > deepest or rebuilt > most:
            return False
    return rebuilt <= most


def _find_raw_end(html: str, at: int, name: str) -> int:
    """Return where the end tag of an element of plain text stands; -1 where it has none or parsers may disagree."""
    end = re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE | re.ASCII).search(html, at)
    return end.start() if end and html.find("<!--", at, end.start()) < 0 else -1


_is_well_nested = native.is_well_nested if native else is_well_nested


# The ends of these close all that is open inside of them, but not through one of the next (HTML section 13.2.4.2).
_BLOCKS = frozenset(
    "address article aside blockquote button center details dialog dir div dl fieldset figcaption figure footer header "
    "h1 h2 h3 h4 h5 h6 main menu nav ol pre section summary ul applet marquee object".split()
)
_BARRIERS = frozenset("applet button caption marquee math object select svg table td template th".split())
_TABLE_BARRIERS = frozenset("math select svg table template".split())
# The parts of a table by their place in it: one ends all that have the same place or a deeper one.
_PARTS = dict.fromkeys("caption colgroup tbody tfoot thead".split(), 1) | {"tr": 2, "td": 3, "th": 3}
_LOOK_BACK = 64
_ADOPTED = 8


class _OpenElements:
    """The elements that a parser may have open. One is taken off only where every parser closes it: those that nobody
    can be sure of stay, so that there may be fewer in truth and never more. `depth` is of those that nest."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.depth = 0
        self._formatting: Counter[str] = Counter()

    def open(self, name: str) -> None:
        """Add an element, and take off what its start ends."""
        while name not in _INLINE and self.names and self.names[-1] == "p":
            self._cut(-1)
        if part := _PARTS.get(name):
            table = self._find({"table"}, _TABLE_BARRIERS)
            if not table:
                return  # a parser has no use for it
            ended = (at for at in range(table + 1, 0) if _PARTS.get(self.names[at], 0) >= part)
            self._cut(next(ended, 0))
        elif name in _UNNESTED and self.names and self.names[-1] == name:
            return
        self.names.append(name)
        self.depth += name not in _UNNESTED
        if name in _FORMATTING:
            self._formatting[name] += 1

    def has_drawing(self) -> bool:
        last = self.names[-_LOOK_BACK:]
        return "svg" in last or "math" in last

    def close(self, name: str) -> bool:
        """Take off what an end tag closes in every parser; return whether it closes an element of this name."""
        if self.names and self.names[-1] == name:
            self._cut(-1)
        elif name in _FORMATTING:
            at = self._find({name}, _BARRIERS)
            # A parser forgets the first of four that are the same, and turns eight times at most.
            if at < -_ADOPTED or self._formatting[name] > 3 or not at:
                return False
            del self.names[at]
            self.depth -= 1
            self._formatting[name] -= 1
        else:
            is_part = name == "table" or name in _PARTS
            at = self._find({name}, _TABLE_BARRIERS if is_part else _BARRIERS) if is_part or name in _BLOCKS else 0
            self._cut(at)
            return at < 0
        return True

    def _find(self, names: set[str], barriers: frozenset[str]) -> int:
        """Return the place of the last element of these names, counted from the end; 0 for none before a barrier."""
        for at in range(-1, -min(len(self.names), _LOOK_BACK) - 1, -1):
            if self.names[at] in names:
                return at
            if self.names[at] in barriers:
                break
        return 0

    def _cut(self, at: int) -> None:
        if at:
            self.depth -= sum(name not in _UNNESTED for name in self.names[at:])
            self._formatting.subtract(name for name in self.names[at:] if name in _FORMATTING)
            del self.names[at:]


class _HtmlLimiter:
    """One pass over a document; `dropped` counts the elements of each name that were left out, `formatting` those that
    are open and format text."""

    def __init__(self, tags: int) -> None:
        self.out: list[str] = []
        self.limits: set[Kind] = set()
        self.tags = 0
        self.end = -1
        self._left = tags
        self._open = _OpenElements()
        self._dropped: Counter[str] = Counter()
        self._formatting: Counter[str] = Counter()
        self._rebuilt = 0

    def read(self, html: str) -> None:
        at = 0
        while token := TOKEN.search(html, at):
            self.tags += 1
            if self.tags > self._left:
                self.limits.add(kinds.LIMIT_HTML_SIZE)
                self.end = at
                return
            self._write_text(html[at : token.start()])
            at = token.end()
            slash, name, attributes, end = token.groups()
            if name is None:
                is_conditional = token.group().startswith("<!--[if") and token.group().endswith("-->")
                self.out.append(token.group() if is_conditional else "<!---->")
            elif end and name.lower() not in _DROPPED:
                name = name.lower()
                self.out.append(self._close_tag(name) if slash else self._open_tag(name, attributes, token.group()))
                if name in _RAW and not slash:
                    at = self._write_raw(html, at, name)
        self._write_text(html[at:])

    def _write_text(self, text: str) -> None:
        # A stray `<` before something that is left out must not become a tag with what follows.
        self.out.append(text.replace("<", "&lt;") if "<" in text else text)

    def _write_raw(self, html: str, at: int, name: str) -> int:
        """Write text without any `<`, so that every parser reads it as text; return where its end tag stands."""
        end = re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE).search(html, at)
        stop = end.start() if end else len(html)
        self.out.append(html[at:stop].replace("<", " "))
        return stop

    def _open_tag(self, name: str, attributes: str, tag: str) -> str:
        if name in _FORMATTING:
            if self._rebuilt >= MAX_REBUILT:
                return ""
        elif self._formatting:
            self._rebuild()
        if attributes[-1:] == "/" and attributes[-2:-1] in _BEFORE_SLASH and self._open.has_drawing():
            # An empty element of a drawing (`<path …/>`); where it stands in HTML, a parser would not see that it ends.
            tag = tag if len(tag) < _LONG_TAG else self._drop_attributes(name, attributes)
            return f"{tag[:-1].rstrip().removesuffix('/')}></{name}>"
        if name not in _VOID:
            if name not in _UNNESTED and self._open.depth >= MAX_DEPTH:
                self.limits.add(kinds.LIMIT_HTML_DEPTH)
                self._dropped[name] += 1
                return ""
            self._open.open(name)
            if name in _FORMATTING:
                self._formatting[name] += 1
        return tag if len(tag) < _LONG_TAG else self._drop_attributes(name, attributes)

    def _close_tag(self, name: str) -> str:
        if self._dropped[name]:
            self._dropped[name] -= 1
            return ""
        is_closed = self._open.close(name)
        if name in self._formatting:
            self._formatting[name] -= 1
            if not self._formatting[name]:
                del self._formatting[name]
        elif self._formatting and not is_closed:
            self._rebuild()
        return f"</{name}>"

    def _rebuild(self) -> None:
        """Count the copies of open formatting that later elements get; close it all when there are too many."""
        self._rebuilt += self._formatting.total()
        if self._rebuilt >= MAX_REBUILT:
            self.limits.add(kinds.LIMIT_HTML_DEPTH)
            for name, count in self._formatting.items():
                self.out.append(f"</{name}>" * count)
            self._formatting.clear()

    def _drop_attributes(self, name: str, attributes: str) -> str:
        found: list[str] = []
        for attribute in _EACH_ATTRIBUTE.finditer(attributes):
            if len(found) == MAX_ATTRIBUTES:
                self.limits.add(kinds.LIMIT_HTML_ATTRIBUTES)
                break
            found.append(attribute.group())
        return f"<{name} {' '.join(found)} >"


_SCRIPT_STEP = re.compile(r"<!--|-->|<(/?)script(?=[\t\n\f\r />])", re.IGNORECASE)


def find_script_end(html: str, start: int) -> int:
    """Return where the end tag of a script begins whose content starts at `start`; -1 where it has none.

    In a script, `<!--` begins a part in which another `<script>` has an end tag of its own (HTML section 13.2.5.4, the
    double escaped state), until `-->`: `<script><!--<script></script>` goes on.
    """
    is_escaped = is_double = False
    place = start
    while found := _SCRIPT_STEP.search(html, place):
        place = found.end()
        step = found.group()
        if step == "<!--":
            if not is_escaped:
                is_escaped, place = True, found.end() - 2  # `<!-->` is closed again
        elif step == "-->":
            is_escaped = is_double = False
        elif found.group(1):
            if not is_double:
                return found.start()
            is_double = False
        elif is_escaped:
            is_double = True
    return -1
