"""What a PDF does besides showing pages: links, scripts, programs, files it carries (ISO 32000-1 section 12.6).

All of these are dictionaries, so every object that names one of them is looked at, wherever it hangs in the document
and whether or not it hangs in it at all.
"""

import re
from collections.abc import Iterable, Iterator

from gatepost.files.budget import Budget
from gatepost.files.documents.insight import Insight
from gatepost.files.documents.pdf_objects import Key, Object, Objects, key_for
from gatepost.files.documents.pdf_values import Name, Value, parse, text_of
from gatepost.files.documents.script_strings import commands, script_strings
from gatepost.files.values import Contents, File

MAX_DICTIONARIES = 200_000
# A name with an escape in it (`/J#53`) hides something or holds a space: worth a look.
_INTERESTING = re.compile(
    rb"/(?:URI|JS|JavaScript|Launch|EF|EmbeddedFile|OpenAction|AA|AcroForm|XFA|SubmitForm|GoToR|GoToE|ImportData|RichMedia"
    rb"|[^\0\t\n\f\r ()<>\[\]{}/%#]{0,60}#[0-9A-Fa-f]{2})"
)
_ENCRYPTED = re.compile(rb"/Encrypt[\0\t\n\f\r ]{0,20}(?=\d|<<)")
_IDENTIFIER = re.compile(rb"/ID[\0\t\n\f\r ]{0,20}\[")
_ACTIONS = {"Launch": "pdf-launch", "SubmitForm": "pdf-submit-form", "ImportData": "pdf-import-data"}
_AT_ONCE = frozenset({"OpenAction", "AA", "XFA", "AcroForm"})
_ELSEWHERE = frozenset({"GoToR", "GoToE", "SubmitForm", "ImportData"})


def inspect(file: File, budget: Budget, passwords: Iterable[str] = ()) -> Contents:
    """Everything of interest in one PDF; `passwords` are those that the mail gives away."""
    insight = Insight(file, budget)
    objects = Objects(file.content, insight)
    if _open(file.content, objects, insight, passwords):
        objects.unpack()
        _Document(objects, insight).read()
    return insight.contents()


def _open(content: bytes, objects: Objects, insight: Insight, passwords: Iterable[str]) -> bool:
    """Find the key of an encrypted file; without one there is nothing to read in it but that."""
    mark = _ENCRYPTED.search(content)
    if mark is None:
        return True
    encryption = objects.resolved(parse(content[mark.end() : mark.end() + 8192]))
    identifiers = _IDENTIFIER.search(content)
    array = parse(content[identifiers.end() - 1 : identifiers.end() + 1024]) if identifiers else None
    first = array[0] if isinstance(array, list) and array else b""
    if not isinstance(encryption, dict):
        return True
    encryption = {key: objects.resolved(value) for key, value in encryption.items()}
    objects.key = _key(encryption, first if isinstance(first, bytes) else b"", insight, passwords)
    if objects.key is None:
        insight.trait("encrypted", "PDF")
    return objects.key is not None


def _key(encryption: dict[str, Value], identifier: bytes, insight: Insight, passwords: Iterable[str]) -> Key | None:
    if key := key_for(encryption, identifier):
        return key
    for password in passwords:
        if not insight.budget.try_password():
            break
        if key := key_for(encryption, identifier, password):
            insight.trait("document-password", password)
            return key
    return None


class _Document:
    """The walk over all objects that may matter."""

    def __init__(self, objects: Objects, insight: Insight) -> None:
        self._objects = objects
        self._insight = insight
        self._carried: set[int] = set()
        self._scripts: set[int] = set()

    def read(self) -> None:
        seen = 0
        for found in self._objects.all:
            if not _INTERESTING.search(found.body):
                continue
            for values in _dictionaries(self._objects.value(found)):
                seen += 1
                self._dictionary(values, found)
            if seen > MAX_DICTIONARIES:
                self._insight.unread("count")
                return

    def _dictionary(self, values: dict[str, Value], found: Object) -> None:
        action = values.get("S")
        name = action.text if isinstance(action, Name) else ""
        address = self._objects.resolved(values.get("URI"))
        if isinstance(address, bytes):
            self._insight.link(text_of(address).strip())
        if "JS" in values:
            self._script(values["JS"])
        elif name == "JavaScript":
            self._insight.trait("pdf-javascript")
        if name in _ACTIONS:
            self._insight.trait(_ACTIONS[name], self._command(values))
        if name in _ELSEWHERE and (target := self._file_name(values.get("F"))) and ":" in target:
            self._insight.link(target)
        if "EF" in values:
            self._carry(values)
        if values.get("Type") == Name("EmbeddedFile") and found.number not in self._carried:
            self._member(("embedded file",), found)
        if not _AT_ONCE.isdisjoint(values):
            self._starts(values)

    def _starts(self, values: dict[str, Value]) -> None:
        """What happens by itself when the document or a page is opened; going to a page is nothing, and what a field
        does when it is filled in (its own AA) does not happen by itself."""
        actions = [values.get("OpenAction")]
        additional = self._objects.resolved(values.get("AA"))
        if isinstance(additional, dict):
            actions += [additional.get(key) for key in ("O", "PO", "PV")]
        for action in map(self._objects.resolved, actions):
            name = action.get("S") if isinstance(action, dict) else None
            if isinstance(name, Name) and name.text not in ("GoTo", "Named"):
                self._insight.trait("pdf-open-action", name.text)
        if "XFA" in values:
            self._insight.trait("pdf-form", "XFA")
        elif "AcroForm" in values:
            self._insight.trait("pdf-form", "AcroForm")

    def _script(self, value: Value) -> None:
        found = self._objects.target(value)
        if found is not None:
            if found.number in self._scripts:
                return
            self._scripts.add(found.number)
        direct = self._objects.resolved(value)
        source = text_of(direct if isinstance(direct, bytes) else self._objects.stream(found) if found else b"")
        self._insight.trait("pdf-javascript", source[:100])
        strings = script_strings(source)
        self._insight.member("JavaScript", f"{source}\n".encode() + commands(strings))

    def _command(self, values: dict[str, Value]) -> str:
        """The program and its arguments, as far as they are told."""
        windows = self._objects.resolved(values.get("Win"))
        parts = [self._file_name(values.get("F"))]
        if isinstance(windows, dict):
            parts += [self._text(windows.get(key)) for key in ("F", "P")]
        return " ".join(part for part in parts if part)

    def _file_name(self, value: Value) -> str:
        """A file specification: a string, or a dictionary with several."""
        value = self._objects.resolved(value)
        if isinstance(value, dict):
            return next((text for key in ("UF", "F", "DOS", "Unix") if (text := self._text(value.get(key)))), "")
        return self._text(value)

    def _text(self, value: Value) -> str:
        value = self._objects.resolved(value)
        return text_of(value) if isinstance(value, bytes) else ""

    def _carry(self, values: dict[str, Value]) -> None:
        streams = self._objects.resolved(values["EF"])
        names = tuple(dict.fromkeys(name for key in ("UF", "F") if (name := self._text(values.get(key)))))
        for value in streams.values() if isinstance(streams, dict) else ():
            found = self._objects.target(value)
            if found is not None and found.number not in self._carried:
                self._carried.add(found.number)
                self._member(names or ("embedded file",), found)

    def _member(self, names: tuple[str, ...], found: Object) -> None:
        self._insight.trait("pdf-embedded-file", names[0])
        content = self._objects.stream(found)
        self._insight.budget.pay(0, -len(content))  # paid when it was decoded; `member` pays again
        self._insight.member(names, content)


def _dictionaries(value: Value) -> Iterator[dict[str, Value]]:
    """Every dictionary in a value, outermost first."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            yield item
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
