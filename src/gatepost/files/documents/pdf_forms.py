"""Scripts in forms of PDF that are XML (XFA), and addresses that are relative to the base of a document (ISO 32000-1
section 12.6.4.7)."""

import re
from collections.abc import Iterable, Iterator
from html import unescape
from itertools import islice

MAX_SCRIPTS = 200
MAX_FORM = 4 << 20
_SCRIPT = re.compile(rb"<(?:[\w.-]{1,40}:)?script\b[^<>]{0,1000}>([^<]{0,100000})")
_CDATA = re.compile(rb"<!\[CDATA\[|\]\]>")
_CALCULATION = re.compile(rb"formcalc", re.IGNORECASE)
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]{0,30}:", re.IGNORECASE)


def find_form_scripts(form: bytes) -> list[str]:
    """Return the scripts of a form that are JavaScript; FormCalc only calculates."""
    form = _CDATA.sub(b"", form[:MAX_FORM])
    found = islice(_SCRIPT.finditer(form), MAX_SCRIPTS)
    wanted = (match for match in found if not _CALCULATION.search(match.group()[: match.start(1) - match.start()]))
    return [text for match in wanted if (text := unescape(match.group(1).decode("utf-8", "replace")).strip())]


def join_addresses(base: str, addresses: Iterable[str]) -> Iterator[str]:
    """Yield addresses, those that are relative behind the base of the document."""
    for address in addresses:
        yield address if not base or _ABSOLUTE.match(address) else base.rstrip("/") + "/" + address.lstrip("/")
