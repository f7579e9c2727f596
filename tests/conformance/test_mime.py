"""MIME against another parser's dumps: tree, header values, bodies and names of every pair in `rfc` and `legacy`.

Each message is read twice, with line feeds and with CR LF, against the dump made of that form. Offsets and layout
of the dumps do not matter. Where we decided otherwise, the pair is a strict expected failure with its reason.
"""

import email
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gatepost.mail import headers, mime
from gatepost.mail.budget import ReadBudget
from gatepost.mail.encodings.charset import decode_charset
from gatepost.mail.headers import unfold
from gatepost.mail.message import Field, Part
from gatepost.mail.reader import MessageParts, read

PAIRS = {"rfc": 10, "legacy": 54}
FORMS = ("lf", "crlf")
STANDARDS = Path(__file__).parents[2] / "docs" / "standards.md"
STRAY = "bytes outside the declared charset are read as Windows-1252, not as replacement marks: no letter is lost"
UUENCODED = "uuencode as a transfer encoding is decoded, for the file inside must be scanned; the dump keeps the text"
PROSE = "prose that is labelled base64 is decoded leniently; the prose itself stands beside it as a second reading"
DECISIONS = {
    "legacy/010": STRAY,
    "legacy/016": STRAY,
    "legacy/017": f"{STRAY}; {UUENCODED}",
    "legacy/020": STRAY,
    "legacy/022": STRAY,
    "legacy/023": STRAY,
    "legacy/026": f"{STRAY}; {UUENCODED}",
    "legacy/027": STRAY,
    "legacy/033": STRAY,
    "legacy/048": UUENCODED,
    "legacy/052": STRAY,
    "rfc/000": PROSE,
}


# What we read instead, by its place in the message; the same in both forms.
OURS: dict[str, dict[str, Any]] = {
    "legacy/010": {"0 to": [("Heinz Müller", "mueller@example.com")], "0 subject": "Die Hasen und die Frösche"},
    "legacy/016": {
        "0.2 content-type name": ["HasenundFrösche.txt"],
        "0.2 content-disposition filename": ["HasenundFrösche.txt"],
    },
    "legacy/017": {
        "0 to": [("Jürgen Schmürgen", "jschmuergen@example.com")],
        "0.1 bytes": "1297 aec535294122a938",
        "0.2 bytes": "1324 f3892c0bc74c528f",
    },
    "legacy/020": {
        "0 to": [("Jürgen Schmürgen", "schmuergen@example.com")],
        "0 subject": "Die Hasen und die Frösche (Microsoft Outlook 00)",
    },
    "legacy/022": {
        "0 to": [("Jürgen Schmürgen", "schmuergen@example.com")],
        "0 subject": "Die Hasen und die Frösche (Microsoft Outlook 00)",
    },
    "legacy/023": {"0.3 content-disposition filename": ["HasenundFrösche.txt"]},
    "legacy/026": {
        "0.1 content-type name": ["HasenundFrösche.txt"],
        "0.1 content-disposition filename": ["HasenundFrösche.txt"],
        "0.1 text": "737 34276916970a3289",
    },
    "legacy/027": {
        "0 to": [("Jürgen Schmürgen", "schmuergen@example.com")],
        "0 subject": "Die Hasen und die Frösche (Microsoft Outlook 00)",
    },
    "legacy/033": {"0 text": "736 3d318663457c6f06"},
    "legacy/048": {
        "0.1 bytes": "1452 bfba9fca027ad652",
        "0.2 bytes": "1297 aec535294122a938",
        "0.3 bytes": "1324 f3892c0bc74c528f",
    },
    "legacy/052": {
        "0 to": [("Heinz Müller", "mueller@example.com")],
        "0 subject": "Die Hasen und die Frösche (Microsoft Outlook 00)",
        "0 text": "734 991cea22342f4af3",
    },
    "rfc/000": {"0.2.0 text": "42 894e4cb0dedb9985", "0.2.1 text": "20 3e0e5fd6edecc180"},
}


class Difference(NamedTuple):
    """One thing that is read otherwise: `place` is the way to the part by numbers, and what of it."""

    place: str
    theirs: Any
    ours: Any


def cases() -> Iterator[Any]:
    for folder, count in PAIRS.items():
        for number in range(count):
            name = f"{folder}/{number:03}"
            reason = DECISIONS.get(name)
            marks = [pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason)] if reason else []
            for form in FORMS:
                yield pytest.param(name, form, id=f"{name}-{form}", marks=marks)


def suite(shared: Callable[[str], Path]) -> Path:
    return shared("conformance") / "mime"


def compared(folder: Path, name: str, form: str) -> list[Difference]:
    """Read one form of a pair's message and set it against the dump of that form."""
    raw = (folder / f"{name}.eml").read_bytes().replace(b"\r\n", b"\n")
    if form == "crlf":
        raw = raw.replace(b"\n", b"\r\n")
    expected = json.loads((folder / f"{name}{'.crlf' if form == 'crlf' else ''}.json").read_text("utf-8"))
    return list(differences(expected, 0, MessageParts(raw, ReadBudget()).flat[0]))


@pytest.mark.parametrize(("name", "form"), list(cases()))
def test_pair(shared: Callable[[str], Path], name: str, form: str) -> None:
    assert compared(suite(shared), name, form) == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", DECISIONS)
def test_where_we_decided_otherwise_the_answer_is_ours(shared: Callable[[str], Path], name: str, form: str) -> None:
    """An expected failure says only that the answers differ: this says which is ours, and that nothing else differs."""
    found = {each.place: each.ours for each in compared(suite(shared), name, form)}
    assert found == OURS[name]


def test_every_decision_is_documented() -> None:
    documented = STANDARDS.read_text("utf-8")
    assert [name for name in DECISIONS if f"`{name}`" not in documented] == []


def test_no_pair_is_left_out(shared: Callable[[str], Path]) -> None:
    for folder, count in PAIRS.items():
        assert len(list((suite(shared) / folder).glob("*.eml"))) == count


def differences(message: Any, index: int, part: Part, place: str = "0") -> Iterator[Difference]:
    """Where a part, and what is in it, is read otherwise than in the dump."""
    expected = message["parts"][index]
    fields = [field for field in part.headers.fields if field.name]
    yield from unequal(f"{place} fields", len(expected["headers"]), len(fields))
    for field, header in zip(fields, expected["headers"], strict=False):
        yield from field_differences(field, header, place)
    ((kind, body),) = expected["body"].items()
    if kind == "Multipart":
        yield from unequal(f"{place} parts", len(body), len(part.children))
        for at, (child, number) in enumerate(zip(part.children, body, strict=False)):
            yield from differences(message, number, child, f"{place}.{at}")
    elif kind == "Message":
        (inner,) = part.children
        yield from differences(body, 0, inner, f"{place}.m")
    elif kind in {"Text", "Html"}:
        yield from unequal_text(f"{place} text", lines(body), lines(decode_charset(part.content, part.charset)[0]))
    else:
        theirs, ours = bytes(body).decode("latin-1"), part.content.decode("latin-1")
        yield from unequal_text(f"{place} bytes", lines(theirs), lines(ours))


def unequal(place: str, theirs: Any, ours: Any) -> Iterator[Difference]:
    if theirs != ours:
        yield Difference(place, theirs, ours)


def unequal_text(place: str, theirs: str, ours: str) -> Iterator[Difference]:
    """The same for a body: its length and its digest stand for ours."""
    if theirs != ours:
        yield Difference(place, theirs, f"{len(ours)} {hashlib.sha256(ours.encode()).hexdigest()[:16]}")


def field_differences(field: Field, header: Any, place: str) -> Iterator[Difference]:
    name = header["name"] if isinstance(header["name"], str) else header["name"]["other"]
    yield from unequal(f"{place} name", name.lower().replace("_", "-"), field.name)
    if header["value"] == "Empty":
        return
    place = f"{place} {field.name}"
    ((kind, value),) = header["value"].items()
    if kind == "Text":
        # The dump drops the angle brackets of message ids.
        if value.split() not in (field.value.split(), field.value.strip("<>").split()):
            yield Difference(place, value, field.value)
    elif kind == "Address":
        yield from unequal(place, *both_addresses(field, value))
    elif kind == "ContentType":
        parsed = mime.parse_parameters(unfold(field))
        theirs = "/".join(filter(None, (value["c_type"], value.get("c_subtype")))).lower()
        yield from unequal(place, theirs, parsed.main)
        for attribute in value.get("attributes") or ():
            ours = [headers.decode_words(each) for each in parsed.spellings(attribute["name"].lower())]
            if attribute["value"] not in ours:
                yield Difference(f"{place} {attribute['name']}", attribute["value"], ours)


def both_addresses(field: Field, value: Any) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The addresses of a field as the dump has them, and as we read them."""
    members = value.get("List") or [one for group in value["Group"] for one in group["addresses"]]
    found, _ = headers.parse_addresses(unfold(field), 1000)
    theirs = [(one.get("name") or "", (one.get("address") or "").lower()) for one in members]
    return theirs, [(address.name, str(address).lower()) for address in found]


def lines(text: str) -> str:
    return text.replace("\r\n", "\n").rstrip("\r\n")


def odd_messages(folder: Path) -> list[Path]:
    found = sorted(folder.glob("others/*"))
    assert len(found) == 413
    return found


@pytest.mark.variant
def test_odd_messages_lose_no_leaf(shared: Callable[[str], Path]) -> None:
    """Whatever leaf the standard library sees in an odd message, its bytes are in some part that is scanned."""
    for path in odd_messages(suite(shared)):
        raw = path.read_bytes()
        contents = [squeezed(part.content) for part in read(raw).parts]
        for leaf in leaves(raw):
            assert any(leaf in content for content in contents), f"{path.name} loses {leaf[:80]!r}"


def test_odd_messages_lose_no_byte(shared: Callable[[str], Path]) -> None:
    """Each byte of an odd message is in a header, on a delimiter's line, or in the body of a part."""
    for path in odd_messages(suite(shared)):
        raw = path.read_bytes()
        parts = MessageParts(raw, ReadBudget())
        assert uncovered(raw, parts) == [], path.name


def uncovered(raw: bytes, parts: MessageParts) -> list[bytes]:
    """The lines of a message that are nowhere in its tree."""
    tree = parts.trees[0]
    spans = [*tree.header_bytes]
    for node in tree.nodes:
        spans += [(node.start, node.end)] if not node.children else []
        spans += [node.unread, *node.outside]
    position, lost = 0, []
    for start, end in sorted(spans):
        lost += raw[position:start].splitlines() if start > position else []
        position = max(position, end)
    lost += raw[position:].splitlines()
    return [line for line in lost if line.strip() and not line.startswith(b"--")]


def leaves(raw: bytes) -> Iterator[bytes]:
    for part in email.message_from_bytes(raw).walk():
        if part.is_multipart():
            continue
        try:
            payload = part.get_payload(decode=True)
        except (ValueError, LookupError, AssertionError):
            continue
        # With delimiters inside it is a multipart that the library could not take apart.
        if isinstance(payload, bytes) and not payload.startswith(b"--") and b"\n--" not in payload:
            yield squeezed(payload)


def squeezed(content: bytes) -> bytes:
    return content.translate(None, b"\r\n \t")
