"""Tables as text: .csv, and SYLK (.slk), which Excel opens with formulas, links to programs and even old macros."""

import re
from itertools import islice

from gatepost.files.budget import Budget
from gatepost.files.documents.insight import Insight
from gatepost.files.documents.script_strings import commands
from gatepost.files.values import Contents, File

MAX_TEXT = 8 << 20
MAX_CELLS = 200
MAX_LINKS = 10_000
MAX_COMMAND = 2_000
_NAMES = (".csv", ".slk", ".tsv", ".dif", ".iqy")
# A cell that starts a formula, then `program|topic`: Excel asks another program for the value.
_DDE = re.compile(
    r"(?:^|(?<=[,;\t\"']))[ ]{0,3}+(?:[=+@-]|(?<=;)E)[\w.\\/:()+ -]{1,200}+\|[ ]?['\"\w/\\.-]", re.MULTILINE
)
_MACRO = re.compile(r"^(?:O;[^\r\n]{0,200}\bE\b|NN;Nauto_?open)", re.IGNORECASE | re.MULTILINE)
_LINK = re.compile(r"(?:HYPERLINK|WEBSERVICE)\(\s{0,5}\"{1,2}([^\"\r\n]{4,2000})", re.IGNORECASE)
_QUERY = re.compile(r"\AWEB\s{1,4}\d{1,3}\s{1,4}(\S{1,2000})", re.IGNORECASE)


def is_table(file: File) -> bool:
    """By its start (SYLK) or its name: text is a table only to the program that opens it as one."""
    return file.content.startswith(b"ID;") or any(name.lower().endswith(_NAMES) for name in file.names)


def inspect(file: File, budget: Budget) -> Contents:
    """Links to programs, macros, links."""
    insight = Insight(file, budget)
    content = file.content[:MAX_TEXT]
    if b"|" in content or b"(" in content or content.startswith(b"ID;") or content[:3].upper() == b"WEB":
        text = content.decode("utf-8", "replace")
        for match in islice(_DDE.finditer(text), MAX_CELLS):
            command = text[match.start() : match.end() + MAX_COMMAND].lstrip("=+@- ").splitlines()[0]
            insight.trait("dde", command)
            insight.member("DDE command", commands(command))
        if text.startswith("ID;"):
            for match in islice(_MACRO.finditer(text), MAX_CELLS):
                is_autorun = match.group().upper().startswith("NN")
                insight.trait("macro-autorun" if is_autorun else "macro", "SYLK")
                insight.trait("macro-cells", "SYLK")
        insight.links(match.group(1) for match in islice(_LINK.finditer(text), MAX_LINKS))
        if query := _QUERY.match(text):
            insight.link(query.group(1))
            insight.trait("remote-object", query.group(1))
    return insight.contents()
