"""SpamAssassin's configuration (`Mail::SpamAssassin::Conf`): local.cf and user_prefs, line by line.

Taken are senders and links that are listed, networks of one's own, and rules over header fields with a positive score,
those that combine others included (`meta`). A regular expression of Perl becomes one of RE2, which has neither
look-around nor back-references: a rule with those is named and left out. Scores are points of the same size: in both a
message is held at 5, so that a rule weighs what it weighed.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from gatepost.migration.plan import ImportPlan, Place, PlannedRule, read_text

# Lines of one file, and rules of all files.
MAX_LINES = 200_000
MAX_RULES = 200
MAX_CONDITION = 2_000
MAX_POINTS = 1_000.0
# What blocks a sender in SpamAssassin has 100 points.
BLOCKING = 100.0
# Rules without a `score` have one point (Mail::SpamAssassin::Conf, "score").
DEFAULT_SCORE = 1.0

ALLOW = frozenset(
    "whitelist_from welcomelist_from whitelist_from_rcvd welcomelist_from_rcvd whitelist_auth welcomelist_auth"
    " def_whitelist_auth def_welcomelist_auth whitelist_from_spf welcomelist_from_spf def_whitelist_from_spf"
    " def_welcomelist_from_spf whitelist_from_dkim welcomelist_from_dkim def_whitelist_from_dkim"
    " def_welcomelist_from_dkim def_whitelist_from_rcvd def_welcomelist_from_rcvd".split()
)
# The second word names a relay or a signing domain, and is no further sender.
WITH_SECOND = re.compile(r"_(?:rcvd|dkim)$")
BLOCK = frozenset({"blacklist_from", "blocklist_from"})
TAKE_OUT = {
    "unwhitelist_from": "allowed-senders",
    "unwelcomelist_from": "allowed-senders",
    "unblacklist_from": "blocked-senders",
    "unblocklist_from": "blocked-senders",
}
LINKS = {
    "blacklist_uri_host": "blocked-urls",
    "blocklist_uri_host": "blocked-urls",
    "whitelist_uri_host": "allowed-urls",
    "welcomelist_uri_host": "allowed-urls",
}
NETWORKS = frozenset({"trusted_networks", "internal_networks", "msa_networks"})
RECIPIENTS = frozenset("whitelist_to welcomelist_to more_spam_to all_spam_to blacklist_to blocklist_to".split())
# What says how SpamAssassin itself works, and has no meaning elsewhere.
OWN = frozenset(
    "loadplugin tryplugin tflags priority shortcircuit test lang version_tag util_rb_tld use_bayes use_bayes_rules"
    " bayes_auto_learn bayes_path bayes_file_mode bayes_store_module bayes_sql_dsn bayes_sql_username"
    " bayes_sql_password bayes_ignore_header auto_whitelist_path use_auto_whitelist use_txrep report_safe"
    " report_contact report_hostname clear_headers add_header remove_header clear_report_template report"
    " normalize_charset dns_available dns_server dns_query_restriction use_razor2 use_pyzor use_dcc razor_config"
    " pyzor_options skip_rbl_checks rbl_timeout lock_method envelope_sender_header bayes_min_ham_num"
    " bayes_min_spam_num bayes_expiry_max_db_size bayes_auto_expire redirector_pattern".split()
)
REASONS = {
    "required_score": "mail is held from 5 points on; leave that, or change `verdicts` in a policy file after a trial",
    "rewrite_header": 'a mark before the subject is an action of a verdict: `action = "mark"` in a policy file',
    "ok_languages": "Gatepost does not judge by language",
    "ok_locales": "Gatepost does not judge by language",
    "body": "rules over the text cannot be taken: add phrases to blocked-phrases",
    "rawbody": "rules over the text cannot be taken: add phrases to blocked-phrases",
    "full": "rules over the text cannot be taken: add phrases to blocked-phrases",
    "uri": "rules over whole links cannot be taken: add hosts and links to blocked-urls",
    "mimeheader": "rules over the fields of parts cannot be taken",
    "urirhsbl": "add the zone to reputation.zones in guard.yml",
    "uridnsbl": "add the zone to reputation.zones in guard.yml",
}

_REGEX = re.compile(r"(?:m(?P<mark>[^\w\s])|(?P<slash>/))(?P<body>.*)")
_FLAGS = re.compile(r"[a-z]*")
_HEADER = re.compile(r"(?P<field>[\w-]{1,60})(?P<part>:\w+)?\s*(?P<test>[=!]~)\s*(?P<regex>.+)")
_EXISTS = re.compile(r"exists:(?P<field>[\w-]{1,60})")
_NAME = re.compile(r"[A-Za-z_]\w{0,59}")
# What RE2 does not have: look-around, back-references, atomic and possessive groups, conditions, recursion, \K and \G.
_NOT_RE2 = re.compile(r"\(\?(?:[=!>|#(&RP]|<[=!])|\\[1-9]|[*+?}]\+|\\[KGRXkg]")
_WILD = re.compile(r"([*?])")
_GLOBS = {"*": ".*", "?": "."}
_META = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w{0,59})|(?P<operator>&&|\|\||!|\(|\)))\s*")


class _Test(msgspec.Struct, frozen=True):
    """A rule as it was stated: its condition in CEL, or why it has none."""

    condition: str
    place: Place
    statement: str
    fault: str = ""


class SpamAssassinImport:
    """Reads files one after the other; `finish` settles what was stated about rules."""

    def __init__(self, compiles: Callable[[str], str]) -> None:
        """`compiles` returns what is wrong with a condition, "" if nothing is."""
        self.plan = ImportPlan("SpamAssassin")
        self._compiles = compiles
        self._tests: dict[str, _Test] = {}
        self._metas: dict[str, tuple[str, Place, str]] = {}
        self._scores: dict[str, tuple[float, Place, str]] = {}
        self._titles: dict[str, str] = {}
        # Names of rules that cannot be taken, whose scores are no news.
        self._left: set[str] = set()
        self._patterns = 0

    def read(self, path: Path) -> None:
        """Read one file. Raises `OSError`."""
        for number, line in enumerate(read_text(path).splitlines()[:MAX_LINES], 1):
            text = re.sub(r"(?<!\\)#.*", "", line).strip()
            if text:
                self._read_line(text, Place(path.name, number))

    def _read_line(self, text: str, place: Place) -> None:
        key, _, rest = text.partition(" ") if "\t" not in text.split(" ", maxsplit=1)[0] else text.partition("\t")
        key, rest = key.lower().strip(), rest.strip()
        if key in ALLOW or key in BLOCK:
            self._read_senders(key, rest, place, text)
        elif key in TAKE_OUT:
            for entry in rest.split():
                is_gone = self.plan.drop_entry(TAKE_OUT[key], entry)
                said = f"taken out of {TAKE_OUT[key]}" if is_gone else "names nothing that stands above it"
                self.plan.note(place, text, "taken" if is_gone else "not taken", said)
        elif key in LINKS:
            for host in rest.split():
                self.plan.add_entry(LINKS[key], host.lstrip("."), place, text)
        elif key in NETWORKS:
            self._read_networks(rest, place, text)
        elif key in RECIPIENTS:
            self.plan.note(
                place, text, "not taken", "lists of recipients do not exist: give a tenant a policy of its own"
            )
        elif key in ("header", "meta", "score", "describe"):
            self._read_rule(key, rest, place, text)
        elif key in ("ifplugin", "if", "else", "endif"):
            self.plan.note(place, text, "taken", "what stands between is taken in any case")
        elif key in OWN or key.startswith(("bayes_", "txrep_", "razor_", "pyzor_", "dcc_", "awl_")):
            self.plan.note(place, text, "not taken", "says how SpamAssassin itself works")
        elif key == "include":
            self.plan.note(place, text, "not taken", "name that file on the command line as well")
        else:
            self._left.add(rest.partition(" ")[0])
            self.plan.note(place, text, "not taken", REASONS.get(key, "is not known here"))

    def _read_senders(self, key: str, rest: str, place: Place, text: str) -> None:
        words = rest.split()
        for entry in words[:1] if WITH_SECOND.search(key) else words:
            if _WILD.search(entry.removeprefix("*@").removeprefix("*.")):
                self._read_pattern(entry, place, text, blocks=key in BLOCK)
                continue
            if key in BLOCK:
                self.plan.add_entry("blocked-senders", entry, place, text)
                continue
            said = "entry of allowed-senders, which counts only for senders that SPF or DKIM proves"
            is_same = key.rpartition("_")[2] in ("auth", "spf", "dkim")
            self.plan.add_entry("allowed-senders", entry, place, text, changed="" if is_same else said)

    def _read_pattern(self, pattern: str, place: Place, text: str, *, blocks: bool) -> None:
        """A pattern with `*` and `?` in the middle is no entry of a list, but can be a rule that blocks."""
        if not blocks:
            self.plan.note(place, text, "not taken", f"{pattern}: a sender is an address, a domain or *.domain")
            return
        parts = (_GLOBS.get(part) or re.escape(part.lower()) for part in _WILD.split(pattern))
        condition = f"sender.matches({msgspec.json.encode('^' + ''.join(parts) + '$').decode()})"
        self._patterns += 1
        self._tests[f"blocked_pattern_{self._patterns}"] = _Test(condition, place, text)
        self._titles[f"blocked_pattern_{self._patterns}"] = f"The sender matches {pattern}"
        self._scores[f"blocked_pattern_{self._patterns}"] = (BLOCKING, place, text)

    def _read_networks(self, rest: str, place: Place, text: str) -> None:
        for word in rest.split():
            if word.startswith("!"):
                self.plan.note(place, text, "not taken", f"{word}: an exception to a network cannot be taken")
                continue
            self.plan.add_entry("trusted-relays", _write_network(word), place, text)

    def _read_rule(self, key: str, rest: str, place: Place, text: str) -> None:
        name, _, value = rest.partition(" ")
        name, value = name.strip(), value.strip()
        if not _NAME.fullmatch(name) or not value:
            self.plan.note(place, text, "not taken", "is no rule with a name and a value")
        elif key == "header":
            condition, fault = _read_header_test(value)
            self._tests[name] = _Test(condition, place, text, fault)
            self._metas.pop(name, None)
        elif key == "meta":
            self._metas[name] = (value, place, text)
            self._tests.pop(name, None)
        elif key == "describe":
            self._titles[name] = value
        else:
            self._read_score(name, value, place, text)

    def _read_score(self, name: str, value: str, place: Place, text: str) -> None:
        try:
            # Of four scores the last one is for a set-up with Bayes and network tests, which Gatepost has.
            score = float(value.rsplit(maxsplit=1)[-1].strip("()"))
        except ValueError:
            self.plan.note(place, text, "not taken", "has no number")
            return
        self._scores[name] = (score, place, text)

    def finish(self) -> ImportPlan:
        """Settle the rules, and return the plan."""
        for name, test in self._tests.items():
            if not name.startswith("__"):
                self._add_rule(name, test)
        for name, (expression, place, text) in self._metas.items():
            if not name.startswith("__"):
                condition, fault = self._combine(expression)
                self._add_rule(name, _Test(condition, place, text, fault))
        for name, (_, place, text) in self._scores.items():
            if name not in self._tests and name not in self._metas:
                said = "a rule of SpamAssassin's own: Gatepost's findings have weights of their own"
                said = "its rule was not taken" if name in self._left else said
                self.plan.note(place, text, "not taken", said)
        return self.plan

    def _add_rule(self, name: str, test: _Test) -> None:
        score = self._scores[name][0] if name in self._scores else DEFAULT_SCORE
        fault = test.fault
        if not fault and score <= 0:
            fault = "its score is not positive, and no rule makes mail look better; use allowed-senders"
        if not fault and len(self.plan.rules) >= MAX_RULES:
            fault = f"a policy has at most {MAX_RULES} rules"
        if not fault and len(test.condition) > MAX_CONDITION:
            fault = f"its condition has more than {MAX_CONDITION} characters"
        fault = fault or self._compiles(test.condition)
        if fault:
            self.plan.note(test.place, test.statement, "not taken", fault)
            return
        title = self._titles.get(name, f"Rule {name} of SpamAssassin")[:200]
        rule = PlannedRule(name.lower().strip("_").replace("_", "-"), test.condition, title, min(score, MAX_POINTS))
        self.plan.add_rule(rule, test.place, test.statement)

    def _combine(self, expression: str) -> tuple[str, str]:
        """Return the condition of a `meta` rule: its parts put together by and, or and not."""
        pieces, position = [], 0
        while position < len(expression):
            found = _META.match(expression, position)
            if found is None:
                return "", "it counts or compares, which cannot be taken"
            position = found.end()
            if found["operator"]:
                pieces.append(found["operator"])
                continue
            part = self._tests.get(found["name"])
            if part is None or part.fault:
                return "", f"it needs {found['name']}, which was not taken"
            pieces.append(f"({part.condition})")
        return " ".join(pieces), ""


def _write_network(word: str) -> str:
    """Return a network as it is written elsewhere: `192.168.` and `10/8` are SpamAssassin's short forms."""
    address, slash, length = word.strip("[]").partition("/")
    parts = address.strip(".").split(".")
    if ":" in address or not all(part.isdigit() for part in parts) or len(parts) >= 4:
        return word.strip("[]")
    return ".".join(parts + ["0"] * (4 - len(parts))) + "/" + (length if slash else str(8 * len(parts)))


def _read_header_test(value: str) -> tuple[str, str]:
    """Return the condition of a rule over a header field in CEL, and why there is none."""
    if found := _EXISTS.fullmatch(value):
        return f'"{found["field"].lower()}" in headers', ""
    found = _HEADER.fullmatch(value)
    if found is None:
        return "", "it calls a function of SpamAssassin, or tests no field"
    field, part = found["field"].lower(), found["part"] or ""
    if field in (
        "all",
        "tocc",
        "messageid",
        "x-spam-relays-untrusted",
        "x-spam-relays-trusted",
        "x-spam-relays-external",
    ):
        return "", f"{found['field']} is a field that SpamAssassin makes up"
    if part not in ("", ":addr", ":name"):
        return "", f"{part[1:]} of a field cannot be asked for"
    expression, fault = read_perl_regex(found["regex"].strip())
    if fault:
        return "", fault
    quoted = msgspec.json.encode(expression).decode()
    condition = f'"{field}" in headers && headers["{field}"].exists(value, value.matches({quoted}))'
    if field == "from" and part:
        condition = f"{'sender' if part == ':addr' else 'sender_name'}.matches({quoted})"
    elif part:
        return "", f"{part[1:]} of {found['field']} cannot be asked for"
    elif field == "subject":
        condition = f"subject.matches({quoted})"
    elif field in ("envelopefrom", "return-path"):
        condition = f"envelope_sender.matches({quoted})"
    return (f"!({condition})" if found["test"] == "!~" else condition), ""


def read_perl_regex(text: str) -> tuple[str, str]:
    """Return a regular expression of Perl, with its marks and flags, as RE2 writes it; and why that cannot be."""
    found = _REGEX.match(text)
    if found is None:
        return "", "it has no regular expression"
    mark = found["mark"] or "/"
    end = {"{": "}", "(": ")", "[": "]", "<": ">"}.get(mark, mark)
    body, closing, flags = found["body"].rpartition(end)
    if not closing or not _FLAGS.fullmatch(flags.strip()):
        return "", "its regular expression does not end"
    if _NOT_RE2.search(body):
        return "", "its regular expression needs Perl (look-around, back-references or possessive repeats)"
    kept = "".join(flag for flag in "imsx" if flag in flags)
    if "x" in kept:
        return "", "its regular expression is written with blanks (/x)"
    plain = body.replace(f"\\{mark}", mark) if mark in "/!#%,~@" else body
    return (f"(?{kept})" if kept else "") + plain, ""


def read_spamassassin(paths: Iterable[Path], compiles: Callable[[str], str]) -> ImportPlan:
    """Read configuration files of SpamAssassin. Raises `OSError`."""
    reader = SpamAssassinImport(compiles)
    for path in paths:
        reader.read(path)
    return reader.finish()
