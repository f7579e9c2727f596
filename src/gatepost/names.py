"""Names in mail: addresses, domains, files, who owns a domain, and which names look alike. Pure functions, none raises.

A domain has one normal form: lower case A-labels of UTS 46 (RFC 5891) without the trailing dot. A name that IDNA
refuses is kept, only lower-cased: an attacker's broken name must still be seen. The public suffix list, with both of
its sections, tells who owns a domain: `a.github.io` and `b.github.io` have different owners, as have `a.co.uk` and
`b.co.uk`.

The name of a file has the form in which Windows would save it (`normal_file_name`), not that of its spelling in the
message: `invoice.js. .` is saved as `invoice.js`.

`remove_accents` takes the accents off Latin text by a table. Normal forms (UAX 15) without their marks would do so for
every script, at the cost of a look at every character; most mail is Latin-1, for which one pass by a table gives the
same.

Whether an address is on the internet (`is_public_address`) is decided by an allow-list of blocks, for everything that
fetches from places that strangers or users name: what nobody thought of is not public.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import TypeVar

import can_ada
import msgspec
from publicsuffixlist import PSLFILE

from gatepost.process.kept_results import load_kept

T = TypeVar("T")

# What a name may have, in one place: the readers that make names of text refuse or cut what is longer, so that whoever
# gets a name need not ask. RFC 1035 section 2.3.4: 255 octets on the wire are 253 characters, 127 labels at most.
MAX_HOST = 253
MAX_LABELS = 127
# RFC 5321 section 4.5.3.1.
MAX_LOCAL = 64
# Twice what file systems take.
MAX_FILE_NAME = 512
# Characters of a header field, and so of its parameters, and those of a subject.
MAX_FIELD, MAX_SUBJECT = 65_536, 1_000
MAX_SHOWN = 100
MAX_TRIED = 1_000

_AT = str.maketrans("＠﹫", "@@")
_DOTS = str.maketrans("。．｡", "...")
_LOCAL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]+\Z")
_HOST = re.compile(r"[\w-]++(?>\.[\w-]++)++")
_QUOTED_ATOM = re.compile(r'"([\w.!#$%&\'*+/=?^`{|}~-]+)"\Z')
_WORD = re.compile(r"[^\W\d_]{2,}")
_DOTTED = re.compile(r"[0-9.]{7,15}")

# Letters that look like a Latin one, by that letter. Compatibility forms (full-width, mathematical, circled) are not
# here: NFKD takes them apart. An upper-case letter is here by itself only where it looks like another letter than
# its lower case does (Greek Η is an H, η an n).
_LOOKALIKES = {
    "a": "аɑαᴀᎪꓮΑⲁ",
    "b": "вьβʙƅɓᏏᏴꓐΒƀ",
    "c": "сςᴄᏟꓚⲥҫƈȼ",
    "d": "ԁɗɖđᴅᎠᏧꓓƌժ",
    "e": "еєҽԑεᴇɛᎬꓰΕɇ",
    "f": "ғƒꜰꓝϝꞙք",
    "g": "ɡԍɢᏀᏳꓖցɠǥ",
    "h": "һнʜħɦᎻꓧΗհ",
    "i": "іιıɩɪᎥꓲΙɨ",
    "j": "јϳᴊɉᎫꓙյʝ",
    "k": "кκᴋᏦꓗΚƙҝқⲕ",
    "l": "ӏłƚɫɭʟᏞꓡ|ǀ∣丨լ⎸",
    "m": "мᴍᎷꓟΜɱ",
    "n": "пηɴŋɲƞոռղΝꓠ",
    "o": "оοσɵøᴏօஓဝ०০೦੦૦௦౦൦๐໐٥۵هסჿⲟѳꓳΟ",
    "p": "рρᴘƥþᏢꓑΡⲣ",
    "q": "ԛգզɋ",
    "r": "гґʀɍɽɼᏒꓣⲅ",
    "s": "ѕʂꜱᏚᏕꓢƽ",
    "t": "тτᴛŧƭƫᎢꓔΤ",
    "u": "цυᴜսʋμꓴ",
    "v": "ѵνᴠᏙꓦ",
    "w": "ԝѡшωᴡաᎳᏔꓪ",
    "x": "хχΧꓫҳⲭ",
    "y": "уүγʏƴᎽΥɏꓬ",
    "z": "ᴢƶʐᏃꓜΖζʑ",
    "ae": "æӕ",
    "oe": "œ",
}
_SKELETON = (
    {ord(char.upper()): latin for latin, chars in _LOOKALIKES.items() for char in chars if len(char.upper()) == 1}
    | {ord(char): latin for latin, chars in _LOOKALIKES.items() for char in chars}
    | {ord("0"): "o", ord("1"): "l"}
)
_CAPITAL_I = re.compile(r"(?<=[a-z])I")
_MARKS = re.compile(r"[\u0300-\u036f\u200b-\u200f\u2060\u00ad\ufe00-\ufe0f\ufeff]+")

# Sets of scripts that ordinarily share a word (UTS 39 section 5.2, "highly restrictive").
_TOGETHER = (
    frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "CJK", "BOPOMOFO"}),
    frozenset({"LATIN", "CJK", "HANGUL"}),
)


class KnownAnswers(dict[str, T]):
    """The answers of a function of a name: the same few come again and again. A long text is no name, and is not kept.

    An answer that is known costs a look into a dictionary and no call of Python. Of the others so many are kept, and
    as many of those that were asked for before them.
    """

    def __init__(self, function: Callable[[str], T], most: int = 4096) -> None:
        super().__init__()
        self.function, self.most = function, most
        self._before: dict[str, T] = {}

    def __missing__(self, text: str) -> T:
        if len(text) > MAX_HOST:
            return self.function(text)
        before = self._before
        found = before[text] if text in before else self.function(text)
        if len(self) >= self.most:
            self._before = dict(self)
            self.clear()
        self[text] = found
        return found


def keep_answers(function: Callable[[str], T]) -> Callable[[str], T]:
    """Return the function, with its answers for short texts kept."""
    return KnownAnswers(function).__getitem__


class Address(msgspec.Struct, frozen=True):
    """A mailbox (RFC 5322 section 3.4): the name shown, and the address behind it in normal form."""

    name: str
    local: str
    domain: str

    def __str__(self) -> str:
        return f"{self.local}@{self.domain}" if self.domain else self.local


def find_shown_addresses(text: str) -> tuple[Address, ...]:
    """Return addresses shown inside free text such as a display name: at most `MAX_SHOWN`, each once."""
    found: dict[Address, None] = {}
    text = text.translate(_AT)
    at = text.find("@")
    tried = 0
    while at >= 0 and tried < MAX_TRIED and len(found) < MAX_SHOWN:
        tried += 1
        local = _LOCAL.search(text, max(0, at - MAX_LOCAL), at)
        host = _HOST.match(text, at + 1, at + 1 + MAX_HOST)
        if local and host:
            found[Address("", _fold(local.group()), normal_domain(host.group()))] = None
        at = text.find("@", at + 1)
    return tuple(found)


def strip_path(text: str) -> str:
    """Return a path without angle brackets and source route, which is ignored (RFC 5321 section 4.1.2)."""
    text = text.strip()
    if text.startswith("<"):
        text = text[1:].removesuffix(">").strip()
    return text.partition(":")[2] if text.startswith("@") and ":" in text else text


def normal_address(text: str) -> str:
    """Return the form in which addresses are compared: no angle brackets or route, case-folded, NFC, host as in
    `normal_domain`. The `+tag` stays. The empty reverse path `<>` is ""."""
    text = strip_path(text)
    local, at, domain = text.rpartition("@")
    if not at:
        return _fold(text)
    if local.startswith('"') and (atom := _QUOTED_ATOM.match(local)):
        local = atom.group(1)
    return f"{_fold(local)}@{normal_domain(domain)}"


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", text.casefold())


def bound_host(name: str) -> str:
    """Return the name of a host, "" for one that is longer than a name can be: nothing resolves it, and no mail comes
    from it or goes there. Whoever makes a host of text does so by this."""
    return name if len(name) <= MAX_HOST and name.count(".") < MAX_LABELS else ""


@keep_answers
def normal_domain(text: str) -> str:
    """Return a domain in lower case, as A-labels if IDNA takes it, without a trailing dot; "" for what is too long."""
    domain = bound_host(text.strip().rstrip(".").lower())
    if domain.isascii():
        return domain
    domain = domain.translate(_DOTS).rstrip(".")
    try:
        encoded: str = can_ada.idna_encode(domain).decode("ascii", "replace")
    except (ValueError, TypeError):  # the latter for lone surrogates
        return domain
    return bound_host(encoded or domain)


@keep_answers
def unicode_domain(domain: str) -> str:
    """Return the domain as a person may see it: A-labels decoded, those that do not decode kept."""
    domain = normal_domain(domain)
    if "xn--" not in domain:
        return domain
    return ".".join(_decode_label(label) for label in domain.split("."))


def _decode_label(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode") or label
    except (UnicodeError, ValueError, OverflowError):
        return label


def preload_suffixes() -> None:
    """Load the public suffix list now: a process that will lose its access to files must call this before."""
    _load_suffixes()
    _load_icann_suffixes()


class SuffixList:
    """The public suffix list (publicsuffix.org), looked up by the names that a domain ends with, the longest first. The
    package that brings the list gives the same answers in five times the time."""

    def __init__(self, rules: frozenset[str], *, accept_unknown: bool) -> None:
        self._rules = rules
        self._exceptions = frozenset(rule[1:] for rule in rules if rule.startswith("!"))
        self._wildcards = frozenset(rule[2:] for rule in rules if rule.startswith("*."))
        self._most = max(rule.count(".") for rule in rules) + 2
        self._accept_unknown = accept_unknown

    def split(self, domain: str) -> tuple[str, str]:
        """Return the public suffix of a domain, and the registered name below it, "" where there is none."""
        rest = bound_host(domain.lower().removesuffix("."))
        if not rest or rest[0] == "." or rest[-1] == "." or ".." in rest:
            return "", ""
        # The name of each further label, from the right: no rule has more labels than these.
        labels = rest.rsplit(".", self._most)[-self._most :]
        names = [".".join(labels[place:]) for place in range(len(labels))]
        for place, name in enumerate(names):
            one = names[place - 1] if place else ""
            if name in self._exceptions:
                return name.partition(".")[2], name
            if name in self._wildcards:
                return (one, names[place - 2] if place > 1 else "") if one else (name, "")
            if name in self._rules:
                return name, one
        return (names[-1], names[-2] if len(names) > 1 else "") if self._accept_unknown else ("", "")


@cache
def _load_suffixes() -> SuffixList:
    return SuffixList(_read_rules()[0], accept_unknown=True)


@cache
def _load_icann_suffixes() -> SuffixList:
    return SuffixList(_read_rules()[1], accept_unknown=False)


@cache
def _read_rules() -> tuple[frozenset[str], frozenset[str]]:
    """Return all rules of the list, and those of its section for registries."""
    content = Path(PSLFILE).read_bytes()
    kind = tuple[frozenset[str], frozenset[str]]
    sources = [content, Path(__file__).read_bytes()]
    return load_kept(__file__, "kept-suffixes", sources, kind, lambda: _divide_rules(content.decode()))


def _divide_rules(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return all rules, and those of registries; the A-labels of a rule that is not ASCII come with it."""
    registries = text.partition("// ===BEGIN ICANN DOMAINS===")[2].partition("// ===END ICANN DOMAINS===")[0]
    of_registries = _parse_rules(registries)
    return _parse_rules(text.replace(registries, "")) | of_registries, of_registries


def _parse_rules(text: str) -> frozenset[str]:
    rules = [line.partition(" ")[0].lower() for line in text.splitlines() if line and not line.startswith("//")]
    if not text.isascii():
        rules += [_encode_rule(rule) for rule in rules if not rule.isascii()]
    return frozenset(rules)


def _encode_rule(rule: str) -> str:
    name = rule.lstrip("!*.")
    return rule.removesuffix(name) + normal_domain(name)


def is_icann_suffix(domain: str) -> bool:
    """Return whether a domain is a suffix of a registry (`com`, `co.uk`), not of a company that gives names away."""
    return bool(domain) and _load_icann_suffixes().split(domain)[0] == domain


def is_public_suffix(domain: str) -> bool:
    """Return whether the public suffix list names a domain, in either of its sections (`com`, `github.io`); a top-level
    domain that it does not know, such as an internal one, is none."""
    if is_icann_suffix(domain):
        return True
    return "." in domain and public_suffix(domain) == domain


@keep_answers
def public_suffix(domain: str) -> str:
    """Return the suffix under which anyone may register a name (`co.uk`, `github.io`), "" for an IP address.

    An unknown top-level domain is a suffix itself, as the list's own default rule says.
    """
    domain = normal_domain(domain)
    return "" if not domain or is_ip(domain) else _load_suffixes().split(domain)[0]


@keep_answers
def org_domain(domain: str) -> str:
    """Return the name that its owner registered: one label below the public suffix (ICANN and private sections).

    A public suffix and an IP address are their own organisational domain, so that two of them compare as what they are.
    """
    domain = normal_domain(domain)
    if not domain or is_ip(domain):
        return domain
    return _load_suffixes().split(domain)[1] or domain


def is_ip(host: str) -> bool:
    """Return whether a host is an IP address, with or without the brackets of a URL or an address literal."""
    if "a" <= host[-1:] <= "z" and ":" not in host:  # nearly all names, and no address
        return False
    host = host.strip("[]").removeprefix("ipv6:")
    if ":" not in host and not _DOTTED.fullmatch(host):  # most hosts are names, and telling by an exception is slow
        return False
    try:
        return bool(ip_address(host))
    except ValueError:
        return False


# Blank in every font, though Unicode does not call them white space: Braille and Hangul fillers.
_FILLERS = "\u2800\u3164\uffa0\u115f\u1160"
# What Windows drops at the end of a name, or does not allow there.
FILE_NAME_ENDS = " .\"'`*?|<>" + _FILLERS
_FILE_VERSION = re.compile(r";\d{1,5}\Z")


def normal_file_name(name: str) -> str:
    """Return the last component of a name as Windows would save it, in lower case. Of a name that no system could save
    since it is too long, the middle is left out."""
    return drop_ends(re.split(r"[/\\]", plain_file_name(name).rstrip("/\\ "))[-1])


def drop_ends(name: str, ends: str = FILE_NAME_ENDS) -> str:
    """Return a name without what saving it drops: blanks, dots at its end, the version that disc images add."""
    return _FILE_VERSION.sub("", name.lstrip(ends.replace(".", "")).rstrip(ends)).rstrip(ends)


def plain_file_name(name: str) -> str:
    """Return a name in lower case, with the characters that a person sees, up to a NUL, at which C programs stop."""
    text = bound_file_name(name).partition("\0")[0]
    if not text.isascii():
        text = bound_file_name(unicodedata.normalize("NFKC", text))
    elif text.isprintable():
        return text.lower()
    return "".join(
        " " if character.isspace() or character in _FILLERS else character
        for character in text
        if unicodedata.category(character) not in ("Cf", "Cc") or character.isspace()
    ).lower()


def bound_file_name(text: str) -> str:
    """Return a file name without the middle of one that no system could save; its ending says what it opens with."""
    half = MAX_FILE_NAME // 2
    return text if len(text) <= MAX_FILE_NAME else text[:half] + text[-half:]


def fold_lookalikes(text: str) -> str:
    """Return a text character by character: lower case, without accents and invisible characters, with look-alikes as
    the Latin letter, `0` as `o`, `1` as `l`. Parts of a text fold as they do within it."""
    if not text.isascii():
        text = _MARKS.sub("", unicodedata.normalize("NFKD", text))
    return text.translate(_SKELETON).lower()


@keep_answers
def skeleton(text: str) -> str:
    """Return the skeleton of a text: two texts that a person may take for each other have the same one (after UTS 39
    section 4).

    It is folded as by `fold_lookalikes`, with `rn` as `m` and `vv` as `w`. A capital I that follows a small letter
    poses as an l ("PayPaI").
    """
    if not text.isascii():
        text = _MARKS.sub("", unicodedata.normalize("NFKD", text))
    text = _CAPITAL_I.sub("l", text) if "I" in text else text
    return text.translate(_SKELETON).lower().replace("rn", "m").replace("vv", "w")


def scripts(text: str) -> frozenset[str]:
    """Return the scripts of the letters in a text by their Unicode names: LATIN, CYRILLIC, CJK, …"""
    if text.isascii():
        return frozenset({"LATIN"}) if any(map(str.isalpha, text)) else frozenset()
    letters = {char for char in unicodedata.normalize("NFKC", text) if char.isalpha()}
    return frozenset(_find_script(char) for char in letters)


@lru_cache(4096)
def _find_script(char: str) -> str:
    name = unicodedata.name(char, "UNKNOWN")
    return "KATAKANA" if name.startswith("KATAKANA-HIRAGANA") else name.split(" ", 1)[0]


def is_mixed_script(text: str) -> bool:
    """Return whether a word mixes scripts that no language writes in one word (`раypal` with a Cyrillic р)."""
    return not text.isascii() and any(_is_mixed(scripts(word)) for word in _WORD.findall(text))


def _is_mixed(found: frozenset[str]) -> bool:
    return len(found) > 1 and not any(found <= together for together in _TOGETHER)


_ACCENTS = re.compile(r"[\u0300-\u036f\u00ad]+")
# What has no plain character of its own (a half, the micro sign, a soft hyphen) becomes this one.
_UNLIKE = "\0"


def _remove_accent(character: str) -> str:
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", character))
    return plain if len(plain) == 1 and plain <= "\xff" else _UNLIKE


_PLAIN = "".join(_remove_accent(chr(code)) for code in range(256)).encode("latin-1")


def remove_accents(text: str) -> str | None:
    """Return the text in NFKD without accents and soft hyphens; None where it takes more than a table."""
    try:
        plain = text.encode("latin-1").translate(_PLAIN).decode("latin-1")
    except UnicodeEncodeError:
        return None
    return None if _UNLIKE in plain else plain


# IANA's registry of special addresses (RFC 6890), and multicast. The few addresses in 192.0.0.0/24 and 2001::/23 that
# can be reached are of protocols, and serve nothing that is fetched. 6to4 is no longer in use (RFC 7526).
_SPECIAL_IPV4 = tuple(
    IPv4Network(block)
    for block in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    )
)
# RFC 4291 section 2.4: the only block from which public addresses are given out; what is special in it.
_GIVEN_OUT = IPv6Network("2000::/3")
_SPECIAL_IPV6 = tuple(IPv6Network(block) for block in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
# IPv4 addresses as a resolver behind a translator returns them (RFC 6052), and as a socket names them (RFC 4291).
_IPV4_WITHIN = (IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0/96"))


def is_public_address(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is on the internet; an IPv4 address that is written as an IPv6 address is what it is."""
    if isinstance(address, IPv4Address):
        return not any(address in block for block in _SPECIAL_IPV4)
    if any(address in block for block in _IPV4_WITHIN):
        return is_public_address(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _GIVEN_OUT and not any(address in block for block in _SPECIAL_IPV6)
