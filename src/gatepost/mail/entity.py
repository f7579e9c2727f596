"""What the header of one entity says about its body: type, boundary, encoding, names (RFC 2045, RFC 2183).

Every field that may stand once may be there twice, and every name in several places: all values are kept, the first one
is what the tree is built by, and `odd` says that another program might choose differently.
"""

import re

import msgspec

from gatepost.mail import parameters
from gatepost.mail.budget import Budget
from gatepost.mail.headers import unfolded
from gatepost.mail.message import Headers

_IDENTITY = frozenset({"", "7bit", "8bit", "binary", "7-bit", "8-bit", "none", "identity", "8bits", "7bits", "utf-8"})
_ENCODINGS = {
    "base64": "base64",
    "quoted-printable": "quoted-printable",
    **dict.fromkeys(("uuencode", "x-uuencode", "uue", "x-uue", "uu", "x-uu"), "uuencode"),
    **dict.fromkeys(("yenc", "x-yenc", "yencode", "x-yencode"), "yenc"),
    **dict.fromkeys(("binhex", "binhex40", "x-binhex", "x-binhex40", "mac-binhex40", "binhex4"), "binhex"),
    **dict.fromkeys(("gzip64", "x-gzip64"), "gzip64"),
}
_STANDARD = frozenset({"base64", "quoted-printable"})
_HINTS = (
    ("gzip", "gzip64"),
    ("64", "base64"),
    ("quot", "quoted-printable"),
    ("print", "quoted-printable"),
    ("qp", "quoted-printable"),
    ("uu", "uuencode"),
    ("yenc", "yenc"),
    ("hex", "binhex"),
)
_COMMENT = re.compile(r"\([^()]*\)")
_MOST_NAMES = 32


class Entity(msgspec.Struct, frozen=True):
    """An entity's header, read. `types` and `encodings` hold every value that was given, the effective one first."""

    headers: Headers = Headers()
    types: tuple[str, ...] = ("text/plain",)
    boundaries: tuple[str, ...] = ()
    charset: str | None = None
    disposition: str = ""
    names: tuple[str, ...] = ()
    encodings: tuple[str, ...] = ("",)
    odd: bool = False

    @property
    def is_multipart(self) -> bool:
        return self.types[0].startswith("multipart")

    @property
    def is_message(self) -> bool:
        return self.types[0] in {"message/rfc822", "message/global", "message/news"}


def describe(headers: Headers, where: str, budget: Budget, default: str = "text/plain") -> Entity:
    """Read the fields that describe a body."""
    types: list[parameters.Parameters] = []
    dispositions: list[parameters.Parameters] = []
    encodings: list[str] = []
    for field in headers.fields:
        name = field.name
        if name == "content-type":
            types.append(parameters.parse(unfolded(field)))
        elif name == "content-transfer-encoding":
            encodings.append(_without_comments(field.value).lower())
        elif name == "content-disposition":
            dispositions.append(parameters.parse(unfolded(field)))
    if not types and not dispositions and not encodings:
        return Entity(headers=headers, types=(default,))
    odd = _duplicated(types, dispositions, encodings, where, budget) | _odd(types, dispositions, where, budget)
    found, known = _encodings(encodings, where, budget)
    return Entity(
        headers,
        tuple(dict.fromkeys([_type(parsed.main, default) for parsed in types])) or (default,),
        tuple(dict.fromkeys([b for parsed in types if parsed.has("bound") for b in parsed.spellings("boundary")])),
        next(filter(None, [parsed.get("charset") for parsed in types]), None),
        dispositions[0].main if dispositions else "",
        _names(types, dispositions),
        found,
        odd or not known,
    )


def _without_comments(value: str) -> str:
    return _COMMENT.sub("", value).strip() if "(" in value else value


def _type(main: str, default: str) -> str:
    """A type that is no type counts as unknown bytes when it is there, as the default when it is not."""
    main = main.strip()
    if not main:
        return default
    if main.startswith("multipart"):
        return main if "/" in main.rstrip("/") else "multipart/mixed"
    return main[:100] if "/" in main else {"text": "text/plain", "html": "text/html"}.get(main, main[:100])


def _duplicated(
    types: list[parameters.Parameters],
    dispositions: list[parameters.Parameters],
    encodings: list[str],
    where: str,
    budget: Budget,
) -> bool:
    if len(types) < 2 and len(dispositions) < 2 and len(encodings) < 2:
        return False
    values = {
        "Content-Type": {parsed.text for parsed in types},
        "Content-Disposition": {parsed.text for parsed in dispositions},
        "Content-Transfer-Encoding": set(encodings),
    }
    twice = [name for name, different in values.items() if len(different) > 1]
    if twice:
        budget.note("mime:duplicate-header", where, ", ".join(twice))
    return bool(twice)


def _odd(
    types: list[parameters.Parameters], dispositions: list[parameters.Parameters], where: str, budget: Budget
) -> bool:
    odd_type = any(parsed.suspect for parsed in types)
    if odd_type:
        budget.note("mime:odd-content-type", where, types[0].text)
    if any(parsed.suspect for parsed in dispositions):
        budget.note("mime:odd-disposition", where, dispositions[0].text)
    return odd_type


def _names(types: list[parameters.Parameters], dispositions: list[parameters.Parameters]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for parsed in (*dispositions, *types):
        if parsed.has("name"):
            found.update(dict.fromkeys(parameters.decoded_names(parsed.spellings("filename", "name"))))
    return tuple(found)[:_MOST_NAMES]


def _encodings(values: list[str], where: str, budget: Budget) -> tuple[tuple[str, ...], bool]:
    """Every encoding that the fields name or hint at, and whether all of them were known."""
    if len(values) == 1 and values[0] in _STANDARD:
        return (values[0],), True
    names: list[str] = []
    hints: list[str] = []
    for value in values:
        if value in _IDENTITY:
            hints.append("")
        elif value in _ENCODINGS:
            names.append(_ENCODINGS[value])
            if value not in _STANDARD:
                budget.note("mime:nonstandard-encoding", where, value)
        else:
            budget.note("mime:unknown-encoding", where, value)
            hints += ("", *(name for hint, name in _HINTS if hint in value))
    known = not any(hints)
    return tuple(dict.fromkeys((*names, *hints))) or ("",), known
