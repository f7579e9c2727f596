"""HTML that would make any standard parser slow, made harmless before it is parsed.

The tree construction of the HTML standard is quadratic on hostile input: each `<div>` looks up the whole stack of open
elements, each attribute is compared with those before it, and formatting elements left open (`<p><b a=1><b a=2>…</p>`)
are built anew in every later paragraph, which also multiplies memory. Documents with few tags cannot hurt. Others are
split into tags as the standard's tokenizer does (HTML section 13.2.5) and written out again with a limit on depth,
on attributes, on open formatting elements and on tags. Only what the limits refuse is left out; text never is,
save what follows the last tag that is read.
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
        count <= min(SOME_TAGS, tags)
        and len(html) <= MAX_HTML
        and not is_strict
        and _is_harmless(html, _LONG_TAG, MAX_REBUILT * 4)
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
    and those that format text times all tags may be so many. `_speedups.c` has the same.
    """
    tags = _TAG.findall(html)
    if len(tags) != len(_TAG_START.findall(html)) or any(len(attributes) >= longest for _, attributes in tags):
        return False
    return sum(name.lower() in _FORMATTING for name, _ in tags) * len(tags) <= most


_is_harmless = native.is_harmless if native else is_harmless


class _HtmlLimiter:
    """One pass over a document; `open` and `dropped` count the elements of each name."""

    def __init__(self, tags: int) -> None:
        self.out: list[str] = []
        self.limits: set[Kind] = set()
        self.tags = 0
        self.end = -1
        self._left = tags
        self._open: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._depth = 0
        self._formatting = 0
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
            self._formatting += 1
        elif self._formatting:
            self._rebuild()
        if attributes[-1:] == "/" and attributes[-2:-1] in _BEFORE_SLASH and (self._open["svg"] or self._open["math"]):
            # An empty element of a drawing (`<path …/>`); where it stands in HTML, a parser would not see that it ends.
            tag = tag if len(tag) < _LONG_TAG else self._drop_attributes(name, attributes)
            return f"{tag[:-1].rstrip().removesuffix('/')}></{name}>"
        if name not in _VOID and name not in _UNNESTED:
            if self._depth >= MAX_DEPTH:
                self.limits.add(kinds.LIMIT_HTML_DEPTH)
                self._dropped[name] += 1
                self._formatting -= name in _FORMATTING
                return ""
            self._open[name] += 1
            self._depth += 1
        return tag if len(tag) < _LONG_TAG else self._drop_attributes(name, attributes)

    def _close_tag(self, name: str) -> str:
        if self._dropped[name]:
            self._dropped[name] -= 1
            return ""
        if self._open[name]:
            self._open[name] -= 1
            self._depth -= 1
            self._formatting -= name in _FORMATTING
        elif self._formatting:
            self._rebuild()
        return f"</{name}>"

    def _rebuild(self) -> None:
        """Count the copies of open formatting that later elements get; close it all when there are too many."""
        self._rebuilt += self._formatting
        if self._rebuilt >= MAX_REBUILT:
            self.limits.add(kinds.LIMIT_HTML_DEPTH)
            for name in _FORMATTING & self._open.keys():
                self.out.append(f"</{name}>" * self._open.pop(name))
            self._depth -= self._formatting
            self._formatting = 0

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
