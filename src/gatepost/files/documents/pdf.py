"""What a PDF does besides showing pages: links, scripts, programs, files it carries (ISO 32000-1 section 12.6).

All of these are dictionaries, so every object that names one of them is looked at, wherever it hangs in the document
and whether or not it hangs in it at all.
"""

import re
from collections.abc import Iterable, Iterator

from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.pdf_objects import DecryptionKey, PdfObject, PdfObjects, derive_key
from gatepost.files.documents.pdf_values import PdfName, Value, decode_text, parse_value
from gatepost.files.documents.script_strings import expand_commands, join_script_strings
from gatepost.files.values import Contents, File, UnpackBudget

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
_SHARE = re.compile(r"(?:file:)?[\\/]{2,5}[^\\/]{1,200}\.[^\\/.]{1,60}[\\/]", re.IGNORECASE)
# Calls by which a script opens a file that the PDF brings along, and those that only exploits make: CVE-2007-5659,
# 2008-2992, 2009-0927, 2009-4324, and strings that are machine code.
_LAUNCHES = re.compile(
    r"exportDataObject\s{0,9}\([^)]{0,300}?nLaunch\s{0,9}:\s{0,9}[12]|Collab\s{0,9}\.\s{0,9}(?:collectEmailInfo|getIcon)"
    r"|util\s{0,9}\.\s{0,9}printf\s{0,9}\(\s{0,9}[\"']%\d{4,}|media\s{0,9}\.\s{0,9}newPlayer\s{0,9}\(\s{0,9}null"
    r"|(?:%u[0-9a-fA-F]{4}){8}",
)
_ELSEWHERE = frozenset({"GoToR", "GoToE", "SubmitForm", "ImportData"})


def inspect(file: File, budget: UnpackBudget, passwords: Iterable[str] = ()) -> Contents:
    """Return everything of interest in one PDF; `passwords` are those that the mail gives away."""
    builder = ContentsBuilder(file, budget)
    objects = PdfObjects(file.content, builder)
    if _find_key(file.content, objects, builder, passwords):
        objects.unpack()
        _PdfInspector(objects, builder).read()
    return builder.build()


def _find_key(content: bytes, objects: PdfObjects, builder: ContentsBuilder, passwords: Iterable[str]) -> bool:
    """Find the key of an encrypted file; return False where there is none, so that nothing else can be read."""
    mark = _ENCRYPTED.search(content)
    if mark is None:
        return True
    encryption = objects.resolve(parse_value(content[mark.end() : mark.end() + 8192]))
    identifiers = _IDENTIFIER.search(content)
    array = parse_value(content[identifiers.end() - 1 : identifiers.end() + 1024]) if identifiers else None
    first = array[0] if isinstance(array, list) and array else b""
    if not isinstance(encryption, dict):
        return True
    encryption = {key: objects.resolve(value) for key, value in encryption.items()}
    objects.key = _try_passwords(encryption, first if isinstance(first, bytes) else b"", builder, passwords)
    if objects.key is None:
        builder.add_trait("encrypted", "PDF")
    return objects.key is not None


def _try_passwords(
    encryption: dict[str, Value], identifier: bytes, builder: ContentsBuilder, passwords: Iterable[str]
) -> DecryptionKey | None:
    if key := derive_key(encryption, identifier):
        return key
    for password in passwords:
        if not builder.budget.take_attempt():
            break
        if key := derive_key(encryption, identifier, password):
            builder.add_trait("document-password", password)
            return key
    return None


class _PdfInspector:
    """The walk over all objects that may matter."""

    def __init__(self, objects: PdfObjects, builder: ContentsBuilder) -> None:
        self._objects = objects
        self._builder = builder
        self._embedded: set[int] = set()
        self._scripts: set[int] = set()

    def read(self) -> None:
        seen = 0
        for found in self._objects.all:
            if not _INTERESTING.search(found.body):
                continue
            for values in _find_dictionaries(self._objects.read_value(found)):
                seen += 1
                self._inspect_dictionary(values, found)
            if self._objects.is_spent:
                return
            if seen > MAX_DICTIONARIES:
                self._builder.add_unread("count")
                return

    def _inspect_dictionary(self, values: dict[str, Value], found: PdfObject) -> None:
        action = values.get("S")
        name = action.text if isinstance(action, PdfName) else ""
        address = self._objects.resolve(values.get("URI"))
        if isinstance(address, bytes):
            self._builder.add_link(decode_text(address).strip())
        if "JS" in values:
            self._add_script(values["JS"])
        elif name == "JavaScript":
            self._builder.add_trait("pdf-javascript")
        if name in _ACTIONS:
            self._builder.add_trait(_ACTIONS[name], self._describe_command(values))
        if name in _ELSEWHERE and (target := self._find_file_name(values.get("F"))):
            if ":" in target:
                self._builder.add_link(target)
            if _SHARE.match(target):
                self._builder.add_trait("remote-object", target)
        if "EF" in values:
            self._add_embedded_files(values)
        if values.get("Type") == PdfName("EmbeddedFile") and found.number not in self._embedded:
            self._add_member(("embedded file",), found)
        if not _AT_ONCE.isdisjoint(values):
            self._inspect_start(values)

    def _inspect_start(self, values: dict[str, Value]) -> None:
        """Report actions that run when the document or a page is opened. Going to a page is harmless, and a field's own
        AA does not run by itself."""
        actions = [values.get("OpenAction")]
        additional = self._objects.resolve(values.get("AA"))
        if isinstance(additional, dict):
            actions += [additional.get(key) for key in ("O", "PO", "PV")]
        for action in map(self._objects.resolve, actions):
            name = action.get("S") if isinstance(action, dict) else None
            if isinstance(name, PdfName) and name.text not in ("GoTo", "Named"):
                self._builder.add_trait("pdf-open-action", name.text)
        if "XFA" in values:
            self._builder.add_trait("pdf-form", "XFA")
        elif "AcroForm" in values:
            self._builder.add_trait("pdf-form", "AcroForm")

    def _add_script(self, value: Value) -> None:
        found = self._objects.find_target(value)
        if found is not None:
            if found.number in self._scripts:
                return
            self._scripts.add(found.number)
        direct = self._objects.resolve(value)
        source = decode_text(
            direct if isinstance(direct, bytes) else self._objects.read_stream(found) if found else b""
        )
        self._builder.add_trait("pdf-javascript", source[:100])
        if launch := _LAUNCHES.search(source):
            self._builder.add_trait("pdf-launch", launch.group()[:100])
        strings = join_script_strings(source)
        self._builder.add_member("JavaScript", f"{source}\n".encode() + expand_commands(strings))

    def _describe_command(self, values: dict[str, Value]) -> str:
        """Return the program that an action starts and its arguments, as far as they are stated."""
        windows = self._objects.resolve(values.get("Win"))
        parts = [self._find_file_name(values.get("F"))]
        if isinstance(windows, dict):
            parts += [self._read_text(windows.get(key)) for key in ("F", "P")]
        return " ".join(part for part in parts if part)

    def _find_file_name(self, value: Value) -> str:
        """Return the name in a file specification, which is a string or a dictionary with several names."""
        value = self._objects.resolve(value)
        if isinstance(value, dict):
            return next((text for key in ("UF", "F", "DOS", "Unix") if (text := self._read_text(value.get(key)))), "")
        return self._read_text(value)

    def _read_text(self, value: Value) -> str:
        value = self._objects.resolve(value)
        return decode_text(value) if isinstance(value, bytes) else ""

    def _add_embedded_files(self, values: dict[str, Value]) -> None:
        streams = self._objects.resolve(values["EF"])
        names = tuple(dict.fromkeys(name for key in ("UF", "F") if (name := self._read_text(values.get(key)))))
        for value in streams.values() if isinstance(streams, dict) else ():
            found = self._objects.find_target(value)
            if found is not None and found.number not in self._embedded:
                self._embedded.add(found.number)
                self._add_member(names or ("embedded file",), found)

    def _add_member(self, names: tuple[str, ...], found: PdfObject) -> None:
        self._builder.add_trait("pdf-embedded-file", names[0])
        content = self._objects.read_stream(found)
        self._builder.budget.pay(0, -len(content))  # paid when it was decoded; `member` pays again
        self._builder.add_member(names, content)


def _find_dictionaries(value: Value) -> Iterator[dict[str, Value]]:
    """Yield every dictionary in a value, outermost first."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            yield item
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
