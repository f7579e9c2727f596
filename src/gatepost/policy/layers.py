"""Policy files of the operator, and policies over policies: the shipped one, the changes of the deployment's file, and
those of a tenant's file.

For every value it is known which layer set it, in which file and line, and what the value was below. `gatepost policy
explain` shows that, and a ledger in short.

A policy file is read to the values that it sets, or to all of its faults with their lines. It is TOML. `tomllib` does
not keep positions, so the lines of headers and keys are searched in the text. That search is only for error messages:
for a key that it misses, the line above is named.

Reading ends after `MAX_MISTAKES`, and only the first few get a suggestion, which is compared with every known name: a
file of nothing but mistakes costs no more than a file without any.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from gatepost.policy.condition_process import condition_work, find_fault
from gatepost.policy.rules import (
    ACTIONS,
    DECISION_OF,
    MAX_RULES,
    RULE,
    VERDICTS,
    WITH_MAILBOX,
    AddedKinds,
    Chosen,
    GroupRule,
    Key,
    KindRule,
    OwnRule,
    Policy,
    PolicyError,
    PolicyMistake,
    VerdictRule,
    extend_policy,
    find_mailbox_fault,
    find_mark_fault,
    rule_of,
    shipped_policy,
)

MOST_POINTS = 1000.0
MAX_CHARACTERS = 1 << 20
MAX_MISTAKES = 20
MAX_SUGGESTIONS = 5
# Names are shorter than this; a longer word is not compared with them.
MAX_SUGGESTED_LENGTH = 100
# A key cannot span lines, and `tomllib` takes quadratic time for a dotted key.
MAX_DOTS = 100
# Sections, entries and fields: no key that is known has more parts.
MAX_KEY_PARTS = 3

MAX_TITLE = 200

_SECTIONS: dict[str, type[msgspec.Struct]] = {
    "verdicts": VerdictRule,
    "groups": GroupRule,
    "kinds": KindRule,
    "rules": OwnRule,
}
# What an entry needs that the policy below does not have.
_REQUIRED = {"groups": {"cap", "description"}, "rules": {"when", "title", "verdict"}}
_POINTS = frozenset({"weight", "threshold", "own", "cap"})
_WORDS: dict[str, tuple[str, ...]] = {"decision": get_args(Chosen), "verdict": VERDICTS, "action": ("", *ACTIONS)}
# Group names that a file may still use, with the names that replaced them.
OLD_GROUPS = {"acquaintance": "senderHistory"}
_LIST_KIND = re.compile(r"list:[a-z0-9][a-z0-9-]{0,62}")
_GROUP = re.compile(r"[a-z][a-z0-9-]{0,62}")
# An operator may add lists, groups and rules, but no findings and verdicts.
_NEW_NAMES = {"groups": _GROUP, "kinds": _LIST_KIND, "rules": _GROUP}
_LONG_NUMBER = 10**15
_AT_LINE = re.compile(r" \(at line ([0-9]+), column [0-9]+\)$")
_STEP = re.compile(r"""[ \t]*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))[ \t]*([.=\]]?)""")


class PolicyStatement(msgspec.Struct, frozen=True):
    """One value that a file sets."""

    section: str
    name: str
    field: str
    value: Any
    line: int


class StatedPolicy(msgspec.Struct, frozen=True):
    """Every value that a file sets; `mistakes` is empty if the file can be used, `warnings` names old group names."""

    statements: tuple[PolicyStatement, ...] = ()
    mistakes: tuple[PolicyMistake, ...] = ()
    warnings: tuple[PolicyMistake, ...] = ()


def read_policy_file(text: str, base: Policy) -> StatedPolicy:
    """Read a policy file that changes `base`; never raises."""
    if len(text) > MAX_CHARACTERS:
        return StatedPolicy(mistakes=(PolicyMistake(1, (), f"is larger than {MAX_CHARACTERS >> 20} MiB"),))
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MAX_DOTS:
            return StatedPolicy(mistakes=(PolicyMistake(number, (), f"has a line with more than {MAX_DOTS} dots"),))
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        return StatedPolicy(mistakes=(_describe_syntax_error(str(fault), text),))
    except RecursionError:
        return StatedPolicy(mistakes=(PolicyMistake(1, (), "is nested too deeply"),))
    except ValueError:  # Python reads no integer of more than 4,300 digits
        return StatedPolicy(mistakes=(PolicyMistake(1, (), "has a number with too many digits"),))
    lines = _find_lines(text)
    old = _rename_groups(document, lines)
    reading = _FileReader(document, base, lines)
    with condition_work():
        statements = reading.collect()
    mistakes = tuple(sorted((*reading.mistakes, *old.mistakes)))
    if reading.is_cut:
        mistakes = (*mistakes, PolicyMistake(mistakes[-1].line, (), "has more mistakes; correct these first"))
    return StatedPolicy(() if mistakes else statements, mistakes, old.warnings)


def check_rule(name: str, fields: Mapping[str, Any], base: Policy) -> tuple[PolicyMistake, ...]:
    """Return every mistake in one rule that is to be added to a policy, or to replace the one of that name."""
    rest = {other: rule for other, rule in base.rules.items() if other != name}
    reading = _FileReader({"rules": {name: fields}}, msgspec.structs.replace(base, rules=rest), {})
    reading.collect()
    return tuple(reading.mistakes)


def _rename_groups(document: dict[str, Any], lines: dict[Key, int]) -> StatedPolicy:
    """Replace old group names in a parsed file by the new ones, and return what is to be said of them."""
    groups, kinds = document.get("groups"), document.get("kinds")
    mistakes, warnings = [], []
    for old, new in OLD_GROUPS.items():
        if isinstance(groups, dict) and old in groups:
            key = ("groups", old)
            line = lines.get(key, 1)
            if new in groups:
                mistakes.append(PolicyMistake(line, key, f"is the old name of {new}, which is set too: keep {new}"))
            else:
                warnings.append(PolicyMistake(line, key, _describe_new_name(new)))
            groups.setdefault(new, groups.pop(old))
            lines |= {("groups", new, *inner[2:]): at for inner, at in lines.items() if inner[:2] == key}
        for kind, fields in kinds.items() if isinstance(kinds, dict) else ():
            if isinstance(fields, dict) and fields.get("group") == old:
                key_of_kind = ("kinds", kind, "group")
                line = lines.get(key_of_kind) or lines.get(key_of_kind[:2], 1)
                warnings.append(PolicyMistake(line, key_of_kind, f"names {old}, which {_describe_new_name(new)}"))
                fields["group"] = new
    return StatedPolicy(mistakes=tuple(mistakes), warnings=tuple(warnings))


def _describe_new_name(new: str) -> str:
    return f"is now called {new}; the old name is still read"


def _describe_syntax_error(message: str, text: str) -> PolicyMistake:
    at = _AT_LINE.search(message)
    line = int(at.group(1)) if at else text.count("\n") + 1
    return PolicyMistake(line, (), f"is not TOML here: {_AT_LINE.sub('', message)}")


class _TooManyMistakesError(Exception):
    """Ends the walk over a file that is all mistakes."""


class _FileReader:
    """One walk over a parsed file; faults are collected on the way."""

    def __init__(self, document: Mapping[str, Any], base: Policy, lines: Mapping[Key, int]) -> None:
        self._document = document
        self._base = base
        self._lines = lines
        self.mistakes: list[PolicyMistake] = []
        self.is_cut = False
        self._suggestions = 0

    def collect(self) -> tuple[PolicyStatement, ...]:
        """Return every value that the file sets, up to the mistake after which reading ends."""
        found: list[PolicyStatement] = []
        try:
            found.extend(self.statements())
        except _TooManyMistakesError:
            self.is_cut = True
        return tuple(found)

    def statements(self) -> Iterator[PolicyStatement]:
        for section, entries in self._document.items():
            if section not in _SECTIONS:
                self._note_mistake((section,), "is not a known section", _SECTIONS)
            elif not isinstance(entries, dict):
                self._note_mistake((section,), "must be a table")
            elif section == "rules" and len({*entries, *self._base.rules}) > MAX_RULES:
                self._note_mistake((section,), f"has more than {MAX_RULES} rules, with those of the policy below it")
            else:
                for name, fields in entries.items():
                    yield from self._read_entry(section, name, fields)
                    if section == "verdicts" and name in VERDICTS and isinstance(fields, dict):
                        self._check_action(name, fields)

    def _read_entry(self, section: str, name: str, fields: Any) -> Iterator[PolicyStatement]:
        key = (section, name)
        known: Iterable[str] = VERDICTS if section == "verdicts" else getattr(self._base, section)
        if name not in known and not (section in _NEW_NAMES and _NEW_NAMES[section].fullmatch(name)):
            self._note_mistake(key, f"is not a known {_ONE[section]}", known)
            return
        if not isinstance(fields, dict):
            self._note_mistake(key, "must be a table")
            return
        if name not in known:
            for needed in sorted(_REQUIRED.get(section, set()) - fields.keys()):
                self._note_mistake((*key, needed), f"is required, since this {_ONE[section].partition(' ')[0]} is new")
        for field, value in fields.items():
            yield from self._read_field((section, name, field), value)

    def _read_field(self, key: Key, value: Any) -> Iterator[PolicyStatement]:
        section, name, field = key
        fields = _SECTIONS[section].__struct_fields__
        if field not in fields:
            self._note_mistake(key, "is not a known key", fields)
            return
        fault = self._find_value_fault(field, value)
        if fault:
            self._note_mistake(key, fault)
            return
        yield PolicyStatement(section, name, field, float(value) if field in _POINTS else value, self._find_line(key))

    def _find_value_fault(self, field: str, value: Any) -> str:
        """Return what is wrong with a value as the end of a sentence; empty if it is valid."""
        if field in _POINTS:
            return _find_points_fault(field, value)
        if field == "conclusive":
            return "" if isinstance(value, bool) else "must be true or false"
        if not isinstance(value, str):
            return "must be a text"
        if field == "when":
            return find_fault(value)
        if field == "mark":
            return find_mark_fault(value)
        if field == "to":
            return find_mailbox_fault(value) if value else ""
        if field == "title" and not 0 < len(value.strip()) <= MAX_TITLE:
            return f"must have between 1 and {MAX_TITLE} characters"
        if field in _WORDS and value not in _WORDS[field]:
            return f"must be one of {', '.join(filter(None, _WORDS[field]))}, not {value!r}"
        if field == "group" and value and value not in self._list_groups():
            return f"names {value!r}, but there is no such group{self._suggest(value, self._list_groups())}"
        return ""

    def _check_action(self, verdict: str, stated: Mapping[str, Any]) -> None:
        """An action needs the decision that it belongs to, and a mailbox where it sends to one. A stricter decision of
        this file over an action of the policy below is no mistake: the action does not count then."""
        below = next(rule for name, rule in self._base.verdicts.items() if name == verdict)
        action = stated.get("action", below.action)
        if action not in ACTIONS:
            return
        decision, needed = stated.get("decision", below.decision), DECISION_OF[action]
        if decision != needed and ("action" in stated or decision == "deliver"):
            key = ("verdicts", verdict, "action" if "action" in stated else "decision")
            self._note_mistake(key, f"is {stated.get(key[2])!r}, but the action {action} needs the decision {needed}")
        if action in WITH_MAILBOX and not stated.get("to", below.to):
            self._note_mistake(("verdicts", verdict, "to"), f"is required for the action {action}")

    def _list_groups(self) -> set[str]:
        own = self._document.get("groups")
        return {*self._base.groups, *(own if isinstance(own, dict) else ())}

    def _note_mistake(self, key: Key, sentence: str, known: Iterable[str] = ()) -> None:
        self.mistakes.append(PolicyMistake(self._find_line(key), key, sentence + self._suggest(key[-1], known)))
        if len(self.mistakes) >= MAX_MISTAKES:
            raise _TooManyMistakesError

    def _suggest(self, word: str, known: Iterable[str]) -> str:
        if not known or self._suggestions >= MAX_SUGGESTIONS:
            return ""
        self._suggestions += 1
        near = difflib.get_close_matches(word, list(known), 1) if len(word) <= MAX_SUGGESTED_LENGTH else []
        return f"; did you mean {near[0]}?" if near else ""

    def _find_line(self, key: Key) -> int:
        while key and key not in self._lines:
            key = key[:-1]
        return self._lines.get(key, 1)


_ONE = {"verdicts": "verdict", "groups": "group name", "kinds": "finding", "rules": "rule name"}


def _find_points_fault(field: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "must be a number"
    if not 0 <= value <= MOST_POINTS:  # which is false for "not a number"
        shown = f", not {value}" if isinstance(value, float) or abs(value) < _LONG_NUMBER else ""
        return f"must be between 0 and {MOST_POINTS:g}{shown}"
    return "must be more than 0" if field == "threshold" and value == 0 else ""


def _find_lines(text: str) -> dict[Key, int]:
    """Return the line of every header and key, as far as each line by itself shows it."""
    found: dict[Key, int] = {}
    table: Key = ()
    for number, line in enumerate(text.split("\n"), 1):
        start = line.lstrip()
        if start.startswith("["):
            table = _split_key(start.lstrip("["))
            key = table
        else:
            key = (*table, *path) if (path := _split_key(start)) else ()
        for length in range(1, min(len(key), MAX_KEY_PARTS) + 1):
            found.setdefault(key[:length], number)
    return found


def _split_key(text: str) -> Key:
    """Return the parts of a dotted key at the start of a line, without quotes."""
    steps: list[str] = []
    position = 0
    while step := _STEP.match(text, position):
        if len(steps) <= MAX_KEY_PARTS:
            steps.append(step.group(1) or step.group(2) or step.group(3) or "")
        position = step.end()
        if step.group(4) != ".":
            return tuple(steps) if step.group(4) else ()
    return ()


PolicyKey: TypeAlias = tuple[str, str, str]


def load_values(text: str) -> dict[str, Any]:
    """Return what a policy file states, right or wrong, as plain values; raises `ValueError` where it is no TOML."""
    if len(text) > MAX_CHARACTERS or any(line.count(".") > MAX_DOTS for line in text.split("\n")):
        raise ValueError("is too large")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def write_value(text: str, section: str, name: str, field: str, value: Any) -> str | None:
    """Return the text of a policy file with one value set, or without it where `value` is None; comments and all else
    stay as they are. None where the file is no TOML, or writes the value in a way that a line does not show."""
    try:
        wanted = load_values(text)
        entry = wanted.setdefault(section, {}).setdefault(name, {})
        if value is None:
            entry.pop(field, None)
        else:
            entry[field] = value
        for changed in _propose(text, (section, name, field), value):
            if _drop_empty(tomllib.loads(changed)) == _drop_empty(wanted):
                return changed
    except (ValueError, AttributeError, TypeError):
        return None
    return None


def _drop_empty(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {key: _drop_empty(each) for key, each in value.items()}
    return {key: each for key, each in inner.items() if each != {}}


def _propose(text: str, place: PolicyKey, value: Any) -> Iterator[str]:
    """Yield the text with a value in the line that has it, else below the header of its entry, else at the end."""
    lines, header = text.split("\n"), -1
    table: Key = ()
    written = "" if value is None else write_toml(value)
    for index, line in enumerate(lines):
        start = line.lstrip()
        if start.startswith("["):
            table = _split_key(start.lstrip("["))
            header = index if table == place[:2] else header
            continue
        path = (*table, *_split_key(start))
        before, equals, after = line.partition("=")
        if path == place:
            new = [] if value is None else [f"{before.rstrip()} {equals} {written}{_find_comment(after)}"]
            yield "\n".join([*lines[:index], *new, *lines[index + 1 :]])
        elif path == place[:2] and after.strip().startswith("{"):
            edited = f"{before}{equals}{_edit_inline(after, place[2], written)}"
            yield "\n".join([*lines[:index], edited, *lines[index + 1 :]])
    if value is None:
        yield text
    elif header >= 0:
        yield "\n".join([*lines[: header + 1], f"{place[2]} = {written}", *lines[header + 1 :]])
    else:
        gap = "\n\n" if text.strip() else ""
        yield f"{text.rstrip()}{gap}[{place[0]}.{write_toml(place[1])}]\n{place[2]} = {written}\n"


def _find_comment(text: str) -> str:
    """Return the comment at the end of a line, with the blanks before it: what begins with `#` after the last quote."""
    start = text.find("#", max(text.rfind('"'), text.rfind("'")) + 1)
    if start < 0:
        return ""
    return text[len(text[:start].rstrip()) :]


def _match_inline(field: str) -> re.Pattern[str]:
    """Return what matches a key of an inline table with its value."""
    return re.compile(rf"""(?<=[{{,\s]){re.escape(field)}\s*=\s*(?:"[^"]*"|'[^']*'|[^\s,}}"']+)""")


def _edit_inline(text: str, field: str, written: str) -> str:
    """Return an inline table with a value set, or without it where nothing is written."""
    stated = _match_inline(field)
    if written and stated.search(text):
        return stated.sub(lambda _: f"{field} = {written}", text, count=1)
    if written:
        return text.replace("{", f"{{ {field} = {written}, ", 1)
    return re.sub(r",\s*(?=,|\})", " ", re.sub(r"\{\s*,", "{", stated.sub("", text, count=1)))


def write_toml(value: Any) -> str:
    """Return a value as TOML writes it: texts, numbers, truths and lists of them as JSON does, but for DEL (U+007F)."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


Level = Literal["shipped", "plugin", "deployment", "tenant"]


class Layer(msgspec.Struct, frozen=True):
    """One policy file of the operator: its level, name and text."""

    level: Literal["deployment", "tenant"]
    file: str
    text: str


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value and the layer that set it; `file` and `line` are those of a policy file of the operator."""

    value: Any
    level: Level
    file: str = ""
    line: int = 0


class Effective(msgspec.Struct, frozen=True):
    """A policy in force, and the origin of its values.

    `stated` has the history of every value that a layer sets: the lowest layer first, the value in force last. Values
    that are not in it are those of the shipped policy, or of the plug-in that brought the kind or group.
    """

    policy: Policy
    stated: Mapping[PolicyKey, tuple[Origin, ...]] = {}

    def origins(self, section: str, name: str, field: str) -> tuple[Origin, ...]:
        """Return the history of one value, with the value in force last."""
        known = self.stated.get((section, name, field))
        added = any(name in getattr(each, section, ()) for each in self.policy.added)
        return known or (Origin(_read_value(self.policy, section, name, field), "plugin" if added else "shipped"),)

    def explain(self, kind: str) -> list[tuple[str, tuple[Origin, ...]]]:
        """Return the key of every value that decides what a kind of finding does, with its history."""
        rule, is_own = rule_of(kind, self.policy), kind.startswith(RULE)
        section, name = ("rules", kind.removeprefix(RULE)) if is_own else ("kinds", kind)
        fields = ("weight", "verdict", "group", "conclusive", *(("decision",) if is_own else ()))
        places = [(section, name, field) for field in fields]
        places += [("groups", rule.group, "cap")] if rule.group else []
        action = [name for name in ("action", "mark", "to") if getattr(self.policy.verdicts[rule.verdict], name)]
        places += [("verdicts", rule.verdict, field) for field in ("decision", "threshold", "own", *action)]
        return [(".".join(place), self.origins(*place)) for place in places]


# The scope of outbound mail among those of tenants; no uid of a tenant is spelt like that.
OUTBOUND = "outbound"


class Policies(msgspec.Struct, frozen=True):
    """The policy of a deployment, those of tenants that have their own, and that of outbound mail if it has one."""

    deployment: Effective
    tenants: Mapping[str, Effective] = {}

    def of(self, tenant: str | None, *, outbound: bool = False) -> Effective:
        """Return the policy for messages of a tenant, or for outbound ones."""
        return self.tenants.get(OUTBOUND if outbound else tenant or "", self.deployment)


def lay_over(base: Effective, layer: Layer) -> Effective:
    """Apply one more layer to a policy; raises `PolicyError` with every fault of the file."""
    said: StatedPolicy = read_policy_file(layer.text, base.policy)
    if said.mistakes:
        raise PolicyError(layer.file, said.mistakes)
    known = dict(base.stated)
    for each in said.statements:
        place = (each.section, each.name, each.field)
        known[place] = (*base.origins(*place), Origin(each.value, layer.level, layer.file, each.line))
    policy = _apply(base.policy, said.statements)
    return Effective(msgspec.structs.replace(policy, changes=_describe_changes(known)), known)


# The origin of rules that were written in the web interface.
WEB = "web interface"


def add_rules(
    base: Effective, level: Literal["deployment", "tenant"], rules: Mapping[str, OwnRule]
) -> tuple[Effective, Mapping[str, str]]:
    """Add rules that do not stand in a file. Returns the policy, and the reason for each rule that is left out: a file
    wins over a rule of the same name, and rules can be more than there may be."""
    known, added, left_out = dict(base.stated), dict(base.policy.rules), dict[str, str]()
    for name, rule in rules.items():
        if name in added:
            level_of = base.origins("rules", name, "when")[-1].level
            left_out[name] = f"a rule of the {level_of} has the same name and takes its place"
        elif rule.group and rule.group not in base.policy.groups:
            left_out[name] = f"there is no group {rule.group}"
        elif len(added) >= MAX_RULES:
            left_out[name] = f"a policy has at most {MAX_RULES} rules"
        else:
            added[name] = rule
            for field in rule.__struct_fields__:
                known["rules", name, field] = (Origin(None, level, WEB), Origin(getattr(rule, field), level, WEB))
    policy = msgspec.structs.replace(base.policy, rules=added, changes=_describe_changes(known))
    return Effective(policy, known), left_out


def _apply(policy: Policy, statements: Iterable[PolicyStatement]) -> Policy:
    sections: dict[str, dict[Any, Any]] = {section: dict(getattr(policy, section)) for section in _SECTIONS}
    stated: dict[tuple[str, str], dict[str, Any]] = {}
    for each in statements:
        stated.setdefault((each.section, each.name), {})[each.field] = each.value
    for (section, name), fields in stated.items():
        entries = sections[section]
        if section == "kinds":
            entries[name] = msgspec.structs.replace(rule_of(name, policy), **fields)
        elif name in entries:
            entries[name] = msgspec.structs.replace(entries[name], **fields)
        else:
            entries[name] = OwnRule(**fields) if section == "rules" else GroupRule(**fields)
    return msgspec.structs.replace(policy, **sections)


def _describe_changes(known: Mapping[PolicyKey, tuple[Origin, ...]]) -> dict[str, str]:
    """Return the differences from the shipped policy as the ledger shows them: by section and name, without files."""
    found: dict[str, list[str]] = {}
    for (section, name, field), origins in known.items():
        first, last = origins[0], origins[-1]
        if section == "rules":
            found[f"kinds.{RULE}{name}"] = [f"rule of the {last.level}"]
        elif last.value != first.value:
            said = f"{field} {render_value(last.value)} instead of {render_value(first.value)} ({last.level})"
            found.setdefault(f"{section}.{name}", []).append(said)
    return {place: ", ".join(said) for place, said in found.items()}


def render_value(value: Any) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _read_value(policy: Policy, section: str, name: str, field: str) -> Any:
    if section == "kinds":
        return getattr(rule_of(name, policy), field)
    rules: Mapping[str, VerdictRule | GroupRule | OwnRule] = getattr(policy, section)
    return getattr(rules[name], field) if name in rules else None


def unchanged_policies(added: Iterable[AddedKinds] = ()) -> Policies:
    """Return the policies of a deployment without policy files; `added` is what its plug-ins bring."""
    return Policies(Effective(extend_policy(shipped_policy(), added)))


def override(base: Policy, text: str, file: str = "policy") -> Policy:
    """Return a policy with the text of a policy file applied to it."""
    return lay_over(Effective(base), Layer("deployment", file, text)).policy
