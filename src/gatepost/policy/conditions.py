"""Conditions of an operator's own rules, in CEL, the Common Expression Language (cel.dev).

CEL is made for conditions that strangers write: it has no loops but those over a list, no side effects, and types that
are checked before anything is evaluated. The library is that of the CEL project: it gives up an evaluation after 10,000
steps of list functions and an expression after 32 levels of nesting, and its regular expressions are RE2, which takes
linear time. Neither is enough: ten thousand steps over long texts take minutes, and nothing can stop them. So the
values that a condition can read are cut, and what would cost too much is not evaluated (`condition_cost`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import msgspec

from gatepost.policy.condition_cost import ConditionTree, Extent, estimate, list_names, measure, parse_tree

# The library puts its status before the message, and once more behind it.
_STATUS = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_PLACE = re.compile(r"in CEL: ([0-9]{1,6}):([0-9]{1,6}): ")
_EXPRESSION_FAULT = "invalid regular expression"
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


def find_fault(condition: str) -> str:
    """Return what is wrong with a condition, as the end of a sentence; "" if it can be used."""
    if len(condition) > MAX_CONDITION:
        return f"is longer than {MAX_CONDITION:,} characters"
    if not condition.strip():
        return "is empty"
    try:
        compiled = _compile(condition)
    except (RuntimeError, TypeError, ValueError) as fault:
        return f"is not a condition in CEL: {_first_line(str(fault))}"
    if compiled.expression.return_type() != _types()["bool"]:
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
        _environment(stored_only=True).compile(condition)
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
        raise ConditionError(_first_line(str(fault))) from None
    value = result.value()
    if not isinstance(value, bool):
        raise ConditionError(_first_line(str(value)))
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
    expression = _environment(stored_only=False).compile(condition)
    tree = parse_tree(expression.serialize())
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
def _types() -> Mapping[str, Any]:
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
def _environment(*, stored_only: bool) -> Any:
    """The library is loaded with the first rule; a deployment without rules does not pay for it."""
    from cel_expr_python import cel

    types = _types()
    names = {name: types[each.type] for name, each in VARIABLES.items() if each.stored or not stored_only}
    return cel.NewEnv(variables=names)


def reads_only_tags(condition: str) -> bool:
    """Return whether a condition reads nothing but the tags of findings."""
    from cel_expr_python import cel

    try:
        cel.NewEnv(variables={"tags": _types()[_TEXTS]}).compile(condition)
    except (RuntimeError, TypeError, ValueError):
        return False
    return True


def _first_line(text: str) -> str:
    """What the library says, without the picture of the place below it."""
    line = _STATUS.sub("", text.partition("\n")[0]).removeprefix("ERROR: <input>:")
    return line.replace(" (in container '')", "")[:300]
