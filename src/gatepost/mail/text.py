"""What a person reads in a message: the visible text of its parts, and the links in them."""

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser

from gatepost.mail.charset import decode
from gatepost.mail.message import Defect, Link, Part, Text

DEFECTS: dict[str, str] = {}

_URL = re.compile(r"https?://[^\s<>\"']{1,2000}", re.IGNORECASE)


def read_texts(parts: tuple[Part, ...]) -> tuple[tuple[Text, ...], tuple[Link, ...], tuple[Defect, ...]]:
    """Texts, links and oddities of every textual leaf among `parts`."""
    texts: list[Text] = []
    links: list[Link] = []
    for part in parts:
        if part.children or not part.content or not part.content_type.startswith("text/"):
            continue
        content, _ = decode(part.content, part.charset)
        if part.content_type == "text/html":
            body = LexborHTMLParser(content).body
            texts.append(Text(part.path, "html", body.text(separator=" ") if body else ""))
        else:
            texts.append(Text(part.path, "plain", content))
        links.extend(_links(content, part.path))
    return tuple(texts), tuple(links), ()


def _links(content: str, where: str) -> Iterator[Link]:
    for match in _URL.finditer(content):
        target = match.group()
        yield Link(target, target, target.split("/")[2].lower(), target, where, "text")
