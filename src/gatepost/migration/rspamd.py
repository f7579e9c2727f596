"""rspamd's configuration, as `rspamadm configdump --json` prints it, and the maps that it names.

Taken are maps of senders, networks, hosts of links and names of files (`multimap`), domains that are trusted with a
proof (`whitelist`), addresses of one's own (`options`), DNS lists (`rbl`) and DKIM keys (`dkim_signing`). A map whose
score is below zero, or whose action is `accept`, becomes an allow list; one that rejects, or has at least the points
from which mail is held, becomes a block list. One with fewer points becomes a rule over the same values where it is
short, since an entry of a list decides. Scores of symbols and thresholds of actions are rspamd's own and are not taken.

rspamd writes its files in UCL and merges folders of them by priority, so its own program reads them. In the JSON that
it prints, a key that stands several times has a list of its values, and a section likewise. What rspamd ships with is
merged in as well; maps and networks that are known to be its own are named and left out.
"""

import contextlib
import errno
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from gatepost.api.errors import Failure
from gatepost.api.strict_json import MAX_VALUES, decode_counted, has_too_many_values
from gatepost.migration.plan import MAX_FILE, ImportPlan, Place, PlannedRule, read_text
from gatepost.migration.spamassassin import MAX_POINTS, read_perl_regex

# From so many points on an entry of a map decides by itself.
DECIDES = 5.0
MAX_IN_RULE = 30
# Bytes of all maps together, and characters of a name: no domain has more (RFC 1035 section 2.3.4).
MAX_MAPS = 4 * MAX_FILE
MAX_NAME = 255

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
# A map in a file, whose path is whole or has the ending of such files; else it is an entry.
_ENDING = r"\.(?:map|inc|txt|list|conf|wl|bl)(?:\.local)?"
_PATH = re.compile(rf"(?:file://)?(/.+|\S+{_ENDING})", re.IGNORECASE)
_MAP_FILE = re.compile(rf".+{_ENDING}", re.IGNORECASE)
_ELSEWHERE = re.compile(r"https?://|redis://|cdb://|sign\+")
_SHIPPED_MAP = re.compile(r"fallback\+|https?://maps\.rspamd\.com/")
# `local_addrs` of conf/options.inc. To trust all private networks is too much where a proxy or a container hides the
# addresses of strangers behind one of them.
SHIPPED_NETWORKS = "192.168.0.0/16 10.0.0.0/8 172.16.0.0/12 fd00::/8 169.254.0.0/16 fe80::/10".split()
_PLAIN_NAME = re.compile(r"[^a-z0-9]+")
# What a map is matched against, by its `type` and `filter`: the lists for it, and what a rule calls it.
TYPES: dict[tuple[str, str], tuple[str, str, str]] = {
    ("from", ""): ("blocked-senders", "allowed-senders", "envelope_sender"),
    ("from", "email"): ("blocked-senders", "allowed-senders", "envelope_sender"),
    ("from", "email:addr"): ("blocked-senders", "allowed-senders", "envelope_sender"),
    ("from", "email:domain"): ("blocked-senders", "allowed-senders", "envelope_domain"),
    ("from", "email:domain:tld"): ("blocked-senders", "allowed-senders", "envelope_domain"),
    ("header", ""): ("", "", ""),
    ("ip", ""): ("blocked-ips", "allowed-ips", "host"),
    ("url", ""): ("blocked-urls", "allowed-urls", ""),
    ("url", "tld"): ("blocked-urls", "allowed-urls", ""),
    ("filename", ""): ("blocked-file-names", "", ""),
    ("filename", "extension"): ("blocked-file-types", "", ""),
}
REASONS = {
    "actions": "thresholds are for rspamd's own scores: leave Gatepost's, or change `verdicts` after a trial",
    "group": "scores of rspamd's symbols: Gatepost's findings have weights of their own",
    "composites": "combinations of rspamd's symbols; write rules over Gatepost's tags",
    "ratelimit": "leave it to the mail server in front: smtpd_client_message_rate_limit of Postfix",
    "greylist": "leave it to the mail server in front: the after-220 tests of postscreen",
    "classifier": "Gatepost learns from reports of its users; what rspamd has learnt cannot be taken",
    "neural": "Gatepost learns from reports of its users; what rspamd has learnt cannot be taken",
    "antivirus": "see clamd in guard.yml",
    "milter_headers": "Gatepost adds fields of its own (X-Gatepost-…, Authentication-Results)",
    "redis": "Gatepost keeps everything in its storage",
    "logging": "see log in guard.yml",
    "arc": "see arc in guard.yml",
    "phishing": "links to false names are found without a list; add what you trust to allowed-urls",
    "options": "says how rspamd itself works, but for the local addresses",
    "dkim_signing": "names keys by patterns or maps: name each domain in guard.yml",
}


def _flatten(value: Any) -> Iterator[Any]:
    """A value, or what is in a list; without recursion, since lists can be nested deeply."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting.extend(reversed(each))
        else:
            yield each


class _Section:
    """A section of the configuration, which can stand several times, and the path of its key."""

    def __init__(self, path: str, value: Any) -> None:
        self.path, self.place = path, Place(path)
        self._objects = [each for each in _flatten(value) if isinstance(each, dict)]

    def values(self, name: str) -> list[Any]:
        return [value for each in self._objects for value in _flatten(each.get(name))]

    def texts(self, name: str) -> list[str]:
        """The simple values of a key, as texts."""
        simple = (each for each in self.values(name) if isinstance(each, str | float | int))
        return [each if isinstance(each, str) else json.dumps(each) for each in simple]

    def text(self, name: str) -> str:
        """The last value of a key, which is the one that counts; "" where it has none."""
        return next(reversed(self.texts(name)), "")

    def is_on(self, name: str) -> bool:
        return self.text(name).lower() in ("true", "yes", "on")

    def sections(self) -> Iterator[tuple[str, "_Section"]]:
        """The sections in it with their names; those that stand several times one by one."""
        for key, values in (item for each in self._objects for item in each.items()):
            for value in _flatten(values):
                if isinstance(value, dict):
                    yield key[:MAX_NAME], _Section(f"{self.path}.{key[:MAX_NAME]}", value)


class RspamdImport:
    """Reads a configuration; `compiles` returns what is wrong with a condition, "" if nothing is."""

    def __init__(self, folder: Path, compiles: Callable[[str], str]) -> None:
        """`folder` is where maps can be found that were brought along, each below it with its whole path."""
        self.plan = ImportPlan("rspamd")
        self._folder, self._compiles, self._left = folder.resolve(), compiles, MAX_MAPS

    def read(self, configuration: dict[str, Any]) -> ImportPlan:
        read = set()
        for key, inner, reader in (
            ("multimap", "", self._read_map),
            ("whitelist", "rules", self._read_trusted),
            ("rbl", "rbls", self._read_zone),
            ("rbl", "rules", self._read_zone),
            ("dkim_signing", "domain", self._read_key),
            ("settings", "", self._read_setting),
        ):
            outer = _Section(key, configuration.get(key))
            for name, section in (_Section(f"{key}.{inner}", outer.values(inner)) if inner else outer).sections():
                reader(name, section)
                read.add(key)
        self._read_networks(_Section("options", configuration.get("options")))
        for key in (each for each in configuration if each not in read):
            why = REASONS.get(key, "has nothing that could be taken")
            self.plan.note(Place(key[:MAX_NAME]), key, "not taken", why)
        return self.plan

    def _read_map(self, name: str, section: _Section) -> None:
        kind, place = (section.text("type"), section.text("filter")), section.place
        if kind not in TYPES:
            said = f"a map of {kind[0] or 'no type'}{f' by {kind[1]}' if kind[1] else ''} cannot be taken"
            self.plan.note(place, name, "not taken", said)
            return
        blocks, allows, variable = TYPES[kind]
        score, action = _read_number(section.text("score")), section.text("action")
        entries = self._read_entries(section, "map", name)
        if section.is_on("regexp") or any(entry.startswith("/") for entry in entries):
            self._add_regexes(name, entries, variable, score, place)
        elif action == "accept" or score < 0:
            self._add_entries(allows, entries, name, Place(f"{place}.map"), action)
        elif blocks and (action in ("reject", "discard", "quarantine") or score >= DECIDES):
            self._add_entries(blocks, entries, name, Place(f"{place}.map"), action)
        elif entries:
            self._add_map_rule(name, entries, variable, score, section)

    def _add_entries(self, target: str, entries: Iterable[str], name: str, place: Place, action: str) -> None:
        if not target:
            self.plan.note(place, name, "not taken", "there is no list that allows such values")
            return
        proof = "" if target != "allowed-senders" else "counts only for senders that SPF or DKIM proves"
        held = "" if action not in ("reject", "discard") else f"mail is held, where rspamd had {action}"
        said = f"entry of {target}; {proof or held}" if proof or held else ""
        for entry in entries:
            self.plan.add_entry(target, entry, place, f"{name}: {entry}", changed=said)

    def _add_map_rule(self, name: str, entries: list[str], variable: str, score: float, section: _Section) -> None:
        """A map whose points do not decide, or that has no list: a rule, if it is short enough for one."""
        field = _quote(section.text("header").lower())
        condition = f"{field} in headers && headers[{field}].exists(value, value in {_quote(entries)})"
        if variable:
            condition = f"{variable} in {_quote([entry.lower() for entry in entries])}"
        if len(entries) > MAX_IN_RULE or not (variable or section.text("header")):
            why = "not for a rule: a list decides, so look at the values and import those that should"
            self.plan.note(section.place, name, "not taken", why)
            return
        self._add_rule(name, condition, section.text("description"), score, section.place)

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
            condition = f"{variable}.matches({_quote(expression)})"
            self._add_rule(f"{name}-{index + 1}", condition, "", score, place)

    def _add_rule(self, name: str, condition: str, title: str, score: float, place: Place) -> None:
        fault = "its score is not positive" if score <= 0 else self._compiles(condition)
        if fault:
            self.plan.note(place, name, "not taken", fault)
            return
        plain = _PLAIN_NAME.sub("-", name.lower()).strip("-")[:60] or "rule"
        if plain in self.plan.rules:
            self.plan.note(place, name, "not taken", f"another map became rule {plain}: give this one another name")
            return
        self.plan.add_rule(PlannedRule(plain, condition, (title or f"Map {name} of rspamd")[:200], score), place, name)

    def _read_entries(self, section: _Section, key: str, name: str) -> list[str]:
        """Return the entries of the maps that a key names: those of a file, or the value itself. What cannot be read is
        reported, so that nobody takes a list for empty."""
        place, sources = Place(f"{section.path}.{key}"), section.texts(key)
        if not sources:
            self.plan.note(place, name, "not taken", "names no file and no value")
        entries: list[str] = []
        for source in sources:
            found, why = _PATH.fullmatch(source), ""
            if _SHIPPED_MAP.match(source):
                why = "rspamd ships with this map"
            elif _ELSEWHERE.match(source):
                why = "a map from elsewhere: add it as a feed"
            elif found is None:
                entries += [source] if source.strip() else []
            elif (text := self._read_file(found[1])) is None:
                why = f"no file of up to {MAX_FILE >> 20} MiB that can be read: bring {found[1]}"
            else:
                entries += _split_map(text)
            if why:
                self.plan.note(place, f"{name}: {source}", "not taken", why)
        return entries

    def _read_file(self, name: str) -> str | None:
        """Read the file of a map: one that was brought along, or one that stands where rspamd reads it and has the
        ending of a map. A configuration of somebody else must not lead to files with secrets."""
        for base in (self._folder, Path("/")) if name.startswith("/") else (self._folder,):
            # A name can be too long for a file, have a NUL in it, or lead in a circle.
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                path = (base / name.lstrip("/")).resolve()
                size, is_map = path.stat().st_size, base == self._folder or _MAP_FILE.fullmatch(path.name)
                if is_map and path.is_relative_to(base) and path.is_file() and size <= min(MAX_FILE, self._left):
                    self._left -= size
                    return read_text(path)
        return None

    def _read_trusted(self, name: str, section: _Section) -> None:
        is_proof = any(map(section.is_on, ("valid_spf", "valid_dkim", "valid_dmarc")))
        if not is_proof or section.is_on("blacklist"):
            self.plan.note(section.place, name, "not taken", "only domains that are trusted with a proof can be taken")
            return
        key = "domains" if section.texts("domains") else "domain"
        for entry in self._read_entries(section, key, name):
            place = Place(f"{section.path}.{key}")
            self.plan.add_entry("allowed-senders", entry.split()[0], place, f"{name}: {entry}")

    def _read_networks(self, options: _Section) -> None:
        for key in ("local_addrs", "local_networks"):
            place = Place(f"options.{key}")
            for entry in self._read_entries(options, key, key) if options.texts(key) else ():
                if entry in SHIPPED_NETWORKS:
                    why = "rspamd ships with this network: add it to trusted-relays if your relays are in it"
                    self.plan.note(place, f"{key}: {entry}", "not taken", why)
                else:
                    self.plan.add_entry("trusted-relays", entry, place, f"{key}: {entry}")

    def _read_zone(self, name: str, section: _Section) -> None:
        zone, checks = section.text("rbl"), set(section.texts("checks"))
        asks = "ip" if section.is_on("from") or checks & {"from", "received"} else ""
        asks = asks or ("domain" if checks & {"urls", "emails", "dkim"} or section.is_on("urls") else "")
        is_off = section.text("enabled") == "false" or section.is_on("is_whitelist")
        if not zone or not asks or is_off or not f"{name}{zone}".isprintable():
            why = "no zone that is asked for hosts or domains that are bad"
            self.plan.note(section.place, name, "not taken", why)
            return
        text = f"- {{name: {_quote(name.lower())}, zone: {_quote(zone)}, asks: {asks}}}"
        self.plan.add_setting("reputation.zones", text, section.place, name)

    def _read_key(self, domain: str, section: _Section) -> None:
        selector, key = section.text("selector"), section.text("path")
        # YAML refuses some characters that JSON has.
        if not selector or not key or not f"{domain}{selector}{key}".isprintable():
            self.plan.note(section.place, domain, "not taken", "names no selector or no key")
            return
        text = f"- {{domain: {_quote(domain)}, selector: {_quote(selector)}, file: {_quote(key)}}}"
        self.plan.add_setting("dkim.keys", text, section.place, domain)

    def _read_setting(self, name: str, section: _Section) -> None:
        """Settings by sender or host that let everything pass become allow entries."""
        if not section.is_on("whitelist") and not section.is_on("want_spam"):
            self.plan.note(section.place, name, "not taken", "settings by user: give the tenant a policy of its own")
            return
        for key, target in (("from", "allowed-senders"), ("ip", "allowed-ips")):
            entries = [entry.lstrip("@") for entry in section.texts(key)]
            self._add_entries(target, entries, name, Place(f"{section.path}.{key}"), "")
        if section.texts("rcpt") or section.texts("user"):
            self.plan.note(section.place, name, "not taken", "settings by recipient cannot be taken")


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
    return max(-MAX_POINTS, min(float(found[0]), MAX_POINTS)) if found else 0.0


def _quote(value: str | list[str]) -> str:
    """Texts in quotes, as JSON, YAML and CEL have them."""
    return msgspec.json.encode(value).decode()


def read_rspamd(path: Path, compiles: Callable[[str], str]) -> ImportPlan:
    """Read a file with rspamd's configuration in JSON. Raises `OSError`, also where it is none."""
    with path.open("rb") as stream:
        data = stream.read(MAX_FILE + 1)
    if len(data) > MAX_FILE or has_too_many_values(data):
        said = f"is larger than {MAX_FILE >> 20} MiB or has more than {MAX_VALUES:,} values"
        raise OSError(errno.EFBIG, said, str(path))
    # Texts of a configuration can be in any encoding.
    found = decode_counted("it", data.decode("utf-8-sig", "replace").encode())
    if not isinstance(found, dict) or "options" not in found:
        said = found.message if isinstance(found, Failure) else "it has no options"
        raise OSError(errno.EINVAL, f"is not all that `rspamadm configdump --json` prints; {said}", str(path))
    return RspamdImport(path.parent, compiles).read(found)
