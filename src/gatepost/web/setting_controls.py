"""Controls of settings, generated from the models of the files: what a page shows for a key, and what its form sends
back.

The shape of a key follows from its type: a switch, one or several of some words, a number, a size or a time with its
unit, a line of text, several lines, tenants, or the sections of a list. What a form sends becomes the value that a file
would have; what cannot be one stays the text that was typed, so that the page shows it again beside what is wrong with
it.

A value that is the default is not set: "reset" and typing the default are the same.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gatepost.settings.faults import Fault
from gatepost.settings.values import Section, Written, find_section, list_labelled
from gatepost.web.forms import Form

MAX_LINE, MAX_LINES = 500, 100_000
# More tenants than this are not shown as boxes to tick.
MAX_BOXES = 60

ControlKind: TypeAlias = Literal[
    "switch", "choice", "several", "number", "text", "lines", "tenants", "items", "item", "locked"
]
Choices: TypeAlias = tuple[tuple[str, str], ...]

_UNITS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "bytes": (("bytes", 1), ("KB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30), ("TB", 1 << 40)),
    "milliseconds": (
        *(("milliseconds", 1), ("seconds", 1_000), ("minutes", 60_000), ("hours", 3_600_000), ("days", 86_400_000)),
    ),
    "minutes": (("minutes", 1), ("hours", 60), ("days", 1_440)),
    "hours": (("hours", 1), ("days", 24)),
    "days": (("days", 1),),
}
_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,6})?")
_THOUSANDS = re.compile(r"(?<=[0-9])[,_ ](?=[0-9]{3}(?:[^0-9]|\Z))")
_WEIGHT = re.compile(r"(.*\S)\s+([0-9]{1,9})")
_LEADING_UNIT = re.compile(r"\A(?:milliseconds|minutes|hours|days)\b")


class Shape(msgspec.Struct, frozen=True):
    """What the values of a key look like. `least` and `most` are the bounds of a number; of lines, one alone may be a
    plain text, and each may have a weight behind it."""

    kind: ControlKind
    choices: tuple[str, ...] = ()
    units: tuple[tuple[str, int], ...] = ()
    least: int | None = None
    most: int | None = None
    may_be_text: bool = False
    has_weights: bool = False
    section: type[Section] | None = None


def find_shape(field: FieldInfo) -> Shape:
    if section := find_section(field.annotation)[0]:
        return Shape("items", section=section)
    forms = {get_origin(each) or each: (each, marks) for each, marks in _list_forms(field.annotation, field.metadata)}
    is_list = list in forms
    kind, marks = next(_list_forms(get_args(forms[list][0])[0]) if is_list else iter(forms.values()))
    words = get_args(kind) if get_origin(kind) is Literal else ()
    written = next((each.kind for each in marks if isinstance(each, Written)), "")
    if is_list:
        return Shape(
            "several" if words else "tenants" if written == "tenant" else "lines",
            words,
            may_be_text=str in forms,
            has_weights=dict in forms,
        )
    if words:
        return Shape("choice", words)
    if kind is int:
        least = next((each.ge for each in marks if hasattr(each, "ge")), None)
        most = next((each.le for each in marks if hasattr(each, "le")), None)
        return Shape("number", units=_UNITS.get(written, ()), least=least, most=most)
    return Shape("switch" if kind is bool else "text")


def _list_forms(annotation: Any, marks: Sequence[Any] = ()) -> Iterator[tuple[Any, Sequence[Any]]]:
    """Yield each type that a value may have, with the marks on it."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        flat = [each for mark in more for each in (mark.metadata if isinstance(mark, FieldInfo) else [mark])]
        yield from _list_forms(inner, [*marks, *flat])
    elif get_origin(annotation) in (Union, UnionType):
        for each in get_args(annotation):
            if each is not NoneType:
                yield from _list_forms(each, marks)
    else:
        yield annotation, marks


class Control(msgspec.Struct, frozen=True):
    """What a page shows for one key. `name` is that of its field in the form, `text` what is in it, `chosen` what is
    ticked; `default` and `running` are values in words. `inner` are the sections of a list, or the keys of one."""

    name: str
    key: str
    label: str
    help: str
    shape: Shape
    text: str = ""
    unit: str = ""
    chosen: tuple[str, ...] = ()
    choices: Choices = ()
    default: str = ""
    running: str = ""
    is_default: bool = True
    is_changed: bool = False
    faults: tuple[str, ...] = ()
    inner: tuple["Control", ...] = ()

    @property
    def kind(self) -> ControlKind:
        return self.shape.kind

    @property
    def id(self) -> str:
        """The id of its first field."""
        return re.sub(r"[^A-Za-z0-9]+", "-", self.name)


class Describing(msgspec.Struct, frozen=True):
    """What all controls of a page need: what is wrong with the draft, and the names of tenants."""

    faults: Sequence[Fault] = ()
    tenants: Mapping[str, str] = {}


def default_of(field: FieldInfo) -> Any:
    """Return the default of a key as files have it; None where there is none."""
    default = field.get_default(call_default_factory=True, validated_data={})
    return None if default is PydanticUndefined else default


def build_control(
    file: str, key: str, field: FieldInfo, running: Any, beside: Mapping[str, Any], wanted: Any, said: Describing
) -> Control:
    """Return the control of a key. `running` and `wanted` are values as a file has them, None where it is not set;
    `beside` is the section that it stands in: where that has credentials, what decides where these go is locked."""
    shape, default = find_shape(field), default_of(field)
    shown = default if wanted is None else wanted
    described = (field.description or "").replace("`", "")
    control = Control(
        f"{file} {key}",
        key,
        field.title or key,
        _LEADING_UNIT.sub("time", described) if shape.units else described,
        shape,
        default=describe_value(shape, default, said.tenants),
        running=describe_value(shape, default if running is None else running, said.tenants),
        is_default=is_same(shape, shown, default),
        is_changed=not is_same(shape, running if running is not None else default, shown),
    )
    if is_locked(beside, str(field.alias)):
        text = describe_value(shape, shown)
        return msgspec.structs.replace(control, shape=Shape("locked"), text=text, is_changed=False)
    if shape.section:
        faults = tuple(each.sentence for each in said.faults if each.file.endswith(file) and each.key == key)
        before = running if isinstance(running, list) else []
        inner = tuple(_build_items(control, file, before, shown, said))
        return msgspec.structs.replace(control, faults=faults, inner=inner)
    faults = tuple(_explain(each, shape, wanted, default) for each in said.faults if is_about(each, file, key))
    return msgspec.structs.replace(control, faults=faults, **_show(shape, shown, said))


def _show(shape: Shape, value: Any, said: Describing) -> dict[str, Any]:
    """Return what the fields of a control show."""
    lines = _write_lines(value)
    match shape.kind:
        case "switch":
            return {"chosen": ("true",) if value is True else (), "choices": (("true", "on"),)}
        case "choice":
            return {"chosen": (str(value),), "choices": tuple((each, each) for each in shape.choices)}
        case "several":
            return {"chosen": lines, "choices": tuple((each, f"{each}s") for each in shape.choices)}
        case "tenants":
            named = {**said.tenants, **{uid: uid for uid in lines if uid not in said.tenants}}
            boxes = tuple(named.items()) if len(named) <= MAX_BOXES else ()
            return {"chosen": lines, "choices": boxes, "text": "\n".join(lines)}
        case "number":
            number, unit = _split_number(shape, value)
            return {"text": number, "unit": unit, "choices": _offer_units(shape, unit)}
    return {"text": "\n".join(lines)}


def _build_items(above: Control, file: str, before: list[Any], items: Any, said: Describing) -> Iterator[Control]:
    """Yield a control for each section of a list, and one for another."""
    sections = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
    assert above.shape.section
    fields = list_labelled(above.shape.section)
    for index, item in enumerate([*sections, {}]):
        key, running = f"{above.key}[{index}]", before[index] if index < len(before) else {}
        inner = tuple(
            build_control(
                file, f"{key}.{each.alias}", each, running.get(each.alias), item, item.get(str(each.alias)), said
            )
            for each in fields
        )
        wrong = [each for each in said.faults if is_about(each, file, key)]
        stated = (describe_value(find_shape(each), item.get(str(each.alias)), said.tenants) for each in fields)
        yield Control(
            f"{file} {key}",
            key,
            f"{above.label} {index + 1}",
            "",
            Shape("item"),
            text="; ".join(each for each in stated if each not in ("none", "off")),
            is_changed=index < len(sections) and item not in before,
            faults=tuple(
                each.sentence for each in wrong if not any(is_about(each, file, control.key) for control in inner)
            ),
            inner=inner,
        )


# The key of a section that holds credentials, and those that decide who gets to read them.
_CREDENTIALS = "auth"
_DESTINATION = frozenset({"nextHop", "tls"})


def is_locked(section: Mapping[str, Any], name: str) -> bool:
    """Does a key decide who gets the credentials of its section? Whoever could change it could read them."""
    return name in _DESTINATION and _CREDENTIALS in section


def list_credentials(value: Any) -> Iterator[str]:
    """Yield, for each section with credentials, these and where they go, as a text that can be compared."""
    if isinstance(value, dict):
        if _CREDENTIALS in value:
            going = {key: each for key, each in value.items() if key == _CREDENTIALS or key in _DESTINATION}
            yield json.dumps(going, sort_keys=True)
        for inner in value.values():
            yield from list_credentials(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from list_credentials(inner)


def is_about(fault: Fault, file: str, key: str) -> bool:
    """Is this fault one of a key, or of what stands below it?"""
    return fault.file.endswith(file) and (fault.key == key or fault.key.startswith((f"{key}.", f"{key}[")))


def _explain(fault: Fault, shape: Shape, value: Any, default: Any) -> str:
    """Return a fault in the units that the page shows."""
    if shape.kind == "number":
        if isinstance(value, int) and shape.least is not None and value < shape.least:
            return f"must be at least {describe_value(shape, shape.least)}"
        if isinstance(value, int) and shape.most is not None and value > shape.most:
            return f"must be at most {describe_value(shape, shape.most)}"
        if isinstance(value, str):
            example = default if isinstance(default, int) else shape.least or 1
            return f"write a number, such as {describe_value(shape, example)}"
    return fault.sentence


def is_same(shape: Shape, first: Any, second: Any) -> bool:
    if shape.kind == "lines":
        return _write_lines(first) == _write_lines(second)
    return bool(first == second)


def _write_lines(value: Any) -> tuple[str, ...]:
    """Return what stands in the lines of a control for a list, a map to weights, or one value."""
    if isinstance(value, dict):
        return tuple(f"{key} {weight}" for key, weight in value.items())
    return tuple(map(str, value)) if isinstance(value, list) else () if value is None else (str(value),)


def describe_value(shape: Shape, value: Any, tenants: Mapping[str, str] | None = None) -> str:
    if shape.kind == "switch":
        return "on" if value is True else "off"
    if shape.kind == "number" and isinstance(value, int):
        number, unit = _split_number(shape, value)
        unit = unit[:-1] if number == "1" and unit.endswith("s") and unit != "bytes" else unit
        return f"{number} {unit}".strip()
    return ", ".join((tenants or {}).get(each, each) for each in _write_lines(value)) or "none"


def _split_number(shape: Shape, value: Any) -> tuple[str, str]:
    """Return the number and the unit of a value: the largest unit of which it has a whole number. What was typed and is
    no number is given back as it was."""
    if isinstance(value, bool) or not isinstance(value, int):
        text = "" if value is None else str(value)
        number, space, unit = text.rpartition(" ")
        known = [each for each, _ in shape.units]
        return (number, unit) if space and unit in known else (text, known[0] if known else "")
    for unit, factor in reversed(shape.units):
        if value and value % factor == 0:
            return str(value // factor), unit
    return str(value), shape.units[0][0] if shape.units else ""


def _offer_units(shape: Shape, used: str) -> Choices:
    """Return the units of a control: without those in which no value within its bounds is written."""
    least, most = shape.least or 0, shape.most
    fitting = [
        unit
        for unit, factor in shape.units
        if unit == used or ((most is None or factor <= most) and (factor * 1_000 > least or factor > 1))
    ]
    return tuple((unit, unit) for unit in fitting if unit == used or unit != "bytes")


def read_value(shape: Shape, form: Form, name: str, before: Any, default: Any) -> Any:
    """Return the value that a form has for a key, None where that is the default; `before` is the value that the page
    was shown with, of which stays what it did not show."""
    match shape.kind:
        case "switch":
            value: Any = form.raw_text(name) == "true"
        case "several" | "lines" | "tenants":
            value = _read_lines(shape, form.all(name))
        case "number":
            value = _read_number(shape, form, name)
        case "items":
            value = _read_items(shape, form, name, before)
        case _:
            # Where the default is a text, an empty field says something else.
            value = form.text(name, MAX_LINE) or ("" if shape.kind == "text" and isinstance(default, str) else None)
    if is_same(shape, value, default):
        return None
    return before if is_same(shape, value, before) else value


def _read_lines(shape: Shape, sent: Sequence[str]) -> Any:
    texts = (line for each in sent for line in re.split(r"[\r\n,]+", each[:MAX_LINES]))
    lines = [line.strip()[:MAX_LINE] for line in texts if line.strip()]
    weighed = [_WEIGHT.fullmatch(line) for line in lines] if shape.has_weights else []
    if any(weighed):
        return {
            each[1] if each else line: int(each[2]) if each else 1 for line, each in zip(lines, weighed, strict=True)
        }
    return lines[0] if shape.may_be_text and len(lines) == 1 else lines


def _read_number(shape: Shape, form: Form, name: str) -> Any:
    """`1.5` with the unit GB is 1610612736; what is no whole number of the smallest unit stays as it was typed."""
    text = form.text(name, MAX_LINE)
    if not text:
        return None
    factors = dict(shape.units)
    unit = form.text(f"{name} unit", 20) or next(iter(factors), "")
    plain = _THOUSANDS.sub("", text)
    if not _NUMBER.fullmatch(plain) or (factors and unit not in factors):
        return f"{text} {unit}".strip()
    whole, _, part = plain.partition(".")
    scale = 10 ** len(part)
    value = int(whole + part) * factors.get(unit, 1)
    return value // scale if value % scale == 0 else f"{text} {unit}".strip()


def _read_items(shape: Shape, form: Form, name: str, before: Any) -> Any:
    """Return the sections of a list: those that the page has shown as it sends them, and another one where something is
    stated in it. A button removes one, moves it up, or adds one that has nothing but defaults."""
    assert shape.section
    known, shown = (before if isinstance(before, list) else []), form.all("shown")
    items: list[Any] = []
    for index, item in enumerate([*known, {}]):
        at = f"{name}[{index}]"
        stated = _read_section(shape.section, form, at, item) if at in shown else item
        if stated or form.text("add") == at if index == len(known) else form.text("remove") != at:
            items.insert(max(0, len(items) - 1) if form.text("up") == at else len(items), stated)
    return items


def _read_section(section: type[Section], form: Form, name: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section as a form has it. Keys that pages do not change stay as they were."""
    stated = dict(before)
    for field in list_labelled(section):
        key = str(field.alias)
        if not is_locked(stated, key):
            value = read_value(find_shape(field), form, f"{name}.{key}", stated.pop(key, None), default_of(field))
            stated |= {} if value is None else {key: value}
    return stated
