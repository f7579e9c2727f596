"""MIME against another parser's dumps: tree, header values, bodies and names of every pair in `rfc` and `legacy`.

Each message is read twice, with line feeds and with CR LF, against the dump made of that form. Offsets and layout
of the dumps do not matter. Where we decided otherwise, the pair is a strict expected failure with its reason.
"""

import email
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.mail import addresses, entity, headers
from gatepost.mail.budget import ReadBudget
from gatepost.mail.encodings.charset import decode_charset
from gatepost.mail.headers import unfold
from gatepost.mail.message import Field, Part
from gatepost.mail.reader import MessageParts, read

PAIRS = {"rfc": 10, "legacy": 54}
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


def cases() -> Iterator[Any]:
    for folder, count in PAIRS.items():
        for number in range(count):
            name = f"{folder}/{number:03}"
            marks = [pytest.mark.xfail(strict=True, reason=DECISIONS[name])] if name in DECISIONS else []
            for form in ("lf", "crlf"):
                yield pytest.param(name, form, id=f"{name}-{form}", marks=marks)


def suite(shared: Callable[[str], Path]) -> Path:
    return shared("conformance") / "mime"


@pytest.mark.parametrize(("name", "form"), list(cases()))
def test_pair(shared: Callable[[str], Path], name: str, form: str) -> None:
    folder = suite(shared)
    raw = (folder / f"{name}.eml").read_bytes().replace(b"\r\n", b"\n")
    if form == "crlf":
        raw = raw.replace(b"\n", b"\r\n")
    expected = json.loads((folder / f"{name}{'.crlf' if form == 'crlf' else ''}.json").read_text("utf-8"))
    compare(expected, 0, MessageParts(raw, ReadBudget()).flat[0])


def test_no_pair_is_left_out(shared: Callable[[str], Path]) -> None:
    for folder, count in PAIRS.items():
        assert len(list((suite(shared) / folder).glob("*.eml"))) == count


def compare(message: Any, index: int, part: Part) -> None:
    expected = message["parts"][index]
    fields = [field for field in part.headers.fields if field.name]
    assert len(fields) == len(expected["headers"])
    for field, header in zip(fields, expected["headers"], strict=True):
        compare_field(field, header)
    ((kind, body),) = expected["body"].items()
    if kind == "Multipart":
        assert len(part.children) == len(body)
        for child, number in zip(part.children, body, strict=True):
            compare(message, number, child)
    elif kind == "Message":
        (inner,) = part.children
        compare(body, 0, inner)
    elif kind in {"Text", "Html"}:
        assert lines(decode_charset(part.content, part.charset)[0]) == lines(body)
    else:
        assert lines(part.content.decode("latin-1")) == lines(bytes(body).decode("latin-1"))


def compare_field(field: Field, header: Any) -> None:
    name = header["name"] if isinstance(header["name"], str) else header["name"]["other"]
    assert field.name == name.lower().replace("_", "-")
    if header["value"] == "Empty":
        return
    ((kind, value),) = header["value"].items()
    if kind == "Text":
        # The dump drops the angle brackets of message ids.
        assert value.split() in (field.value.split(), field.value.strip("<>").split())
    elif kind == "Address":
        compare_addresses(field, value)
    elif kind == "ContentType":
        parsed = entity.parse_parameters(unfold(field))
        assert parsed.main == "/".join(filter(None, (value["c_type"], value.get("c_subtype")))).lower()
        for attribute in value.get("attributes") or ():
            assert attribute["value"] in map(headers.decode_words, parsed.spellings(attribute["name"].lower()))


def compare_addresses(field: Field, value: Any) -> None:
    members = value.get("List") or [one for group in value["Group"] for one in group["addresses"]]
    expected = [(one.get("name") or "", (one.get("address") or "").lower()) for one in members]
    found, _ = addresses.parse_addresses(unfold(field), 1000)
    assert [(address.name, str(address).lower()) for address in found] == expected


def lines(text: str) -> str:
    return text.replace("\r\n", "\n").rstrip("\r\n")


def odd_messages(folder: Path) -> list[Path]:
    found = sorted(folder.glob("others/*"))
    assert len(found) == 413
    return found


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
