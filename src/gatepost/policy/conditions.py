"""Conditions of an operator's own rules, in CEL, the Common Expression Language (cel.dev).

CEL is made for conditions that strangers write: it has no loops but those over a list, no side effects, and types that
are checked before anything is evaluated. The library is that of the CEL project: it gives up an evaluation after 10,000
steps of list functions and an expression after 32 levels of nesting, and its regular expressions are RE2, which takes
linear time. Neither is enough: ten thousand steps over long texts take minutes, and an evaluation cannot be
interrupted. Whoever may write a rule must not be able to stop a worker with it, nor the service on which it is tried.
Therefore the library is loaded only in sealed processes, which are killed when their time is up: in workers, and in
`condition_process` for everything that is not mail.

Most of what would be killed is refused before: the values that a condition can read are cut, and what would cost too
much is not evaluated. That is an early answer with a reason and no boundary. The tree of the checked
condition is walked with the lengths of the values that it reads, and each call is counted at the worst that it can
take: an upper estimate in nanoseconds, as cost estimates of CEL are made elsewhere. Most conditions are cheap for the
longest values there can be, and are not estimated again.

The tree is what the library serialises: `google.protobuf.Any` with a `cel.expr.CheckedExpr` (`checked.proto` and
`syntax.proto` of github.com/google/cel-spec); field numbers below are those of these files.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, reduce
from itertools import zip_longest
from typing import Any, TypeAlias

import msgspec

# In nanoseconds, as measured and rounded up: an evaluation of nothing, with all values there are; a node of the tree; a
# character that is copied or compared; a pair of characters in a search for a text; a call of a regular expression; an
# instruction of one when it is compiled, and when it is tried on a character; a value of a text that is unknown, as an
# expression. An expression is compiled once, as a rule, and counted as if it were not.
_EVALUATION = 100_000
_NODE, _CHARACTER, _PAIR, _CALLED, _COMPILED, _TRIED, _UNKNOWN_SIZE = 300, 1, 1, 15_000, 3_000, 25, 1_000
# The library gives up behind so many steps of list functions.
_MAX_STEPS = 10_000
_MAX_DEPTH = 200
_DOT_SIZE, _CLASS_SIZE, _PROPERTY_SIZE, _FOLDED = 10, 20, 1_500, 3
# Of these the other case is one more letter; the others have further forms, as K has the sign for kelvin.
_ONE_FORM = frozenset(map(chr, range(128))) - frozenset("kKsS")
_FLAGS = re.compile(r"\(\?[A-Za-z]{1,8}[-:)]")

_Fields: TypeAlias = dict[int, list[Any]]


class Extent(msgspec.Struct, frozen=True):
    """How large a value can be: the longest text in it, and the most items at each level of its lists and maps."""

    text: int = 0
    items: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return max(1, self.text) * math.prod(max(1, each) for each in self.items)

    @property
    def inner(self) -> "Extent":
        return Extent(self.text, self.items[1:])

    def join(self, other: "Extent") -> "Extent":
        """Return the extent of a value that may be either."""
        items = tuple(map(max, zip_longest(self.items, other.items, fillvalue=0)))
        return Extent(max(self.text, other.text), items)


class ConditionTree(msgspec.Struct, frozen=True):
    """One node: a constant, a name, a part of a value, a call with its function, a list, or a list function. Parts of a
    list function are range, first value, condition, step and result."""

    kind: str
    name: str = ""
    parts: "tuple[ConditionTree, ...]" = ()
    extent: Extent = Extent()
    variables: tuple[str, ...] = ()


def parse_tree(serialised: bytes) -> ConditionTree:
    """Return the tree of a condition that the library has checked; raises `ValueError` where it is none."""
    try:
        return _parse(_read_fields(_read_fields(serialised)[2][0])[4][0], 0)
    except (LookupError, TypeError) as fault:
        raise ValueError("the library writes its trees in another form") from fault


# Which parts of a node are nodes themselves: by its kind, the numbers of the fields. Those of a map are in its entries.
_NODES: Mapping[int, tuple[int, ...]] = {5: (1,), 6: (1, 3), 7: (1,), 9: (2, 4, 5, 6, 7)}
_CALL, _FUNCTION, _MAP, _ENTRIES, _KEY_AND_VALUE = 6, 2, 8, 2, (3, 4)


def rename_calls(serialised: bytes, old: bytes, new: bytes) -> bytes:
    """Return a condition that the library has checked with another function, of a name as long, in place of one."""
    data = bytearray(serialised)
    for _, start, end in _find_parts(serialised, 0, len(serialised), (2,)):
        for _, begin, finish in _find_parts(serialised, start, end, (4,)):
            for place in _find_calls(serialised, begin, finish, old, 0):
                data[place : place + len(old)] = new
    return bytes(data)


def _find_calls(data: bytes, start: int, end: int, name: bytes, depth: int) -> Iterator[int]:
    """The places of the name in calls of a function, within one `Expr`."""
    if depth > _MAX_DEPTH:
        raise ValueError("the condition is nested too deep")
    for kind, begin, finish in _find_parts(data, start, end, (*_NODES, _MAP)):
        if kind == _CALL:
            named = _find_parts(data, begin, finish, (_FUNCTION,))
            yield from (place for _, place, last in named if data[place:last] == name)
        inner = list(_find_parts(data, begin, finish, _NODES.get(kind, ())))
        if kind == _MAP:
            for _, first, last in _find_parts(data, begin, finish, (_ENTRIES,)):
                inner += _find_parts(data, first, last, _KEY_AND_VALUE)
        for _, first, last in inner:
            yield from _find_calls(data, first, last, name, depth + 1)


def _find_parts(data: bytes, start: int, end: int, numbers: Collection[int]) -> Iterator[tuple[int, int, int]]:
    """The fields of these numbers that have a length, each with its number and where it begins and ends."""
    place = start
    while place < end:
        key, place = _read_varint(data, place)
        if key & 7 == 0:
            _, place = _read_varint(data, place)
        elif key & 7 == 2:
            length, place = _read_varint(data, place)
            if key >> 3 in numbers:
                yield key >> 3, place, place + length
            place += length
        else:
            place += 8 if key & 7 == 1 else 4


def list_names(tree: ConditionTree) -> frozenset[str]:
    """Return the names that a condition reads, with those of its own list functions."""
    names = frozenset([tree.name] if tree.kind == "name" else [])
    return names.union(*map(list_names, tree.parts))


def measure(value: Any) -> Extent:
    """Return the extent of a value that a condition reads."""
    if isinstance(value, str):
        return Extent(len(value) if value.isascii() else len(value.encode("utf-8", "replace")))
    if isinstance(value, Mapping):
        return _gather(len(value), (measure(each) for pair in value.items() for each in pair))
    if isinstance(value, list | tuple):
        return _gather(len(value), map(measure, value))
    return Extent()


def estimate(tree: ConditionTree, extents: Mapping[str, Extent]) -> int:
    """Return how many nanoseconds an evaluation takes at most with values of these extents."""
    return _EVALUATION + _estimate(tree, extents, 1)[0]


def _gather(number: int, extents: Iterable[Extent]) -> Extent:
    """Return the extent of a list of so many items."""
    within = reduce(Extent.join, extents, Extent())
    return Extent(within.text, (number, *within.items))


def _estimate(tree: ConditionTree, extents: Mapping[str, Extent], times: int) -> tuple[int, Extent]:
    """Return the cost of a node that is evaluated so many times, and the extent of its value."""
    own = min(times, _MAX_STEPS)
    if tree.kind == "name":
        return _NODE * own, extents.get(tree.name, Extent())
    if tree.kind == "loop":
        return _estimate_loop(tree, extents, times)
    found = [_estimate(part, extents, times) for part in tree.parts]
    cost, values = sum(each for each, _ in found), [extent for _, extent in found]
    if tree.kind == "call":
        return cost + (_NODE + _call_cost(tree, values)) * own, _call_extent(tree, values)
    if tree.kind == "list":
        return cost + (_NODE + len(values)) * own, _gather(len(values), values)
    return cost + _NODE * own, values[0].inner if values else tree.extent


def _estimate_loop(tree: ConditionTree, extents: Mapping[str, Extent], times: int) -> tuple[int, Extent]:
    """Return the cost of a list function, which the library writes as a loop that gathers a value."""
    reach, start, condition, step, result = tree.parts
    cost, listed = _estimate(reach, extents, times)
    first, begun = _estimate(start, extents, times)
    number = listed.items[0] if listed.items else 1
    *items, gathered = tree.variables
    inner = {**extents, **dict.fromkeys(items, listed.inner), gathered: begun}
    tested, _ = _estimate(condition, inner, times * max(1, number))
    stepped, made = _estimate(step, inner, times * max(1, number))
    if made.items:
        # Of lists, a step adds one item; no other value grows.
        made = Extent(made.text, (made.items[0] * number, *made.items[1:]))
    last, value = _estimate(result, {**inner, gathered: begun.join(made)}, times)
    return cost + first + tested + stepped + last, value


def _call_cost(tree: ConditionTree, values: list[Extent]) -> int:
    if tree.name == "matches" and values:
        pattern = tree.parts[-1]
        size = measure_program(pattern.name) if pattern.kind == "text" else _UNKNOWN_SIZE * max(1, values[-1].text)
        return _CALLED + size * (_COMPILED + _TRIED * values[0].size)
    if tree.name == "contains" and values:
        return _PAIR * values[0].size * values[-1].size
    return _CHARACTER * sum(each.size for each in values)


def _call_extent(tree: ConditionTree, values: list[Extent]) -> Extent:
    if not values:
        return Extent()
    if tree.name == "_[_]":
        return values[0].inner
    if tree.name == "_+_" and len(values) == 2:
        one, other = values
        if one.items or other.items:
            total = sum(each.items[0] for each in values if each.items)
            return Extent(max(one.text, other.text), (total, *one.inner.join(other.inner).items))
        return Extent(one.text + other.text)
    joined = reduce(Extent.join, values)
    # Numbers and times, written as texts.
    return Extent(max(joined.text, 40), joined.items)


def measure_program(pattern: str) -> int:
    """Return how many instructions RE2 makes of an expression, rounded up; repetitions multiply what they repeat.

    Where letters match in both cases, each is a class of letters; the flag is taken to hold everywhere.
    """
    folded = 1
    for flags in _FLAGS.finditer(pattern):
        folded = _FOLDED if "i" in flags.group() else folded
    sizes, last = [1], 0
    place = 0
    while place < len(pattern):
        sign = pattern[place]
        place += 1
        if sign == "(":
            sizes.append(1)
            last = 0
            continue
        if sign == "{" and last:
            count, place = _read_count(pattern, place)
            if count:
                sizes[-1] += last * (count - 1)
                last *= count
                continue
        if sign == ")" and len(sizes) > 1:
            atom = sizes.pop()
        elif sign == "[":
            atom, place = _measure_class(pattern, place)
            atom *= folded
        elif sign == "\\":
            quoted, atom, place = _measure_escape(pattern, place)
            # Of a quoted text the last character is what a repetition repeats.
            sizes[-1] += quoted * folded
            atom *= folded
        elif sign in "*+?" and last:
            # A repetition is an instruction more or two, and may be repeated itself: `(?:a{9})+{9}`.
            sizes[-1] += 2
            last += 2
            continue
        else:
            atom = _DOT_SIZE if sign == "." else _measure_letter(sign) * (1 if sign in _ONE_FORM else folded)
        sizes[-1] += atom
        last = atom
    return sum(sizes)


def _measure_letter(sign: str) -> int:
    return 2 * len(sign.encode("utf-8", "replace"))


def _measure_escape(pattern: str, place: int) -> tuple[int, int, int]:
    """Return the size of what an escape stands for but for its last character, that of its last character, and the
    place behind it: `\\d`, `\\pL`, `\\p{Greek}`, `\\x{10FFFF}`, `\\Qtext\\E`."""
    kind = pattern[place : place + 1]
    if kind == "Q":
        end = pattern.find("\\E", place)
        text = pattern[place + 1 : end if end >= 0 else len(pattern)]
        sizes = [_measure_letter(each) for each in text]
        return sum(sizes[:-1]), sizes[-1] if sizes else 0, end + 2 if end >= 0 else len(pattern)
    return 0, _PROPERTY_SIZE if kind in ("p", "P") else _CLASS_SIZE, _skip_escape(pattern, place)


def _measure_class(pattern: str, place: int) -> tuple[int, int]:
    """Return the size of a class of characters, which begins before this place, and the place behind it."""
    size = _CLASS_SIZE
    if pattern[place : place + 1] == "^":
        place += 1
        size *= 2
    # As the first character, a bracket stands for itself.
    first = place
    while place < len(pattern) and (pattern[place] != "]" or place == first):
        if pattern[place] == "\\":
            size += _PROPERTY_SIZE if pattern[place + 1 : place + 2] in ("p", "P") else _CLASS_SIZE
            place = _skip_escape(pattern, place + 1)
        elif pattern.startswith("[:", place) and (end := pattern.find(":]", place + 2)) >= 0:
            size += _CLASS_SIZE
            place = end + 2
        else:
            # A range of characters outside of ASCII is several sequences of bytes.
            size += 2 if pattern[place].isascii() else _CLASS_SIZE
            place += 1
    return size, place + 1


def _skip_escape(pattern: str, place: int) -> int:
    """Return the place behind an escape that begins before this one: `\\d`, `\\pL`, `\\p{Greek}`, `\\x{10FFFF}`."""
    if pattern[place : place + 1] not in ("p", "P", "x"):
        return place + 1
    if pattern[place + 1 : place + 2] != "{":
        return place + 2
    return max(pattern.find("}", place), place) + 1


def _read_count(pattern: str, place: int) -> tuple[int, int]:
    """Return how often a repetition repeats at most, and the place behind it; 0 for a brace that stands for itself."""
    end = pattern.find("}", place, place + 12)
    numbers = pattern[place:end].split(",") if end >= 0 else []
    if not numbers or not all(each.isascii() and each.isdigit() for each in numbers if each) or not any(numbers):
        return 0, place
    return max([1, *(int(each) for each in numbers if each)]) + 1, end + 1


def _parse(data: bytes, depth: int) -> ConditionTree:
    """Read one `Expr`."""
    if depth > _MAX_DEPTH:
        raise ValueError("the condition is nested too deep")
    found = _read_fields(data)
    if 3 in found:
        constant = _read_fields(found[3][0])
        text = next((constant[number][0] for number in (6, 7) if number in constant), b"")
        return ConditionTree("text", text.decode("utf-8", "replace"), extent=Extent(len(text)))
    if 4 in found:
        return ConditionTree("name", _read_fields(found[4][0])[1][0].decode())
    if 5 in found:
        return ConditionTree("select", parts=(_parse(_read_fields(found[5][0])[1][0], depth + 1),))
    if 6 in found:
        call = _read_fields(found[6][0])
        parts = [_parse(each, depth + 1) for each in (*call.get(1, ()), *call.get(3, ()))]
        return ConditionTree("call", call[2][0].decode(), tuple(parts))
    if 7 in found:
        return ConditionTree(
            "list", parts=tuple(_parse(each, depth + 1) for each in _read_fields(found[7][0]).get(1, ()))
        )
    if 8 in found:
        entries = [_read_fields(each) for each in _read_fields(found[8][0]).get(2, ())]
        parts = [_parse(each, depth + 1) for entry in entries for place in (3, 4) for each in entry.get(place, ())]
        return ConditionTree("list", parts=tuple(parts))
    if 9 in found:
        loop = _read_fields(found[9][0])
        names = tuple(loop[number][0].decode() for number in (1, 8, 3) if number in loop)
        parts = [_parse(loop[number][0], depth + 1) for number in (2, 4, 5, 6, 7)]
        return ConditionTree("loop", parts=tuple(parts), variables=names)
    return ConditionTree("text")


def _read_fields(data: bytes) -> _Fields:
    """Read the fields of a message in the wire format of Protocol Buffers."""
    found: _Fields = {}
    place = 0
    while place < len(data):
        key, place = _read_varint(data, place)
        value: Any
        if key & 7 == 0:
            value, place = _read_varint(data, place)
        elif key & 7 == 2:
            length, place = _read_varint(data, place)
            value, place = data[place : place + length], place + length
        elif key & 7 in (1, 5):
            length = 8 if key & 7 == 1 else 4
            value, place = data[place : place + length], place + length
        else:
            raise ValueError("this is no message of Protocol Buffers")
        if place > len(data):
            raise ValueError("this is no message of Protocol Buffers")
        found.setdefault(key >> 3, []).append(value)
    return found


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7


# The library puts its status before the message, and once more behind it.
_STATUS = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_PLACE = re.compile(r"in CEL: ([0-9]{1,6}):([0-9]{1,6}): ")
_EXPRESSION_FAULT = "invalid regular expression"
# The function that stands for `matches` when a condition is evaluated; as long as that name (`rename_calls`).
_MATCHES = "re2find"
MAX_EXPRESSIONS, MAX_EXPRESSION_MEMORY = 128, 512 << 10
MAX_CONDITION = 2_000
MAX_ITEMS = 200
MAX_TEXT = 2_000
# What an evaluation may cost by the upper estimate, in nanoseconds: in a worker, and in a process that serves others
# meanwhile. The estimate is some ten times of what is seen.
MAX_COST = 250_000_000
SHARED_COST = 25_000_000
TOO_DEAR = "it would take too long for this message"


class Variable(msgspec.Struct, frozen=True):
    """A value that a condition can read. `stored` ones are kept with the result, so that history can be tried."""

    type: str
    about: str
    stored: bool = False


_TEXT, _TEXTS, _FILES, _FIELDS = "string", "list(string)", "list(map(string, string))", "map(string, list(string))"
VARIABLES: Mapping[str, Variable] = {
    "tags": Variable(_TEXTS, "the tags of all findings of checks", stored=True),
    "sender": Variable(_TEXT, "the first address of From, in lower case", stored=True),
    "sender_domain": Variable(_TEXT, "its domain", stored=True),
    "sender_organisation": Variable(_TEXT, "its registered domain", stored=True),
    "sender_name": Variable(_TEXT, "the name beside it"),
    "envelope_sender": Variable(_TEXT, "the address of MAIL FROM, in lower case; empty for a bounce", stored=True),
    "envelope_domain": Variable(_TEXT, "its domain", stored=True),
    "recipients": Variable(_TEXTS, "the addresses of RCPT TO, in lower case"),
    "reply_to": Variable(_TEXTS, "the addresses of Reply-To, in lower case"),
    "host": Variable(_TEXT, "the IP address of the sending host", stored=True),
    "helo": Variable(_TEXT, "what it said in HELO"),
    "spf": Variable(_TEXT, "the result of SPF, such as `pass`, `fail` or `none`", stored=True),
    "dkim": Variable(_TEXT, "the best result of all DKIM signatures", stored=True),
    "dmarc": Variable(_TEXT, "the result of DMARC", stored=True),
    "arc": Variable(_TEXT, "the result of ARC", stored=True),
    "authenticated": Variable("bool", "whether SPF or DKIM proves the From domain", stored=True),
    "subject": Variable(_TEXT, "the subject", stored=True),
    "headers": Variable(_FIELDS, "the header fields: by name in lower case, all values of each"),
    "links": Variable(_TEXTS, "the hosts of all links", stored=True),
    "files": Variable(_FILES, "the files, each with `name`, `extension`, `type` and `sha256`", stored=True),
    "size": Variable("int", "the size of the message in bytes"),
    "known": Variable("bool", "whether the sender wrote to the tenant before today"),
    "known_days": Variable("int", "on how many days before today"),
}


class ConditionError(ValueError):
    """A condition could not be evaluated; the text says why."""


def find_plain_fault(condition: str) -> str:
    """Return what is wrong with a condition whatever it says, as the end of a sentence; "" if it can be compiled."""
    if len(condition) > MAX_CONDITION:
        return f"is longer than {MAX_CONDITION:,} characters"
    return "" if condition.strip() else "is empty"


def find_fault(condition: str) -> str:
    """Return what is wrong with a condition, as the end of a sentence; "" if it can be used. In a process that is not
    sealed, `condition_process` has this."""
    if fault := find_plain_fault(condition):
        return fault
    try:
        compiled = _compile(condition)
    except (RuntimeError, TypeError, ValueError) as fault:
        return f"is not a condition in CEL: {_cut_first_line(str(fault))}"
    if compiled.expression.return_type() != _make_types()["bool"]:
        return "must be true or false, not a value of another type"
    return _find_expression_fault(condition)


def find_place(fault: str) -> tuple[int, int] | None:
    """Return line and column of a fault that `find_fault` has named, both counted from 1; None where it has none."""
    place = _PLACE.search(fault)
    return (int(place.group(1)), int(place.group(2))) if place else None


def _find_expression_fault(condition: str) -> str:
    """Return what is wrong with a regular expression in a condition, which shows only when it is evaluated: for a
    message that has one of everything. Other errors of that message say nothing about others."""
    files: Any = [describe_file("x.x", "x", "x")]
    one = {_TEXT: "x", _TEXTS: ["x"], _FILES: files, _FIELDS: {"x": ["x"]}, "bool": True, "int": 1}
    try:
        evaluate(condition, make_variables(**{name: one[each.type] for name, each in VARIABLES.items()}), SHARED_COST)
    except ConditionError as fault:
        if str(fault) == TOO_DEAR:
            return "would take too long for any message: its regular expressions or lists are too large"
        return f"has an {fault}" if str(fault).startswith(_EXPRESSION_FAULT) else ""
    return ""


@lru_cache(1024)
def is_storable(condition: str) -> bool:
    """Return whether a condition reads only what is kept with results."""
    try:
        _make_environment(stored_only=True).compile(condition)
    except (RuntimeError, TypeError, ValueError):
        return False
    return True


def evaluate(condition: str, variables: Mapping[str, Any], limit: int = MAX_COST) -> bool:
    """Return whether a condition holds; raises `ConditionError`, too, where that would cost more than `limit`."""
    try:
        compiled = _compile(condition)
        if compiled.cost(variables) > limit:
            raise ConditionError(TOO_DEAR)
        result = compiled.expression.eval(data=variables)
    except ConditionError:
        raise
    except (RuntimeError, TypeError, ValueError) as fault:
        raise ConditionError(_cut_first_line(str(fault))) from None
    value = result.value()
    if not isinstance(value, bool):
        raise ConditionError(_cut_first_line(str(value)))
    return value


def make_variables(**values: Any) -> dict[str, Any]:
    """Return values as a condition can read them: every text and list cut, and what is not stated empty."""
    empty: Mapping[str, Any] = {_TEXT: "", _TEXTS: [], _FILES: [], _FIELDS: {}, "bool": False, "int": 0}
    if unknown := values.keys() - VARIABLES.keys():
        raise TypeError(f"there is no variable {min(unknown)}")
    return {name: _cut(values.get(name, empty[each.type])) for name, each in VARIABLES.items()}


def describe_file(name: str, kind: str, sha256: str) -> dict[str, str]:
    """Return one file as a condition can read it."""
    extension = name.rstrip(". ").rpartition(".")[2].lower() if "." in name else ""
    return {"name": name, "extension": extension, "type": kind, "sha256": sha256}


def choose_result(results: Iterable[str]) -> str:
    """Return the best of several results of one standard: `pass` if there is one, else the first."""
    found = list(results)
    return "pass" if "pass" in found else found[0] if found else "none"


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:MAX_TEXT]
    if isinstance(value, Mapping):
        return {str(name)[:MAX_TEXT]: _cut(each) for name, each in list(value.items())[:MAX_ITEMS]}
    if isinstance(value, Sequence):
        return [_cut(each) for each in value[:MAX_ITEMS]]
    return value


class _Compiled(msgspec.Struct, frozen=True):
    """A condition of the library; `tree` is None where it is cheap for any message."""

    expression: Any
    tree: ConditionTree | None
    reads: tuple[str, ...]

    def cost(self, variables: Mapping[str, Any]) -> int:
        """Return what an evaluation with these values costs at most; 0 where it is cheap with any."""
        if self.tree is None:
            return 0
        return estimate(self.tree, {name: measure(variables[name]) for name in self.reads})


@lru_cache(1024)
def _compile(condition: str) -> _Compiled:
    serialised = _make_environment(stored_only=False).compile(condition).serialize()
    tree = parse_tree(serialised)
    expression = _make_evaluator().deserialize(rename_calls(serialised, b"matches", _MATCHES.encode()))
    reads = tuple(sorted(list_names(tree) & VARIABLES.keys()))
    is_cheap = estimate(tree, {name: _LARGEST[VARIABLES[name].type] for name in reads}) <= SHARED_COST
    return _Compiled(expression, None if is_cheap else tree, reads)


# What `make_variables` leaves of the largest values, in bytes of UTF-8.
_LONGEST = 4 * MAX_TEXT
_LARGEST: Mapping[str, Extent] = {
    _TEXT: Extent(_LONGEST),
    _TEXTS: Extent(_LONGEST, (MAX_ITEMS,)),
    _FILES: Extent(_LONGEST, (MAX_ITEMS, 4)),
    _FIELDS: Extent(_LONGEST, (MAX_ITEMS, MAX_ITEMS)),
    "bool": Extent(),
    "int": Extent(),
}


@cache
def _make_types() -> Mapping[str, Any]:
    from cel_expr_python import cel  # type: ignore[import-untyped]  # its stubs are not marked as such

    texts = cel.Type.List(cel.Type.STRING)
    return {
        _TEXT: cel.Type.STRING,
        _TEXTS: texts,
        _FILES: cel.Type.List(cel.Type.Map(cel.Type.STRING, cel.Type.STRING)),
        _FIELDS: cel.Type.Map(cel.Type.STRING, texts),
        "bool": cel.Type.BOOL,
        "int": cel.Type.INT,
    }


@cache
def _make_environment(*, stored_only: bool) -> Any:
    """The library is loaded with the first rule; a deployment without rules does not pay for it."""
    from cel_expr_python import cel

    types = _make_types()
    names = {name: types[each.type] for name, each in VARIABLES.items() if each.stored or not stored_only}
    return cel.NewEnv(variables=names)


@cache
def _make_evaluator() -> Any:
    """The environment of conditions that were compiled and renamed; what people write knows no `_MATCHES`."""
    from cel_expr_python import cel

    types, text = _make_types(), cel.Type.STRING
    of_text = cel.Overload(f"{_MATCHES}_string", cel.Type.BOOL, [text, text], is_member=True)
    of_two = cel.Overload(_MATCHES, cel.Type.BOOL, [text, text])
    return cel.NewEnv(
        variables={name: types[each.type] for name, each in VARIABLES.items()},
        functions=[cel.FunctionDecl(_MATCHES, [of_text, of_two])],
        function_impls=dict.fromkeys((f"{_MATCHES}_string", _MATCHES), _make_search()),
    )


@cache
def _make_search() -> Callable[[str, str], bool]:
    """What looks for a regular expression in a text. The library compiles one for each evaluation. This is the same
    engine (RE2) with the expressions that were used last: `MAX_EXPRESSIONS`, and its own 128 that were compiled last,
    each within `MAX_EXPRESSION_MEMORY`."""
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = MAX_EXPRESSION_MEMORY, False, True

    @lru_cache(MAX_EXPRESSIONS)
    def compile_once(expression: str) -> Any:
        return re2.compile(expression, options)

    def search(text: str, expression: str) -> bool:
        try:
            return compile_once(expression).search(text) is not None
        except re2.error as fault:
            said = fault.args[0] if fault.args else b""
            reason = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
            raise ValueError(f"{_EXPRESSION_FAULT}: {reason}") from None

    search("", "a")
    return search


def reads_only_tags(condition: str) -> bool:
    """Return whether a condition reads nothing but the tags of findings."""
    from cel_expr_python import cel

    try:
        cel.NewEnv(variables={"tags": _make_types()[_TEXTS]}).compile(condition)
    except (RuntimeError, TypeError, ValueError):
        return False
    return True


def _cut_first_line(text: str) -> str:
    """What the library says, without the picture of the place below it."""
    line = _STATUS.sub("", text.partition("\n")[0]).removeprefix("ERROR: <input>:")
    return line.replace(" (in container '')", "")[:300]
