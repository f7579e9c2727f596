"""Files of senders that other programs keep: access tables of Postfix, objects of Proxmox Mail Gateway, and Microsoft's
CSV of the Tenant Allow/Block List.

Which of them a file is shows in its first characters: JSON is Proxmox's (`pmgsh get /config/ruledb/who/2/objects`), a
first row with `Value` and `Action` is Microsoft's (`Get-TenantAllowBlockListItems | Export-Csv`), and everything else
an access table (access(5)): a pattern and an action on each line.
"""

import csv
import io
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from gatepost.migration.plan import ImportPlan, Place, read_text

MAX_LINES = 1_000_000
_ADDRESS = re.compile(r"[\d.]+(?:/\d+)?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(?:/\d+)?")
_NO_SENDER = "neither an address nor a domain nor a network"
_REFUSES = re.compile(r"(?:REJECT|DISCARD|HOLD|[45]\d\d\b)", re.IGNORECASE)
_ACCEPTS = re.compile(r"(?:OK|PERMIT)\b|\d+$", re.IGNORECASE)


def read_senders(paths: Iterable[Path], *, allows: bool) -> ImportPlan:
    """Read files of senders. `allows` says what becomes of entries that have no action of their own. Raises
    `OSError`."""
    plan = ImportPlan("a list of senders")
    for path in paths:
        text = read_text(path).removeprefix("\ufeff")
        if text.lstrip().startswith("["):
            _read_proxmox(plan, text, path.name, allows=allows)
        elif _is_microsoft(text):
            _read_microsoft(plan, text, path.name)
        else:
            _read_access_table(plan, text, path.name, allows=allows)
    return plan


def _add(plan: ImportPlan, value: str, place: Place, statement: str, *, allows: bool) -> None:
    """Add a sender or a network to the list for it."""
    kind = "ips" if _ADDRESS.fullmatch(value) else "senders"
    plan.add_entry(f"{'allowed' if allows else 'blocked'}-{kind}", value, place, statement)


def _read_access_table(plan: ImportPlan, text: str, file: str, *, allows: bool) -> None:
    for number, line in enumerate(text.splitlines()[:MAX_LINES], 1):
        place = Place(file, number)
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            plan.note(place, line.strip(), "not taken", "continues the line before it, which has its action already")
            continue
        pattern, _, action = line.strip().partition(" ") if "\t" not in line else line.strip().partition("\t")
        action = action.strip()
        if pattern.startswith("/"):
            plan.note(place, line, "not taken", "regular expressions cannot be entries of a list")
        elif not action:
            _add(plan, _write_pattern(pattern), place, line, allows=allows)
        elif _REFUSES.match(action) or _ACCEPTS.match(action):
            _add(plan, _write_pattern(pattern), place, line, allows=bool(_ACCEPTS.match(action)))
        else:
            plan.note(place, line, "not taken", f"the action {action.split()[0]} has no list")


def _write_pattern(pattern: str) -> str:
    """Return a pattern of an access table as a list has it: `.domain` is every name below, `192.168` a network."""
    if pattern.startswith("."):
        return f"*{pattern}"
    parts = pattern.split(".")
    if 1 <= len(parts) < 4 and all(part.isdigit() and int(part) < 256 for part in parts):
        return ".".join(parts + ["0"] * (4 - len(parts))) + f"/{8 * len(parts)}"
    return pattern.removesuffix("@") if pattern.endswith("@") else pattern


def _is_microsoft(text: str) -> bool:
    first = next((line for line in text.splitlines()[:5] if not line.startswith("#TYPE")), "")
    names = {cell.strip().strip('"').lower() for cell in first.split(",")}
    return {"value", "action"} <= names


def _read_microsoft(plan: ImportPlan, text: str, file: str) -> None:
    skipped = 1 if text.startswith("#TYPE") else 0
    try:
        rows = list(csv.DictReader(io.StringIO("\n".join(text.splitlines()[skipped:]))))
    except csv.Error as fault:
        plan.note(Place(file), "the file", "not taken", f"is not CSV to its end: {fault}")
        return
    for number, row in enumerate(rows, 2 + skipped):
        named = {(name or "").strip().lower(): (value or "") for name, value in row.items() if isinstance(value, str)}
        value, action = named.get("value", "").strip(), named.get("action", "").strip().lower()
        place, statement = Place(file, number), f"{value} {action}"
        kind = named.get("listtype", "").lower()
        if action not in ("allow", "block"):
            plan.note(place, statement, "not taken", "is neither Allow nor Block")
        elif kind == "url":
            plan.add_entry("allowed-urls" if action == "allow" else "blocked-urls", value.strip("~*"), place, statement)
        elif kind == "filehash":
            plan.add_entry("allowed-files" if action == "allow" else "blocked-files", value, place, statement)
        else:
            _add(plan, value, place, statement, allows=action == "allow")


def _read_proxmox(plan: ImportPlan, text: str, file: str, *, allows: bool) -> None:
    try:
        # Python's own parser takes half of a surrogate pair for text, which no file can hold.
        objects: Any = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        plan.note(Place(file), "the file", "not taken", "is not JSON to its end")
        return
    for number, each in enumerate(objects if isinstance(objects, list) else [], 1):
        named = each if isinstance(each, dict) else {}
        values = [named[key] for key in ("email", "domain", "ip", "cidr") if isinstance(named.get(key), str)]
        place, statement = Place(file, number), json.dumps(each)[:200]
        if not values:
            plan.note(place, statement, "not taken", _NO_SENDER)
        for value in values:
            _add(plan, value, place, statement, allows=allows)
