"""An HTML document as lexbor writes it out: the same tree as text, in which ordinary pages are walked.

A walk over the tree makes several Python objects for every node, and that was the largest part of reading a newsletter.
lexbor's own serialisation of its tree (HTML section 13.3) is made in one native call: every element has its end tag,
every attribute stands in double quotes, and `<` and `>` occur only where a tag or a comment begins and ends.
`walk_source` in `_speedups.c` goes through it and calls Python only for elements that add more than space and style.

The serialisation says the same as the tree only for ordinary elements. A script may hold its own end tag, foreign
content (SVG, MathML) has style elements that are not raw text, and names of tags and attributes may hold quotes. Of
such documents the tree itself is walked.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser

_ODD = re.compile(r"<(?:script|svg|math|template|plaintext|xmp|iframe|noembed|noframes|listing)[ >]")
_ATTRIBUTES = re.compile(r"""(?: [^\s"'<>=/&]++="[^"]*+")*+""")
_ATTRIBUTE = re.compile(r' ([^ =]++)="([^"]*+)"')
_NAME = re.compile(r"[a-z][a-z0-9:_.-]*+")
# Elements that the serialisation gives no end tag.
VOID = frozenset(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr".split()
)
_CHARACTERS = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&nbsp;", "\xa0"), ("&amp;", "&"))


class StartTag(NamedTuple):
    """One start tag: its name, its attributes, and whether the element has an end tag."""

    name: str
    attributes: dict[str, str | None]
    has_end: bool


def _is_reliable() -> bool:
    """Return whether this lexbor writes documents out as described above; old versions escaped less."""
    page = "<body><a b='<>\"'>" + "".join(f"<{name}>" for name in sorted(VOID - {"frame"}))
    written = LexborHTMLParser(page).html or ""
    return 'b="&lt;&gt;&quot;"' in written and not any(f"</{name}>" in written for name in VOID)


_IS_RELIABLE = _is_reliable()


def ordinary_source(parser: LexborHTMLParser) -> str:
    """Return a document as lexbor writes it out; "" where that does not say the same as its tree."""
    source = parser.html or ""
    return source if _IS_RELIABLE and not _ODD.search(source) else ""


def decode_characters(text: str) -> str:
    """Return text or an attribute's value without the five character references that the serialisation uses."""
    for reference, character in _CHARACTERS:
        if reference in text:
            text = text.replace(reference, character)
    return text


@lru_cache(4096)
def parse_tag(text: str) -> StartTag | None:
    """Return a start tag; None for one whose names could be read in more than one way."""
    match = _NAME.match(text)
    if not match or not _ATTRIBUTES.fullmatch(text, match.end()):
        return None
    name = match.group()
    found = _ATTRIBUTE.findall(text, match.end())
    attributes = {key: decode_characters(value) if "&" in value else value for key, value in found}
    return StartTag(name, attributes, name not in VOID)
