"""The language of searches: one text for Messages, the quarantine, the API and the command line.

    from:paypal host:evil.example (verdict:phishing OR score>8) NOT to:ann@example.org after:7d

A term is a field with a value, or a word, which is looked for in whatever way it can be meant (`message_index.Term`).
Terms that stand beside each other must all hold; `OR` stands between alternatives and binds less than that, `NOT` or a
`-` stands before a term, parentheses group. Operators are in capitals, since people search for the words as well. A
value with blanks or parentheses in it stands in quotes; a backslash before a quote or a backslash means that sign.

The parser takes any text, in time that grows with its length, and returns an expression or a fault. A fault has a place
in the text and a sentence that says what to write instead. The expression says nothing of storage: `search_conditions`
makes statements of it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from ipaddress import ip_address
from typing import Literal, NoReturn, TypeAlias, get_args

import msgspec

from gatepost.findings.kinds import AUTH_DMARC_FAIL, TITLES
from gatepost.ids import LEAST_DIGITS, canonical, id_prefix
from gatepost.lists.entries import refang
from gatepost.lists.links import split_url
from gatepost.policy.rules import Decision, Verdict

MAX_LENGTH = 2_000
MAX_TERMS = 40
MAX_DEPTH = 10
MAX_VALUE = 500
DECISIONS: tuple[str, ...] = get_args(Decision)
KNOWN_VERDICTS: tuple[str, ...] = get_args(Verdict)
STATES = ("held", "released", "deleted")

Operator: TypeAlias = Literal[":", ">", ">=", "<", "<="]


class Field(msgspec.Struct, frozen=True):
    """What a field means, as help says it, an example of a value, and the values that can be completed."""

    help: str
    example: str
    values: tuple[str, ...] = ()


FIELDS: dict[str, Field] = {
    "from": Field("the sender, as readers see it or on the envelope: address, domain or name", "ann@example.org"),
    "to": Field("a recipient: address or domain", "bob@example.com"),
    "domain": Field("the domain of the sender, or one above it", "example.org"),
    "subject": Field("words of the subject; in quotes, as they follow each other", '"your invoice"'),
    "host": Field("the host of a link, a domain above it, or its name alone", "evil.example"),
    "url": Field("the beginning of a link", "evil.example/login"),
    "file": Field("the whole name of a file, attached or inside of another", "invoice.pdf"),
    "sha256": Field("the hash of a file", "64 hexadecimal digits"),
    "ip": Field("the address of the sending host", "192.0.2.17"),
    "tag": Field("a finding, or all of an area (auth:)", AUTH_DMARC_FAIL.id),
    "verdict": Field("the verdict", "phishing", KNOWN_VERDICTS),
    "decision": Field("what was decided", "quarantine", DECISIONS),
    "score": Field("the score, with > >= < or <=", ">5"),
    "after": Field("from then on: a day, a day and a time, or how long ago", "7d", ("24h", "7d", "30d", "today")),
    "before": Field("until then", "2026-11-01", ("24h", "7d", "30d", "today")),
    "tenant": Field("the tenant, by name", "Sales"),
    "campaign": Field("mail of the same campaign as this message", "its id"),
    "sender": Field("the envelope sender alone", "bounce@example.org"),
    "id": Field("the id of the message (ggrid), or its beginning", "0199f0d2"),
    "message-id": Field("the Message-ID field", "<x@example.org>"),
    "queue": Field("the queue id at the mail server before", "4XyZ12"),
    "next-hop": Field("the id that the next hop gave it (queued as …)", "4XyZ12"),
    "state": Field("in the quarantine: held, released or deleted", "deleted", STATES),
}
# What lies in a place of its own, so that it can only be a condition for all of the search.
ALONE = frozenset({"id", "next-hop", "state", "tenant"})
_AREAS = frozenset(tag.partition(":")[0] for tag in TITLES) | {"list", "rule"}

_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9-]{0,30})(:|>=|<=|>|<)")
_BARE = re.compile(r'[^\s()"“”]+')
_BLANKS = re.compile(r"\s+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"|“([^“”]*)”', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_HASH = re.compile(r"[0-9a-fA-F]{64}")
_NUMBER = re.compile(r"-?[0-9]{1,6}(?:\.[0-9]{1,2})?")
_AGO = re.compile(r"([0-9]{1,4})([mhdw])")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_MILLISECONDS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_NEEDS_QUOTES = re.compile(r'[\s()"“”]')


class SearchFault(msgspec.Struct, frozen=True):
    """What is wrong with a search, from which character to which, and what to write instead."""

    start: int
    end: int
    message: str


class Leaf(msgspec.Struct, frozen=True):
    """One term. `field` is "" for a word. The value of `after` and `before` is Unix milliseconds, that of `score`
    hundredths, and of `tenant` the id of the tenant once it is known."""

    field: str
    value: str
    operator: Operator = ":"
    start: int = 0
    end: int = 0


class Both(msgspec.Struct, frozen=True):
    """All of these hold; without any, everything fits."""

    parts: "tuple[Expression, ...]" = ()


class Either(msgspec.Struct, frozen=True):
    """One of these holds."""

    parts: "tuple[Expression, ...]"


class Negated(msgspec.Struct, frozen=True):
    """This does not hold."""

    part: "Expression"


Expression: TypeAlias = Leaf | Both | Either | Negated
EVERYTHING = Both()


class SearchPlace(msgspec.Struct, frozen=True):
    """Where a search is asked: the time and its zone, the tenants that can be named, by their names in lower case and
    by their ids, and whether held mail is searched or messages on record."""

    now: int
    zone: tzinfo = UTC
    tenants: Mapping[str, str] = {}
    is_held: bool = False


def by_name_and_id(tenants: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return how tenants can be named, given the id and the name of each."""
    known = dict(tenants)
    return {uid: uid for uid in known} | {name.casefold(): uid for uid, name in known.items()}


class _FaultError(Exception):
    def __init__(self, start: int, end: int, message: str) -> None:
        super().__init__(message)
        self.fault = SearchFault(start, end, message)


def _refuse(at: "Leaf | _Piece", message: str) -> NoReturn:
    raise _FaultError(at.start, at.end, message)


def parse_search(text: str, place: SearchPlace) -> Expression | SearchFault:
    """Return what a text asks for, or what is wrong with it."""
    if len(text) > MAX_LENGTH:
        return SearchFault(MAX_LENGTH, len(text), f"A search has at most {MAX_LENGTH:,} characters.")
    try:
        return _Parser(text, place).parse()
    except _FaultError as found:
        return found.fault


class _Piece(msgspec.Struct, frozen=True):
    kind: Literal["(", ")", "AND", "OR", "NOT", "term", "end"]
    start: int
    end: int
    leaf: Leaf | None = None


class _Parser:
    """Recursive descent; the depth is bounded."""

    def __init__(self, text: str, place: SearchPlace) -> None:
        self._text, self._place = text, place
        self._at, self._terms, self._depth = 0, 0, 0
        self._current = self._read()

    def parse(self) -> Expression:
        if self._current.kind == "end":
            return EVERYTHING
        found = self._alternatives()
        if self._current.kind == ")":
            _refuse(self._current, "This parenthesis closes none; delete it.")
        _refuse_inside(found)
        _refuse_reversed(found)
        return found

    def _next(self) -> None:
        self._current = self._read()

    def _alternatives(self) -> Expression:
        parts = [self._together()]
        while self._current.kind == "OR":
            self._expect_operand("OR")
            parts.append(self._together())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _together(self) -> Expression:
        parts = [self._operand()]
        while self._current.kind in ("AND", "NOT", "term", "("):
            if self._current.kind == "AND":
                self._expect_operand("AND")
            parts.append(self._operand())
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def _expect_operand(self, word: str) -> None:
        operator = self._current
        self._next()
        if self._current.kind in ("end", ")", "OR", "AND"):
            _refuse(operator, f'Behind {word} a term is missing. To find the word, write "{word}".')

    def _operand(self) -> Expression:
        piece = self._current
        if piece.kind in ("AND", "OR"):
            message = f'Before {piece.kind} a term is missing. To find the word, write "{piece.kind}".'
            _refuse(piece, message)
        if piece.kind == ")":
            _refuse(piece, "Between these parentheses a term is missing.")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            _refuse(piece, f"Parentheses and NOT go at most {MAX_DEPTH} deep.")
        if piece.kind == "NOT":
            self._expect_operand("NOT")
            found: Expression = Negated(self._operand())
        else:
            found = self._group() if piece.kind == "(" else self._term()
        self._depth -= 1
        return found

    def _group(self) -> Expression:
        opening = self._current
        self._next()
        if self._current.kind == "end":
            _refuse(opening, "This parenthesis is not closed; write ) at its end.")
        found = self._alternatives()
        if self._current.kind != ")":
            _refuse(opening, "This parenthesis is not closed; write ) at its end.")
        self._next()
        return found

    def _term(self) -> Expression:
        leaf = self._current.leaf
        assert leaf is not None  # pieces of this kind have one
        self._terms += 1
        if self._terms > MAX_TERMS:
            _refuse(leaf, f"A search has at most {MAX_TERMS} terms.")
        self._next()
        return _read_leaf(leaf, self._place)

    def _read(self) -> _Piece:
        """The next piece."""
        if blanks := _BLANKS.match(self._text, self._at):
            self._at = blanks.end()
        start, text = self._at, self._text
        if start >= len(text):
            return _Piece("end", start, start)
        if text[start] in "()":
            self._at += 1
            return _Piece("(" if text[start] == "(" else ")", start, start + 1)
        if text[start] == "-" and start + 1 < len(text) and (text[start + 1] in '("“' or text[start + 1].isalnum()):
            self._at += 1
            return _Piece("NOT", start, start + 1)
        bare = _BARE.match(text, start)
        word = bare[0] if bare else ""
        following = text[bare.end() : bare.end() + 1] if bare else ""
        if word in ("AND", "OR", "NOT") and following not in ('"', "“"):
            self._at += len(word)
            kind: Literal["AND", "OR", "NOT"] = "AND" if word == "AND" else "OR" if word == "OR" else "NOT"
            return _Piece(kind, start, self._at)
        return self._read_term(start, word)

    def _read_term(self, start: int, word: str) -> _Piece:
        named = _FIELD.match(word) if word else None
        if named and _is_field(word, named):
            field, operator = named[1].lower(), named[2]
            self._at = start + named.end()
            value = self._read_value() if self._at < len(self._text) else ""
            leaf = Leaf(field, value, _operator(operator), start, self._at)
            return _Piece("term", start, self._at, leaf)
        value = self._read_value()
        return _Piece("term", start, self._at, Leaf("", value, ":", start, self._at))

    def _read_value(self) -> str:
        """The value that begins here: in quotes, or up to the next blank or parenthesis; "" where there is none."""
        text, start = self._text, self._at
        if quoted := _QUOTED.match(text, start):
            self._at = quoted.end()
            return _ESCAPE.sub(r"\1", quoted[1]) if quoted[1] is not None else quoted[2]
        if text[start] in '"“”':
            _refuse(
                _Piece("term", start, len(text)), "These quotes are not closed; write another at the end of the value."
            )
        bare = _BARE.match(text, start)
        self._at = bare.end() if bare else start
        return bare[0] if bare else ""


def _operator(text: str) -> Operator:
    return text if text in (">", ">=", "<", "<=") else ":"  # type: ignore[return-value]


def _is_field(word: str, named: re.Match[str]) -> bool:
    """Is the beginning of a word a field? Links and addresses have colons too, and other signs stand in any text."""
    if named[2] != ":" and named[1].lower() not in FIELDS:
        return False
    rest = word[named.end() :]
    return not rest.startswith(("//", ":")) and not is_ip_address(word)


def is_ip_address(text: str) -> bool:
    """Whether a text is an IPv4 or IPv6 address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _refuse_inside(expression: Expression) -> None:
    """Refuse fields that must hold for the whole search where they stand within OR or NOT."""
    whole = set(map(id, conjuncts(expression)))
    for leaf in leaves(expression):
        if leaf.field in ALONE and id(leaf) not in whole:
            _refuse(leaf, f"{leaf.field}: counts for the whole search; take it out of OR and NOT.")


def _refuse_reversed(expression: Expression) -> None:
    """Refuse a period that ends before it begins: nothing can be in it."""
    whole = [part for part in conjuncts(expression) if isinstance(part, Leaf)]
    first = max((int(leaf.value) for leaf in whole if leaf.field == "after"), default=None)
    for leaf in whole:
        if leaf.field == "before" and first is not None and int(leaf.value) <= first:
            _refuse(leaf, "The period ends before it begins; exchange before: and after:.")


def conjuncts(expression: Expression) -> Sequence[Expression]:
    """The parts that must all hold."""
    if isinstance(expression, Both):
        return [part for each in expression.parts for part in conjuncts(each)]
    return [expression]


def leaves(expression: Expression) -> list[Leaf]:
    """All terms, in their order."""
    if isinstance(expression, Leaf):
        return [expression]
    parts = (expression.part,) if isinstance(expression, Negated) else expression.parts
    return [leaf for part in parts for leaf in leaves(part)]


def _read_leaf(leaf: Leaf, place: SearchPlace) -> Leaf:
    """Check the value of a term, and put it into the form in which it is compared."""
    value = leaf.value[:MAX_VALUE].strip()
    if not leaf.field:
        if not value:
            _refuse(leaf, "These quotes are empty; write a word between them.")
        return msgspec.structs.replace(leaf, value=value)
    if leaf.field not in FIELDS or f"{leaf.field}:{value}" in TITLES:
        return _read_tag(leaf, value)
    if leaf.field == ("next-hop" if place.is_held else "state"):
        where = "messages on record" if place.is_held else "held mail"
        _refuse(leaf, f"{leaf.field}: is known of {where} only.")
    if leaf.operator != ":" and leaf.field != "score":
        _refuse(leaf, f"Write {leaf.field}: with a colon.")
    if not value and leaf.field != "sender":
        example = FIELDS[leaf.field].example
        _refuse(leaf, f"Behind {leaf.field}: a value is missing, such as {leaf.field}:{example}.")
    read = _READERS.get(leaf.field)
    return msgspec.structs.replace(leaf, value=read(leaf, value, place) if read else value)


def _read_tag(leaf: Leaf, value: str) -> Leaf:
    """A field that nobody knows: a tag, whose areas are written like fields, or a fault."""
    if leaf.field in _AREAS:
        return msgspec.structs.replace(leaf, field="tag", value=f"{leaf.field}:{value}")
    near = get_close_matches(leaf.field, FIELDS, 1)
    some = ", ".join(f"{name}:" for name in list(FIELDS)[:8])
    hint = f"Did you mean {near[0]}:?" if near else f"There are {some} and others."
    field = _Piece("term", leaf.start, leaf.start + len(leaf.field) + 1)
    _refuse(field, f"No field is called {leaf.field}. {hint} To find the text itself, put it in quotes.")


def _choose(choices: tuple[str, ...]) -> "_Reader":
    def read(leaf: Leaf, value: str, _place: SearchPlace) -> str:
        if value.casefold() in choices:
            return value.casefold()
        _refuse(leaf, f"{leaf.field}: is one of {', '.join(choices)}.")

    return read


def _read_score(leaf: Leaf, value: str, _place: SearchPlace) -> str:
    if leaf.operator == ":":
        _refuse(leaf, "Write score> or score< and a number, such as score>5.")
    if not _NUMBER.fullmatch(value):
        _refuse(leaf, f"Behind score{leaf.operator} stands a number, such as 5 or 7.5.")
    return str(round(float(value) * 100))


def _read_hash(leaf: Leaf, value: str, _place: SearchPlace) -> str:
    if not _HASH.fullmatch(value):
        _refuse(leaf, "A SHA-256 has 64 hexadecimal digits. For the name of a file use file:.")
    return value.lower()


def _read_file(leaf: Leaf, value: str, _place: SearchPlace) -> str:
    if "*" in value:
        _refuse(leaf, "file: takes the whole name of a file, such as file:invoice.pdf.")
    return value


def _read_url(leaf: Leaf, value: str, _place: SearchPlace) -> str:
    parts = split_url(refang(value))
    if parts is None or "." not in parts[0].strip("."):
        _refuse(leaf, "url: begins with a host, such as url:evil.example/login.")
    return refang(value)


def _read_ip(leaf: Leaf, value: str, _place: SearchPlace) -> str:
    if not is_ip_address(value.strip("[]")):
        _refuse(leaf, "ip: takes an address, such as ip:192.0.2.17. For hosts of links use host:.")
    return value.strip("[]")


def _read_id(leaf: Leaf, value: str, _place: SearchPlace) -> str:
    found = canonical(value) or id_prefix(value)
    if not found:
        _refuse(leaf, f"id: takes a whole id, or at least its first {LEAST_DIGITS} digits.")
    return found


def _read_campaign(leaf: Leaf, value: str, _place: SearchPlace) -> str:
    found = canonical(value)
    if not found:
        _refuse(leaf, "campaign: takes the whole id of a message; its page leads to the campaign.")
    return found


def _read_tenant(leaf: Leaf, value: str, place: SearchPlace) -> str:
    known = place.tenants.get(value.casefold())
    if known is None:
        _refuse(leaf, "There is no tenant of this name, or you do not have access to it.")
    return known


def _read_time(leaf: Leaf, value: str, place: SearchPlace) -> str:
    moment = _parse_moment(value, place)
    if moment is None:
        forms = "a day (2026-11-01), a day and a time (2026-11-01T14:30), or how long ago (24h, 7d)"
        _refuse(leaf, f"{leaf.field}: takes {forms}.")
    return str(moment)


def _parse_moment(value: str, place: SearchPlace) -> int | None:
    if ago := _AGO.fullmatch(value.lower()):
        return place.now - int(ago[1]) * _MILLISECONDS[ago[2]]
    if value.lower() in ("today", "yesterday"):
        today = datetime.fromtimestamp(place.now / 1000, place.zone).replace(hour=0, minute=0, second=0, microsecond=0)
        day = today - timedelta(days=value.lower() == "yesterday")
        return round(day.timestamp() * 1000)
    if not _MOMENT.fullmatch(value.upper()):
        return None
    try:
        moment = datetime.fromisoformat(value.upper())
        moment = moment if moment.tzinfo else moment.replace(tzinfo=place.zone)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


_Reader: TypeAlias = Callable[[Leaf, str, SearchPlace], str]
_READERS: dict[str, _Reader] = {
    "verdict": _choose(KNOWN_VERDICTS),
    "decision": _choose(DECISIONS),
    "state": _choose(STATES),
    "score": _read_score,
    "sha256": _read_hash,
    "file": _read_file,
    "url": _read_url,
    "ip": _read_ip,
    "id": _read_id,
    "campaign": _read_campaign,
    "tenant": _read_tenant,
    "before": _read_time,
    "after": _read_time,
}


def write_value(value: str) -> str:
    """Return a value as it stands in a search, in quotes where it needs them."""
    return value if value and not _NEEDS_QUOTES.search(value) else _quote(value)


def write_term(field: str, value: str) -> str:
    """Return a term as it stands in a search; without a field, a word that is no operator and no field."""
    if field:
        return f"{field}:{write_value(value)}"
    named = _FIELD.match(value)
    is_plain = value not in ("AND", "OR", "NOT") and not value.startswith("-")
    return write_value(value) if is_plain and not (named and _is_field(value, named)) else _quote(value)


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def add_term(text: str, term: str) -> str:
    """Return a search that is narrowed by a term."""
    plain = text.strip()
    if not plain:
        return term
    return f"({plain}) {term}" if re.search(r"\bOR\b", plain) else f"{plain} {term}"


def find_state(expression: Expression) -> str:
    """Return the state of held mail that a search asks for."""
    return next((leaf.value for leaf in leaves(expression) if leaf.field == "state"), "held")


MAX_OPTIONS = 10
_WRITTEN = re.compile(r'(?:[^\s()"]|"(?:[^"\\]|\\.)*"?)*$')


class Completion(msgspec.Struct, frozen=True):
    """What can stand in place of a part of a text, and what it means. A field has no blank behind it."""

    start: int
    end: int
    text: str
    help: str = ""


def complete(text: str, at: int, place: SearchPlace, values: Mapping[str, Mapping[str, str]]) -> tuple[Completion, ...]:
    """Return what the term that is being written at a place can become. `values` are those of some fields, with what
    they mean, besides the ones that every field knows."""
    before = text[: max(0, min(at, len(text), MAX_LENGTH))]
    last = _WRITTEN.search(before)
    written = (last[0] if last else "").lstrip("-")
    start = len(before) - len(written)
    named = _FIELD.match(written)
    if named and named[2] == ":" and named[1].lower() in FIELDS:
        return _complete_value(named[1].lower(), written[named.end() :], start, len(before), values)
    left_out = "next-hop" if place.is_held else "state"
    begun = [name for name in FIELDS if name.startswith(written.lower()) and name != left_out]
    made = (
        Completion(start, len(before), f"{name}{'>' if name == 'score' else ':'}", FIELDS[name].help) for name in begun
    )
    return tuple(made)[:MAX_OPTIONS] if '"' not in written else ()


def _complete_value(
    field: str, begun: str, start: int, end: int, values: Mapping[str, Mapping[str, str]]
) -> tuple[Completion, ...]:
    known = dict.fromkeys(FIELDS[field].values, "") | dict(values.get(field, {}))
    plain = begun.strip('"').casefold()
    # What begins so comes before what has it somewhere.
    fitting = sorted(
        (name for name in known if plain in name.casefold()), key=lambda name: not name.casefold().startswith(plain)
    )
    return tuple(
        Completion(start, end, f"{write_term(field, name)} ", known[name])
        for name in fitting[:MAX_OPTIONS]
        if name.casefold() != plain
    )
