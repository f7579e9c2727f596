"""rspamd's local configuration: the files of `local.d` and `override.d`, and the maps that they name.

Taken are maps of senders, networks, hosts of links and names of files (`multimap`), domains that are trusted with a
proof (`whitelist`), addresses of one's own (`options`), DNS lists (`rbl`) and DKIM keys (`dkim_signing`). A map whose
score is below zero, or whose action is `accept`, becomes an allow list; one that rejects, or has at least the points
from which mail is held, becomes a block list. One with fewer points becomes a rule over the same values where it is
short, since an entry of a list decides. Scores of symbols and thresholds of actions are rspamd's own and are not taken.

The files are written in UCL, which is read here within bounds, as far as local files use it.

A document is a list of `key = value;` and `key { … }`, in which the punctuation is mostly optional. A key may come
several times, and then has several values; `key "name" { … }` is a section `name` in a section `key`. Values are texts
(in quotes, bare, or between `<<END` and `END`), numbers with a unit, truths, lists and objects; all simple ones are
kept as texts. Comments begin with `#` or stand in `/* */`. Directives (`.include`) are reported and not followed.

Reading is linear: each character is looked at once. What cannot be read is an error with its line.
"""

import contextlib
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Union

import msgspec

from gatepost.migration.plan import ImportPlan, Place, PlannedRule, read_text
from gatepost.migration.spamassassin import read_perl_regex

MAX_DEPTH = 20
MAX_VALUES = 200_000

Value = Union[str, "UclObject", tuple["Value", ...]]

_BLANK = re.compile(r"(?>[\s;,]++|#[^\n]*+|//[^\n]*+)*+")
_KEY = re.compile(r"\"((?>[^\"\\]|\\.)*+)\"|([^\s={}\[\];:,\"#]++)", re.DOTALL)
_QUOTED = re.compile(r"\"((?>[^\"\\]|\\.)*+)\"", re.DOTALL)
_SINGLE = re.compile(r"'((?>[^'\\]|\\.)*+)'", re.DOTALL)
_BARE = re.compile(r"[^\n;,\]}]*+")
_DIRECTIVE = re.compile(r"\.(\w++)[^\n]*+")
_HEREDOC = re.compile(r"<<([A-Z]++)\n")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


class UclError(ValueError):
    """A document that cannot be read, and where."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line


class UclObject(msgspec.Struct, frozen=True):
    """Keys with their values in the order of the file, each with its line."""

    items: tuple[tuple[str, Value, int], ...] = ()

    def get(self, name: str) -> Value | None:
        """The last value of a key, which is the one that counts."""
        return next((value for key, value, _ in reversed(self.items) if key == name), None)

    def text(self, name: str) -> str:
        """The last value of a key as text; "" where it has none."""
        value = self.get(name)
        return value if isinstance(value, str) else ""

    def texts(self, name: str) -> list[str]:
        """All texts of a key, those of lists included."""
        return [text for key, value, _ in self.items if key == name for text in _texts_of(value)]

    def sections(self) -> Iterator[tuple[str, "UclObject", int]]:
        for key, value, line in self.items:
            if isinstance(value, UclObject):
                yield key, value, line


def _texts_of(value: Value) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _texts_of(each)


def parse_ucl(text: str) -> UclObject:
    """Read a document. Raises `UclError`."""
    return _Reader(text).read_document()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self._position, self._values = text, 0, 0
        self._ends = [found.start() for found in re.finditer("\n", text)]

    def read_document(self) -> UclObject:
        self._skip()
        wrapped = self._peek() == "{"
        if wrapped:
            self._position += 1
        return self._read_items("}" if wrapped else "", 0)

    def _line(self) -> int:
        return bisect_left(self._ends, self._position) + 1

    def _fail(self, reason: str) -> UclError:
        return UclError(self._line(), reason)

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _skip(self) -> None:
        """Skip blanks, separators and comments; those between `/*` and `*/` can be nested."""
        while True:
            found = _BLANK.match(self._text, self._position)
            self._position = found.end() if found else self._position
            if not self._text.startswith("/*", self._position):
                return
            depth = 0
            for mark in re.compile(r"/\*|\*/").finditer(self._text, self._position):
                depth += 1 if mark[0] == "/*" else -1
                if not depth:
                    self._position = mark.end()
                    break
            else:
                raise self._fail("a comment that does not end")

    def _count(self, depth: int) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise self._fail(f"more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise self._fail(f"sections deeper than {MAX_DEPTH}")

    def _read_items(self, end: str, depth: int) -> UclObject:
        items: list[tuple[str, Value, int]] = []
        while True:
            self._skip()
            if self._position >= len(self._text):
                if end:
                    raise self._fail("a section that does not end")
                return UclObject(tuple(items))
            if self._peek() == end:
                self._position += 1
                return UclObject(tuple(items))
            if found := _DIRECTIVE.match(self._text, self._position):
                items.append((f".{found[1]}", found[0], self._line()))
                self._position = found.end()
                continue
            self._count(depth)
            line = self._line()
            key = self._read_key()
            items.append((key, self._read_after_key(depth), line))

    def _read_key(self) -> str:
        found = _KEY.match(self._text, self._position)
        if found is None:
            raise self._fail(f"{self._peek()!r} where a key should be")
        self._position = found.end()
        return found[2] if found[1] is None else _unescape(found[1])

    def _read_after_key(self, depth: int) -> Value:
        """Read what follows a key: a value, a section, or the name of a section in it."""
        self._skip_blanks()
        if self._peek() in ("=", ":") and self._peek():
            self._position += 1
            self._skip_blanks()
            return self._read_value(depth)
        if self._peek() in ("{", "["):
            return self._read_value(depth)
        start, line = self._position, self._line()
        named = _KEY.match(self._text, self._position)
        if named:
            self._position = named.end()
            self._skip_blanks()
            if self._peek() == "{":
                name = named[2] if named[1] is None else _unescape(named[1])
                return UclObject(((name, self._read_value(depth), line),))
        self._position = start
        return self._read_value(depth)

    def _skip_blanks(self) -> None:
        while self._peek() and self._peek() in " \t\r\n":
            self._position += 1

    def _read_value(self, depth: int) -> Value:
        self._count(depth)
        mark = self._peek()
        if mark == "{":
            self._position += 1
            return self._read_items("}", depth + 1)
        if mark == "[":
            self._position += 1
            return self._read_list(depth + 1)
        for pattern in (_QUOTED, _SINGLE):
            if found := pattern.match(self._text, self._position):
                self._position = found.end()
                return _unescape(found[1])
        if found := _HEREDOC.match(self._text, self._position):
            end = self._text.find(f"\n{found[1]}", found.end() - 1)
            if end < 0:
                raise self._fail(f"a text that does not end with {found[1]}")
            value = self._text[found.end() : end]
            self._position = end + len(found[1]) + 1
            return value
        found = _BARE.match(self._text, self._position)
        assert found is not None  # it matches anything
        self._position = found.end()
        return found[0].partition("#")[0].strip()

    def _read_list(self, depth: int) -> tuple[Value, ...]:
        found: list[Value] = []
        while True:
            self._skip()
            if self._position >= len(self._text):
                raise self._fail("a list that does not end")
            if self._peek() == "]":
                self._position += 1
                return tuple(found)
            before = self._position
            found.append(self._read_value(depth))
            if self._position == before:
                raise self._fail(f"{self._peek()!r} in a list")


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text)


# From so many points on an entry of a map decides by itself.
DECIDES = 5.0
MAX_IN_RULE = 30
MAX_FILES = 1_000
FOLDERS = ("local.d", "override.d")

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
# A map in a file, whose path begins with a folder of rspamd or has the ending of such files; else it is an entry.
_PATH = re.compile(
    r"(?:fallback\+)?(?:file://)?(?:(?:\$\{?\w+\}?|/etc/rspamd|/var/lib/rspamd)/)?"
    r"((?:[^\s/]+/)*[^\s/]+\.(?:map|inc|txt|list|conf|wl|bl))",
    re.IGNORECASE,
)
_PLAIN_NAME = re.compile(r"[^a-z0-9]+")
# What a map is matched against, by its `type` and `filter`: the lists for it, and what a rule calls it.
TYPES: dict[tuple[str, str], tuple[str, str, str]] = {
    ("from", ""): ("blocked-senders", "allowed-senders", "envelope_sender"),
    ("from", "email"): ("blocked-senders", "allowed-senders", "envelope_sender"),
    ("from", "email:addr"): ("blocked-senders", "allowed-senders", "envelope_sender"),
    ("from", "email:domain"): ("blocked-senders", "allowed-senders", "envelope_domain"),
    ("from", "email:domain:tld"): ("blocked-senders", "allowed-senders", "envelope_domain"),
    ("ip", ""): ("blocked-ips", "allowed-ips", "host"),
    ("url", ""): ("blocked-urls", "allowed-urls", ""),
    ("url", "tld"): ("blocked-urls", "allowed-urls", ""),
    ("filename", ""): ("blocked-file-names", "", ""),
    ("filename", "extension"): ("blocked-file-types", "", ""),
}
REASONS = {
    "actions": "thresholds are for rspamd's own scores: leave Gatepost's, or change `verdicts` after a trial",
    "metrics": "scores of rspamd's symbols: Gatepost's findings have weights of their own",
    "groups": "scores of rspamd's symbols: Gatepost's findings have weights of their own",
    "composites": "combinations of rspamd's symbols; write rules over Gatepost's tags",
    "ratelimit": "leave it to the mail server in front: smtpd_client_message_rate_limit of Postfix",
    "greylist": "leave it to the mail server in front: the after-220 tests of postscreen",
    "classifier-bayes": "Gatepost learns from reports of its users; what rspamd has learnt cannot be taken",
    "statistic": "Gatepost learns from reports of its users; what rspamd has learnt cannot be taken",
    "neural": "Gatepost learns from reports of its users; what rspamd has learnt cannot be taken",
    "antivirus": "see clamd in guard.yml",
    "milter_headers": "Gatepost adds fields of its own (X-Gatepost-…, Authentication-Results)",
    "redis": "Gatepost keeps everything in its storage",
    "logging": "see log in guard.yml",
    "history_redis": "every message is on record",
    "arc": "mail that is forwarded is not sealed",
    "phishing": "links to false names are found without a list; add what you trust to allowed-urls",
    "settings": "",
}


class RspamdImport:
    """Reads a folder of rspamd; `compiles` returns what is wrong with a condition, "" if nothing is."""

    def __init__(self, folder: Path, compiles: Callable[[str], str]) -> None:
        self.plan = ImportPlan("rspamd")
        self._folder, self._compiles = folder, compiles

    def read(self) -> ImportPlan:
        """Read every file. Raises `OSError` where the folder cannot be read."""
        for path in self._list_files():
            name = path.relative_to(self._folder).as_posix()
            try:
                document = parse_ucl(read_text(path))
            except UclError as fault:
                self.plan.note(Place(name, fault.line), path.name, "not taken", f"cannot be read: {fault}")
                continue
            subject = path.stem.removesuffix("_group")
            # Files of modules.d, which some copy, have everything in a section with the name of the module.
            inner = document.get(subject)
            document = inner if isinstance(inner, UclObject) and len(document.items) == 1 else document
            self._read_file(subject, document, name, is_group=path.stem.endswith("_group"))
        return self.plan

    def _list_files(self) -> list[Path]:
        folders = [self._folder / name for name in FOLDERS if (self._folder / name).is_dir()] or [self._folder]
        found = [path for each in folders for path in sorted(each.iterdir()) if path.suffix in (".conf", ".inc")]
        return [path for path in found if path.is_file()][:MAX_FILES]

    def _read_file(self, subject: str, document: UclObject, file: str, *, is_group: bool) -> None:
        for key, _, line in document.items:
            if key.startswith("."):
                self.plan.note(Place(file, line), key, "not taken", "directives are not followed")
        if is_group:
            self._refuse(document, file, REASONS["groups"])
        elif subject == "multimap":
            for name, section, line in document.sections():
                self._read_map(name, section, Place(file, line))
        elif subject == "whitelist":
            self._read_whitelist(document, file)
        elif subject == "options":
            self._read_options(document, file)
        elif subject == "rbl":
            self._read_zones(document, file)
        elif subject == "dkim_signing":
            self._read_signing(document, file)
        elif subject == "settings":
            self._read_settings(document, file)
        else:
            self._refuse(
                document, file, REASONS.get(subject, "configures a part of rspamd that Gatepost does not have")
            )

    def _refuse(self, document: UclObject, file: str, reason: str) -> None:
        for key, _, line in document.items:
            if not key.startswith("."):
                self.plan.note(Place(file, line), key, "not taken", reason)

    def _read_map(self, name: str, section: UclObject, place: Place) -> None:
        kind = (section.text("type"), section.text("filter"))
        named = TYPES.get(kind)
        if kind[0] == "header":
            self._read_header_map(name, section, place)
            return
        if named is None:
            said = f"a map of {kind[0] or 'no type'}{f' by {kind[1]}' if kind[1] else ''} cannot be taken"
            self.plan.note(place, name, "not taken", said)
            return
        blocks, allows, variable = named
        score, action = _read_number(section.text("score")), section.text("action")
        entries = [entry for source in section.texts("map") for entry in self._read_entries(source, name, place)]
        if section.text("regexp") == "true" or any(entry.startswith("/") for entry in entries):
            self._add_regexes(name, entries, variable, score, place)
        elif action == "accept" or score < 0:
            self._add_entries(allows, entries, name, place, action)
        elif action in ("reject", "discard", "quarantine") or score >= DECIDES:
            self._add_entries(blocks, entries, name, place, action)
        else:
            self._add_map_rule(name, entries, variable, score, section.text("description"), place)

    def _add_entries(self, target: str, entries: Iterable[str], name: str, place: Place, action: str) -> None:
        if not target:
            self.plan.note(place, name, "not taken", "there is no list that allows such values")
            return
        proof = "" if target != "allowed-senders" else "counts only for senders that SPF or DKIM proves"
        held = "" if action not in ("reject", "discard") else f"mail is held, where rspamd had {action}"
        changed = proof or held
        for entry in entries:
            said = f"entry of {target}; {changed}" if changed else ""
            self.plan.add_entry(target, entry, place, f"{name}: {entry}", changed=said)

    def _add_map_rule(
        self, name: str, entries: list[str], variable: str, score: float, title: str, place: Place
    ) -> None:
        """A map whose points do not decide: a rule, if it is short enough for one."""
        if not variable or len(entries) > MAX_IN_RULE or not entries:
            why = "few points for each of many values: a list decides, so look at them and import those that should"
            self.plan.note(place, name, "not taken", why)
            return
        values = msgspec.json.encode([entry.lower() for entry in entries]).decode()
        self._add_rule(name, f"{variable} in {values}", title, score, place)

    def _add_regexes(self, name: str, entries: list[str], variable: str, score: float, place: Place) -> None:
        if not variable or score <= 0 or len(entries) > MAX_IN_RULE:
            why = "regular expressions can only add points, to senders and hosts, thirty at most"
            self.plan.note(place, name, "not taken", why)
            return
        for index, entry in enumerate(entries):
            expression, fault = read_perl_regex(entry if entry.startswith("/") else f"/{entry}/")
            if fault:
                self.plan.note(place, f"{name}: {entry}", "not taken", fault)
                continue
            condition = f"{variable}.matches({msgspec.json.encode(expression).decode()})"
            self._add_rule(f"{name}-{index + 1}", condition, "", score, place)

    def _read_header_map(self, name: str, section: UclObject, place: Place) -> None:
        field, score = section.text("header").lower(), _read_number(section.text("score"))
        entries = [entry for source in section.texts("map") for entry in self._read_entries(source, name, place)]
        if not field or score <= 0 or not entries or len(entries) > MAX_IN_RULE or section.text("regexp") == "true":
            why = "a map of a field can only add points, for thirty plain values at most"
            self.plan.note(place, name, "not taken", why)
            return
        values = msgspec.json.encode(entries).decode()
        quoted = msgspec.json.encode(field).decode()
        condition = f"{quoted} in headers && headers[{quoted}].exists(value, value in {values})"
        self._add_rule(name, condition, section.text("description"), score, place)

    def _add_rule(self, name: str, condition: str, title: str, score: float, place: Place) -> None:
        fault = "its score is not positive" if score <= 0 else self._compiles(condition)
        if fault:
            self.plan.note(place, name, "not taken", fault)
            return
        plain = _PLAIN_NAME.sub("-", name.lower()).strip("-")[:60] or "rule"
        said = title or f"Map {name} of rspamd"
        self.plan.add_rule(PlannedRule(plain, condition, said[:200], score), place, name)

    def _read_entries(self, source: str, name: str, place: Place) -> list[str]:
        """Return the entries of a map: a file below the folder, or the entry itself. Others are reported."""
        if re.match(r"https?://|redis://|cdb://|sign\+", source):
            self.plan.note(place, f"{name}: {source}", "not taken", "a map from elsewhere: add it as a feed")
            return []
        found = _PATH.fullmatch(source)
        if found is None:
            return [source]
        if (path := self._find_file(found[1])) is not None:
            return _split_map(read_text(path))
        self.plan.note(place, f"{name}: {source}", "not taken", "the file of the map is not in the folder")
        return []

    def _find_file(self, name: str) -> Path | None:
        """The file of a map, in one of the folders that rspamd means; None where there is none."""
        for base in (self._folder, self._folder.parent, self._folder / "local.d"):
            # A name can be too long for a file, or have a NUL in it.
            with contextlib.suppress(OSError, ValueError):
                path = (base / name).resolve()
                if path.is_relative_to(base.resolve()) and path.is_file():
                    return path
        return None

    def _read_whitelist(self, document: UclObject, file: str) -> None:
        rules = document.get("rules")
        for name, section, line in (rules if isinstance(rules, UclObject) else document).sections():
            place = Place(file, line)
            is_proof = any(section.text(key) == "true" for key in ("valid_spf", "valid_dkim", "valid_dmarc"))
            if not is_proof or section.text("blacklist") == "true":
                self.plan.note(place, name, "not taken", "only domains that are trusted with a proof can be taken")
                continue
            for source in section.texts("domains") + section.texts("domain"):
                for entry in self._read_entries(source, name, place):
                    self.plan.add_entry("allowed-senders", entry.split()[0], place, f"{name}: {entry}")

    def _read_options(self, document: UclObject, file: str) -> None:
        for key, _, line in document.items:
            place = Place(file, line)
            if key in ("local_addrs", "local_networks"):
                for source in document.texts(key):
                    for entry in self._read_entries(source, key, place):
                        self.plan.add_entry("trusted-relays", entry, place, f"{key}: {entry}")
            elif not key.startswith("."):
                self.plan.note(place, key, "not taken", "says how rspamd itself works")

    def _read_zones(self, document: UclObject, file: str) -> None:
        rules = document.get("rbls") or document.get("rules")
        for name, section, line in (rules if isinstance(rules, UclObject) else document).sections():
            place, zone = Place(file, line), section.text("rbl")
            checks = set(section.texts("checks"))
            asks = "ip" if section.text("from") == "true" or checks & {"from", "received"} else ""
            asks = asks or ("domain" if checks & {"urls", "emails", "dkim"} or section.text("urls") == "true" else "")
            if not zone or not asks or section.text("enabled") == "false":
                self.plan.note(place, name, "not taken", "no zone that is asked for hosts or domains")
                continue
            text = f"- {{name: {_yaml(name.lower())}, zone: {_yaml(zone)}, asks: {asks}}}"
            self.plan.add_setting("reputation.zones", text, place, name)

    def _read_signing(self, document: UclObject, file: str) -> None:
        domains = document.get("domain")
        found = list(domains.sections()) if isinstance(domains, UclObject) else []
        for domain, section, line in found:
            place = Place(file, line)
            selector, key = section.text("selector"), section.text("path")
            if not selector or not key:
                self.plan.note(place, domain, "not taken", "names no selector or no key")
                continue
            text = f"- {{domain: {_yaml(domain)}, selector: {_yaml(selector)}, file: {_yaml(key)}}}"
            self.plan.add_setting("dkim.keys", text, place, domain)
        if not found:
            self._refuse(document, file, "names keys by patterns or maps: name each domain in guard.yml")

    def _read_settings(self, document: UclObject, file: str) -> None:
        """Settings by sender or host that let everything pass become allow entries."""
        inner = document.get("settings")
        for name, section, line in (inner if isinstance(inner, UclObject) else document).sections():
            place = Place(file, line)
            if section.text("whitelist") not in ("true", "yes") and section.text("want_spam") not in ("true", "yes"):
                why = "settings by user: give the tenant a policy of its own"
                self.plan.note(place, name, "not taken", why)
                continue
            for key, target in (("from", "allowed-senders"), ("ip", "allowed-ips")):
                for entry in section.texts(key):
                    self._add_entries(target, [entry.lstrip("@")], name, place, "")
            if section.texts("rcpt") or section.texts("user"):
                self.plan.note(place, name, "not taken", "settings by recipient cannot be taken")


def _split_map(text: str) -> list[str]:
    """Return the entries of a map file: one for each line, without comments and what stands behind the key."""
    found = []
    for line in text.splitlines():
        entry = re.sub(r"(?:^|\s)#.*", "", line).strip()
        if entry:
            found.append(entry if entry.startswith("/") else entry.split()[0])
    return found


def _read_number(text: str) -> float:
    found = _NUMBER.match(text)
    return float(found[0]) if found else 0.0


def _yaml(text: str) -> str:
    """A text in quotes, as JSON and YAML have it."""
    return msgspec.json.encode(text).decode()


def read_rspamd(folder: Path, compiles: Callable[[str], str]) -> ImportPlan:
    """Read a folder with rspamd's configuration. Raises `OSError`."""
    return RspamdImport(folder, compiles).read()
