"""Controls of settings, made from their schema: what a page shows for a key, and what its form sends back.

The shape of a key is read from its type: a switch, one or several of some words, a number, a size or a time with its
unit, a line of text, several lines, tenants, next hops. A section that is off unless it is set is a switch with the
controls of its keys below. What a form sends becomes the value that a file would have; what cannot be one stays the
text that was typed, so that the page shows it again beside what is wrong with it.

A value that is the default is not set: "reset" and typing the default are the same.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from gatepost.settings.delivery import MAX_HOPS, list_hops
from gatepost.settings.faults import Fault
from gatepost.settings.in_force import SECRET_KEYS
from gatepost.settings.values import Section, Written, find_section
from gatepost.web.forms import Form

MAX_LINE, MAX_LINES = 500, 100_000
# More tenants than this are not shown as boxes to tick.
MAX_BOXES = 60

ControlKind: TypeAlias = Literal[
    "switch", "choice", "several", "number", "text", "lines", "tenants", "hops", "section", "locked"
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
_HOP = re.compile(r"(smtp|lmtp)://(\[[^\]]*\]|[^:\[]*)(?::(.*))?")
_LEADING_UNIT = re.compile(r"\A(?:milliseconds|minutes|hours|days)\b")
# Words that need another one beside them.
_MEANINGS = {
    "opportunistic": "opportunistic: where the server offers it",
    "required": "required: never without, any certificate",
    "verified": "verified: never without, the certificate is checked",
    "defer": "defer: answer 451, the sender tries again",
    "accept": "accept: the next hop decides",
}


class Shape(msgspec.Struct, frozen=True):
    """What the values of a key look like; `least` and `most` are the bounds of a number."""

    kind: ControlKind
    choices: tuple[str, ...] = ()
    units: tuple[tuple[str, int], ...] = ()
    least: int | None = None
    most: int | None = None
    section: type[Section] | None = None


def find_shape(field: FieldInfo) -> Shape:
    """Return the shape of a key."""
    types, marks = _take_apart(field.annotation)
    marks += [field]
    written = next((each.kind for each in marks if isinstance(each, Written)), "")
    section, is_list = find_section(field.annotation)
    if section is not None and not is_list:
        return Shape("section", section=section)
    if written == "next hop":
        return Shape("hops")
    if any(each is list for each in types):
        words = _words(types)
        return Shape("several" if words else "tenants" if written == "tenant" else "lines", words)
    if bool in types:
        return Shape("switch")
    if words := _words(types):
        return Shape("choice", words)
    if int in types:
        bounds = [each for mark in marks for each in (mark.metadata if isinstance(mark, FieldInfo) else [mark])]
        least = next((each.ge for each in bounds if hasattr(each, "ge")), None)
        most = next((each.le for each in bounds if hasattr(each, "le")), None)
        found = next((each.kind for each in bounds if isinstance(each, Written)), written)
        return Shape("number", units=_UNITS.get(found, ()), least=least, most=most)
    return Shape("text")


def _take_apart(annotation: Any) -> tuple[list[Any], list[Any]]:
    """Return the plain types inside an annotation, and the marks on them."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *marks = get_args(annotation)
        types, more = _take_apart(inner)
        return types, [*marks, *more]
    if origin in (Union, UnionType, list):
        found = [_take_apart(each) for each in get_args(annotation) if each is not NoneType]
        types = [list] if origin is list else []
        return [*types, *(each for some, _ in found for each in some)], [mark for _, more in found for mark in more]
    return [annotation], []


def _words(types: Sequence[Any]) -> tuple[str, ...]:
    return tuple(word for each in types if get_origin(each) is Literal for word in get_args(each))


class Hop(msgspec.Struct, frozen=True):
    """A row of the control of next hops."""

    protocol: str = "smtp"
    host: str = ""
    port: str = ""
    share: str = ""


class Control(msgspec.Struct, frozen=True):
    """What a page shows for one key. `name` is that of its field in the form, `text` what is in it, `chosen` what is
    ticked; `default` and `running` are values in words. `inner` are the controls of a section."""

    name: str
    key: str
    label: str
    help: str
    shape: Shape
    text: str = ""
    unit: str = ""
    chosen: tuple[str, ...] = ()
    choices: Choices = ()
    hops: tuple[Hop, ...] = ()
    is_on: bool = False
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
    """What all controls of a page need: what is wrong with the draft, the labels of keys, help for those whose
    description is about how files write them, and the names of tenants."""

    faults: Sequence[Fault] = ()
    labels: Mapping[str, str] = {}
    helps: Mapping[str, str] = {}
    tenants: Mapping[str, str] = {}

    def label(self, key: str) -> str:
        """Return the label of a key: that of the whole key, or of its last part."""
        last = key.rpartition(".")[2]
        return self.labels.get(key) or self.labels.get(last) or _split_words(last)


def _split_words(name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    return words[:1].upper() + words[1:]


def _write_help(field: FieldInfo, shape: Shape) -> str:
    """Return the description of a key. Where a unit is chosen, it is not named."""
    text = (field.description or "").replace("`", "")
    return _LEADING_UNIT.sub("time", text) if shape.units else text


def default_of(field: FieldInfo) -> Any:
    """Return the default of a key as files have it; None where there is none."""
    default = field.get_default(call_default_factory=True, validated_data={})
    return None if default is PydanticUndefined or isinstance(default, Section) else default


def build_control(
    file: str, key: str, field: FieldInfo, running: Any, wanted: Any, said: Describing, *, at: str = ""
) -> Control:
    """Return the control of a key. `running` and `wanted` are values as a file has them, None where it is not set; `at`
    is the key as faults name it, where that is another one."""
    shape, name = find_shape(field), f"{file} {key}"
    default = default_of(field)
    shown = default if wanted is None else wanted
    at = at or key
    faults = tuple(_explain(each, shape, wanted, default) for each in said.faults if is_about(each, file, at))
    control = Control(
        name,
        key,
        said.label(key),
        said.helps.get(key.rpartition(".")[2]) or _write_help(field, shape),
        shape,
        default=describe_value(shape, default, said.tenants),
        running=describe_value(shape, default if running is None else running, said.tenants),
        is_default=_same(shape, shown, default),
        is_changed=not _same(shape, running if running is not None else default, shown),
        faults=faults if shape.kind != "section" else (),
    )
    return msgspec.structs.replace(control, **_show(file, key, shape, shown, said, at))


def _show(file: str, key: str, shape: Shape, value: Any, said: Describing, at: str) -> dict[str, Any]:
    """Return what the fields of a control show."""
    match shape.kind:
        case "switch":
            return {"is_on": value is True}
        case "choice":
            return {
                "chosen": (str(value),),
                "choices": tuple((each, _MEANINGS.get(each, each)) for each in shape.choices),
            }
        case "several":
            chosen = tuple(map(str, value)) if isinstance(value, list) else ()
            return {"chosen": chosen, "choices": tuple((each, f"{each}s") for each in shape.choices)}
        case "tenants":
            stated = tuple(map(str, value)) if isinstance(value, list) else ()
            named = {**said.tenants, **{uid: uid for uid in stated if uid not in said.tenants}}
            boxes = tuple(named.items()) if len(named) <= MAX_BOXES else ()
            return {"chosen": stated, "choices": boxes, "text": "\n".join(stated)}
        case "number":
            number, unit = _split_number(shape, value)
            return {"text": number, "unit": unit, "choices": _offer_units(shape, unit)}
        case "lines":
            return {"text": "\n".join(map(str, value)) if isinstance(value, list) else str(value or "")}
        case "hops":
            return {"hops": (*_split_hops(value), Hop())}
        case "section":
            section: dict[str, Any] = value if isinstance(value, dict) else {}
            inner = list_section(file, key, shape.section, section, section, said, at)
            return {"is_on": value is not None, "inner": tuple(inner)}
    return {"text": "" if value is None else str(value)}


def list_section(
    file: str,
    key: str,
    section: type[Section] | None,
    running: Mapping[str, Any],
    wanted: Mapping[str, Any],
    said: Describing,
    at: str,
) -> Iterator[Control]:
    """Yield the controls of the keys of a section that pages may change; where it has credentials, what decides where
    these go is locked."""
    for field in section.model_fields.values() if section else ():
        name = str(field.alias)
        if not may_edit(field, name):
            continue
        inner = build_control(
            file, f"{key}.{name}", field, running.get(name), wanted.get(name), said, at=f"{at}.{name}"
        )
        if is_locked(wanted, name):
            inner = msgspec.structs.replace(inner, shape=Shape("locked"), text=_write_value(wanted.get(name)))
        yield inner


# Keys that hold credentials, and those that decide who gets to read them.
_CREDENTIALS = frozenset({"auth", "user", "password"})
_DESTINATION = frozenset({"nextHop", "tls", "servers", "startTls", "verify"})


def may_edit(field: FieldInfo, name: str) -> bool:
    """May pages change a key of a section? Not a secret, and not what holds for one machine, such as a path."""
    marks = field.json_schema_extra
    is_local = isinstance(marks, dict) and bool(marks.get("local"))
    return not is_local and name not in SECRET_KEYS and name not in _CREDENTIALS


def is_locked(section: Mapping[str, Any], name: str) -> bool:
    """Does a key decide who gets the credentials of its section? Whoever could change it could read them."""
    return name in _DESTINATION and not _CREDENTIALS.isdisjoint(section)


def list_credentials(value: Any) -> Iterator[str]:
    """Yield, for each section with credentials, these and where they go, as a text that can be compared."""
    if isinstance(value, dict):
        if not _CREDENTIALS.isdisjoint(value):
            yield json.dumps(
                {key: each for key, each in value.items() if key in _CREDENTIALS | _DESTINATION}, sort_keys=True
            )
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


def _same(shape: Shape, first: Any, second: Any) -> bool:
    if shape.kind == "hops" and first is not None and second is not None:
        return _hop_texts(first) == _hop_texts(second)
    return bool(first == second)


def _hop_texts(value: Any) -> object:
    return list_hops(value) if isinstance(value, str | list | dict) else value


def describe_value(shape: Shape, value: Any, tenants: Mapping[str, str] | None = None) -> str:
    """Return a value in words."""
    if value is None:
        return "off" if shape.kind == "section" else "none"
    if shape.kind == "switch":
        return "on" if value is True else "off"
    if shape.kind == "number" and isinstance(value, int):
        number, unit = _split_number(shape, value)
        unit = unit[:-1] if number == "1" and unit.endswith("s") and unit != "bytes" else unit
        return f"{number} {unit}".strip()
    if shape.kind == "section":
        return "on"
    if shape.kind == "hops" and isinstance(value, str | list | dict):
        hops, weights = list_hops(value)
        return ", ".join(f"{hop} ({weights[index]})" if weights else hop for index, hop in enumerate(hops))
    if isinstance(value, list):
        return ", ".join((tenants or {}).get(str(each), str(each)) for each in value) or "none"
    return str(value)


def _write_value(value: Any) -> str:
    kind: ControlKind = "hops" if isinstance(value, dict) else "switch" if isinstance(value, bool) else "text"
    return value if isinstance(value, str) else describe_value(Shape(kind), value)


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


def _split_hops(value: Any) -> Iterator[Hop]:
    if not isinstance(value, str | list | dict):
        return
    hops, weights = list_hops(value)
    for index, text in enumerate(hops):
        share = str(weights[index]) if weights else ""
        if found := _HOP.fullmatch(str(text)):
            yield Hop(found[1], found[2], found[3] or "", share)
        else:
            yield Hop("lmtp", str(text).removeprefix("lmtp:"), "", share)


def read_value(shape: Shape, form: Form, name: str, before: Any, default: Any) -> Any:
    """Return the value that a form has for a key, None where that is the default; `before` is the value that a section
    had, whose other keys stay."""
    value = _READERS[shape.kind](shape, form, name, before)
    if value is None and shape.kind == "text" and isinstance(default, str):
        value = ""  # where the default is a text, an empty field says something else
    return None if _same(shape, value, default) else value


def _read_switch(_shape: Shape, form: Form, name: str, _before: Any) -> Any:
    return form.raw_text(name) in ("true", "1", "on")


def _read_text(_shape: Shape, form: Form, name: str, _before: Any) -> Any:
    return form.text(name, MAX_LINE) or None


def _read_several(_shape: Shape, form: Form, name: str, _before: Any) -> Any:
    return [each[:MAX_LINE] for each in form.all(name) if each]


def _read_tenants(_shape: Shape, form: Form, name: str, _before: Any) -> Any:
    return [line for each in form.all(name) for line in _read_lines_of(each)]


def _read_lines(_shape: Shape, form: Form, name: str, _before: Any) -> Any:
    return _read_lines_of(form.raw_text(name))


def _read_lines_of(text: str) -> list[str]:
    lines = (line.strip()[:MAX_LINE] for line in re.split(r"[\r\n,]+", text[:MAX_LINES]))
    return [line for line in lines if line]


def _read_number(shape: Shape, form: Form, name: str, _before: Any) -> Any:
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


def _read_hops(_shape: Shape, form: Form, name: str, _before: Any) -> Any:
    columns = [form.all(f"{name} {each}") for each in ("protocol", "host", "port", "share")]
    hops: dict[str, Any] = {}
    rows = zip(*columns, strict=False)
    for protocol, host, port, share in ([each.strip()[:MAX_LINE] for each in row] for row in rows):
        if len(hops) > MAX_HOPS or not host:
            continue
        if host.startswith(("/", "lmtp:/")) or "://" in host:
            text = f"lmtp:{host}" if host.startswith("/") else host
        else:
            bare = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
            text = f"{'lmtp' if protocol == 'lmtp' else 'smtp'}://{bare}{f':{port}' if port else ''}"
        hops[text] = int(share) if share.isascii() and share.isdigit() and len(share) < 10 else share or None
    if not hops:
        return None
    if any(hops.values()):
        return {text: 1 if share is None else share for text, share in hops.items()}
    return next(iter(hops)) if len(hops) == 1 else list(hops)


def _read_section(shape: Shape, form: Form, name: str, before: Any) -> Any:
    """A section that is off is not set."""
    if shape.section is None or not form.has(f"{name} on"):
        return None
    return read_section(shape.section, form, name, before if isinstance(before, dict) else {})


def read_section(section: type[Section], form: Form, name: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section as a form has it. Keys that pages do not change stay as they were."""
    stated = dict(before)
    for field in section.model_fields.values():
        key = str(field.alias)
        if may_edit(field, key) and not is_locked(stated, key):
            value = read_value(find_shape(field), form, f"{name}.{key}", stated.get(key), default_of(field))
            if value is None:
                stated.pop(key, None)
            else:
                stated[key] = value
    return stated


_READERS: Mapping[str, Callable[[Shape, Form, str, Any], Any]] = {
    "switch": _read_switch,
    "choice": _read_text,
    "several": _read_several,
    "number": _read_number,
    "text": _read_text,
    "lines": _read_lines,
    "tenants": _read_tenants,
    "hops": _read_hops,
    "section": _read_section,
}
