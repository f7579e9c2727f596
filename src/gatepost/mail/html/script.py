"""What a script in a page writes and where it leads, as far as its strings tell: nothing is executed.

Scripts put addresses and pages together from pieces, so that no text search finds them: `'htt' + 'ps://' + host`,
`['a', 'b'].join('')`, `atob('…')`, `String.fromCharCode(104, …)`, `unescape('%68…')`, `${host}` in a template literal.
`ScriptReader` goes over the tokens once, works out such expressions of strings and of variables that hold strings, and
notes where they end up: in an address that the browser goes to, in a page that is written, or in another script.

Loops, functions and conditions are not followed: what depends on them stays unknown, and the strings before and after
it are still seen. All work is limited: tokens, the depth of expressions and the length of values. Of a long script the
beginning and the end are read: libraries are long, and what uses them stands behind them.

`tokenise` splits a script into strings (decoded), names with their dots, numbers and signs; comments are left out. The
functions and methods in the tables are those that scripts put strings together with. A list of strings is one string
here, with a mark between its pieces (`LIST_MARK`), so that `split`, `reverse` and `join` are replacements.
"""

import re
from collections.abc import Callable, Iterable
from itertools import islice
from urllib.parse import unquote

import msgspec

from gatepost.mail.links import decode_base64_text

TAIL = 20_000
MAX_VALUE = 200_000
LIST_MARK = "\x1f"

# Each repeats a class of characters, not a group: a group would cost memory for every character.
_TOKEN = re.compile(
    r"""//[^\n]*+|/\*[^*]*+(?>\*(?!/)[^*]*+){0,9999}+(?:\*/)?"""
    r"""|"([^"\\\n]*+(?>\\.[^"\\\n]*+){0,9999}+)"?|'([^'\\\n]*+(?>\\.[^'\\\n]*+){0,9999}+)'?"""
    r"""|`([^`\\]*+(?>\\.[^`\\]*+){0,9999}+)`?"""
    r"""|([A-Za-z_$][\w$]*+(?>\s{0,4}\.\s{0,4}[A-Za-z_$][\w$]*+){0,99}+)|(\d[\w.]*+)|(\+=|[^\s\w])""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|(.))", re.DOTALL)
_PERCENT_U = re.compile(r"%u([0-9a-fA-F]{4})")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "0": "", "\n": ""}


class Token(msgspec.Struct, gc=False):
    """One token: `kind` is "s" for a string (its text decoded), "n" a name, "d" a number, "p" a sign."""

    kind: str
    text: str


def tokenise(source: str, most: int) -> list[Token]:
    """Return the first tokens of a script, and those at its end if there are more."""
    found = _TOKEN.finditer(source)
    tokens = _make_tokens(islice(found, most))
    if (following := next(found, None)) is not None:
        rest = _TOKEN.finditer(source, max(following.start(), len(source) - TAIL))
        tokens += _make_tokens(islice(rest, TAIL // 4))
    return tokens


def _make_tokens(found: Iterable[re.Match[str]]) -> list[Token]:
    tokens = []
    for match in found:
        kind = match.lastindex
        if kind is None:
            continue  # a comment
        text = match[kind]
        if kind > 4:
            tokens.append(Token("d" if kind == 5 else "p", text[:MAX_VALUE]))
        elif kind == 4:
            tokens.append(Token("n", text if len(text) < MAX_VALUE and "." not in text else _join_name(text)))
        else:
            text = text[:MAX_VALUE]
            tokens.append(Token("s", _ESCAPE.sub(_unescape, text) if "\\" in text else text))
    return tokens


def _join_name(text: str) -> str:
    return "".join(text[:MAX_VALUE].split())


def _unescape(match: re.Match[str]) -> str:
    digits = match.group(1) or match.group(2) or match.group(3)
    return make_character("0x" + digits) if digits else _LETTERS.get(match.group(4), match.group(4))


def make_character(number: str) -> str:
    try:
        code = int(number, 0)
    except ValueError:
        return ""
    return chr(code) if 0 <= code < 0xD800 or 0xE000 <= code < 0x110000 else "\ufffd"


def is_string_function(name: str) -> bool:
    return name.lower().rpartition(".")[2] in _NO_CALLS


def _unescape_percent(value: str) -> str:
    return unquote(_PERCENT_U.sub(lambda match: make_character("0x" + match.group(1)), value))


def apply_method(name: str, value: str, arguments: list[str]) -> str:
    """Return the result of a method; an unknown one changes nothing, so that what is known is still seen."""
    first = arguments[0] if arguments else ""
    if name == "join":
        return value.replace(LIST_MARK, first if arguments else ",")
    if name == "split":
        return LIST_MARK.join(value) if arguments and not first else value.replace(first, LIST_MARK) if first else value
    if name == "reverse":
        return LIST_MARK.join(reversed(value.split(LIST_MARK)))
    if name == "concat":
        return value + "".join(arguments)
    if name in {"replace", "replaceall"} and len(arguments) > 1 and first:
        return value.replace(first, arguments[1])
    return value


STRING_METHODS = frozenset(
    {"join", "split", "reverse", "concat", "replace", "replaceall", "trim", "tostring", "tolowercase"}
)
STRING_DECODERS: dict[str, Callable[[str], str]] = {
    "atob": decode_base64_text,
    "unescape": _unescape_percent,
    "decodeuri": _unescape_percent,
    "decodeuricomponent": _unescape_percent,
    "string": str,
}
_NO_CALLS = frozenset({*STRING_DECODERS, "fromcharcode", "if", "while", "for", "switch"})


MAX_TOKENS = 20_000
MAX_ALL_TOKENS = 50_000
MAX_ALL_CODE = 1_000_000
MAX_VALUES = 2_000_000  # characters of all values together
MAX_DEPTH = 24
MAX_FOUND = 200
MAX_SCRIPTS = 3

_INSERTED = re.compile(r"\$\{\s{0,9}([\w$.]{1,80})\s{0,9}\}")
_ADDRESS = re.compile(r"(?:https?|ftp|wss?):[/\\]{2}[^\s\"'<>`\\]{3,2000}", re.IGNORECASE)
_MARKUP = re.compile(
    r"<(?:a|form|input|iframe|meta|script|html|body|div|button|img|svg|object|embed|title|h\d|p)\b", re.IGNORECASE
)

_GOES = tuple("location location.href location.replace location.assign window.open .location window.navigate".split())
_SHOWS = (".href", ".src", ".action", ".data", ".formaction")
_WRITES = tuple(
    "document.write document.writeln .innerhtml .outerhtml .srcdoc .insertadjacenthtml createcontextualfragment "
    ".parsefromstring .append .html".split()
)
_REPLACING = frozenset({"replace", "replaceall"})
MAX_PATTERN = 8
_RUNS = ("eval", "function", "settimeout", "setinterval", "execscript")
_ATTRIBUTES = frozenset({"href", "src", "action", "data", "formaction", "srcdoc"})


class ScriptFindings(msgspec.Struct):
    """What was found: addresses that the browser goes to by itself, other addresses, and pages that are written."""

    navigations: list[str]
    addresses: list[str]
    pages: list[str]


class ScriptBudget(msgspec.Struct):
    """How many tokens of scripts may still be read in one message, and how many characters searched."""

    tokens: int = MAX_ALL_TOKENS
    characters: int = MAX_ALL_CODE

    def take_code(self, size: int) -> bool:
        """Take so many characters; return False when there are none left."""
        self.characters -= size
        return self.characters >= 0


def read_scripts(source: str, budget: ScriptBudget | None = None) -> ScriptFindings:
    """Return what a script leads to and writes, and the scripts that it makes of strings."""
    budget = budget or ScriptBudget()
    found = ScriptFindings([], [], [])
    waiting = [source]
    for _ in range(MAX_SCRIPTS):
        if not waiting or budget.tokens <= 0:
            break
        tokens = tokenise(waiting.pop(0), min(MAX_TOKENS, budget.tokens))
        budget.tokens -= len(tokens) + 1
        reader = ScriptReader(tokens, found)
        reader.read()
        waiting += reader.scripts[:MAX_SCRIPTS]
    return found


class ScriptReader:
    """One pass over the tokens of one script. `scripts` are those that it makes of strings."""

    def __init__(self, tokens: list[Token], found: ScriptFindings) -> None:
        self.scripts: list[str] = []
        self._found = found
        self._markup: list[str] = []
        self._variables: dict[str, str] = {}
        self._room = MAX_VALUES
        self._tokens = tokens
        self._count = len(tokens)
        self._place = 0
        self._writes = False

    def read(self) -> None:
        while self._place < self._count:
            token = self._tokens[self._place]
            if token.kind == "n":
                is_method = self._place > 0 and self._tokens[self._place - 1].text == "."
                self._read_name(f".{token.text}" if is_method else token.text)
            elif token.kind == "s" or (token.kind == "p" and token.text == "["):
                start = self._place
                if (value := self._read_sum(0)) is not None:
                    self._note(value)
                self._place = max(self._place, start + 1)
            else:
                self._place += 1
        if self._writes:
            for value in self._markup:
                self._keep(self._found.pages, value)

    def _read_name(self, name: str) -> None:
        """Read what begins with a name: an assignment, a call whose result is lost, or a value."""
        start = self._place
        if self._peek(1) == "[" and self._peek(3) == "]" and self._tokens[start + 2].kind == "s":
            name, self._place = f"{name}.{self._tokens[start + 2].text}", start + 3  # `location['href']`
        following = self._peek(1)
        if following in ("=", "+=") and self._peek(2) != "=":
            self._place += 2
            value = self._read_sum(0)
            if value is not None:
                self._assign(name, value, is_added=following == "+=")
        elif following == "(" and not is_string_function(name):
            self._place += 2
            self._read_call(name.lower())
        elif (value := self._read_sum(0)) is not None:
            self._note(value)
        self._place = max(self._place, start + 1)

    def _assign(self, name: str, value: str, *, is_added: bool) -> None:
        before = self._variables.get(name, "") if is_added else ""
        value = (before + value)[:MAX_VALUE]
        if self._spend(len(value)):
            self._variables[name] = value
        self._use(name.lower(), value)

    def _read_call(self, name: str) -> None:
        """Read the arguments of a call; the place is behind its bracket."""
        arguments: list[str] = []
        while len(arguments) < 8:
            value = self._read_sum(0)
            if value is None:
                break
            arguments.append(value)
            if self._peek(0) != ",":
                break
            self._place += 1
        self._writes |= name.endswith(_WRITES)
        if not arguments:
            return
        if name.endswith("setattribute") and len(arguments) > 1:
            attribute = arguments[0].lower()
            self._use(f".{attribute}" if attribute in _ATTRIBUTES or attribute[:2] != "on" else "eval", arguments[1])
            return
        self._use(name, arguments[0])
        for value in arguments[1:]:
            if name.endswith(_WRITES):
                self._use(name, value)
            else:
                self._note(value)

    def _use(self, name: str, value: str) -> None:
        """Note what becomes of a value that is given to this name."""
        self._writes |= name.endswith(_WRITES)
        if name in _GOES or name.endswith((".location", ".location.href", ".location.replace", ".location.assign")):
            self._keep(self._found.navigations, value.strip())
        elif name in _RUNS or name.endswith((".eval", ".settimeout")):
            self.scripts.append(value)
        elif name.endswith(_WRITES) and "<" in value:
            self._keep(self._found.pages, value)
            return
        elif name.endswith(_SHOWS) and _ADDRESS.match(value.strip()):
            self._keep(self._found.addresses, value.strip())
        self._note(value)

    def _note(self, value: str) -> None:
        """Note the addresses in a value, and markup that some later call may write."""
        if len(value) < 10:
            return
        if "<" in value and _MARKUP.search(value[:20_000]):
            self._keep(self._markup, value)
        elif "://" in value or ":\\\\" in value:
            for match in _ADDRESS.finditer(value[:20_000]):
                # A web socket is opened at the address of a site (RFC 6455 section 3).
                self._keep(self._found.addresses, re.sub(r"(?i)\Aws", "http", match.group()))

    def _keep(self, found: list[str], value: str) -> None:
        if value and len(found) < MAX_FOUND and value not in found[-20:]:
            found.append(value)

    def _peek(self, ahead: int) -> str:
        place = self._place + ahead
        if place >= self._count:
            return ""
        token = self._tokens[place]
        return token.text if token.kind == "p" else ""

    def _spend(self, size: int) -> bool:
        self._room -= size
        return self._room >= 0

    def _read_sum(self, depth: int) -> str | None:
        """Return the value of an expression that begins here, or None, and go behind what was read."""
        pieces: list[str] = []
        size = 0
        if depth >= MAX_DEPTH:
            return None
        while True:
            value = self._read_term(depth)
            if value is not None and size < MAX_VALUE:
                pieces.append(value)
                size += len(value)
            elif value is None and not pieces:
                return None
            elif value is None and self._place < len(self._tokens) and self._tokens[self._place].kind in "nd":
                self._place += 1  # a name or number whose value is unknown: the rest of the sum is still read
            if self._peek(0) != "+":
                break
            self._place += 1
        value = "".join(pieces)[:MAX_VALUE]
        return value if self._spend(len(value)) else None

    def _read_term(self, depth: int) -> str | None:
        if self._place >= len(self._tokens):
            return None
        token = self._tokens[self._place]
        value: str | None = None
        if token.kind == "s":
            self._place += 1
            value = self._insert(token.text)
        elif token.kind == "n":
            value = self._read_known(token.text, depth)
        elif token.text == "(":
            self._place += 1
            value = self._read_sum(depth + 1)
            self._pass(")")
        elif token.text == "[":
            self._place += 1
            value = self._read_list(depth + 1)
        return self._read_methods(value, depth) if value is not None else None

    def _read_known(self, name: str, depth: int) -> str | None:
        """Return the value of a variable, or of a call that turns strings into others."""
        if self._peek(1) != "(":
            if name in self._variables:
                self._place += 1
                return self._variables[name]
            return None
        head, _, method = name.rpartition(".")
        low = method.lower()
        is_numbers = low == "fromcharcode" or name.lower().endswith("fromcharcode.apply")
        if low in STRING_DECODERS or is_numbers:
            self._place += 2
            value = self._read_numbers() if is_numbers else self._read_sum(depth + 1)
            self._pass(")")
            if value is None or is_numbers:
                return value
            return STRING_DECODERS[low](value)
        if head in self._variables and low in STRING_METHODS:
            self._tokens[self._place] = Token("n", "." + method)
            return self._variables[head]
        return None

    def _read_numbers(self) -> str:
        """Return the characters of a list of numbers."""
        codes: list[str] = []
        if self._place < len(self._tokens) and self._tokens[self._place].kind == "n":  # `apply(null, [104, …])`
            self._place += 1
        while self._place < len(self._tokens):
            token = self._tokens[self._place]
            if token.kind == "d":
                codes.append(make_character(token.text))
            elif token.kind != "p" or token.text not in ",[].":
                break
            self._place += 1
        return "".join(codes)

    def _read_list(self, depth: int) -> str | None:
        """Return the pieces of a list with a mark between them, for `join` and its like."""
        pieces: list[str] = []
        while self._place < len(self._tokens) and self._peek(0) != "]":
            value = self._read_sum(depth)
            if value is None:
                return None
            pieces.append(value)
            if self._peek(0) == ",":
                self._place += 1
        self._pass("]")
        return LIST_MARK.join(pieces)

    def _read_methods(self, value: str, depth: int) -> str:
        """Apply the methods that stand behind a value: `.join('')`, `.split('').reverse()`, `.replace(…)`."""
        for _ in range(MAX_DEPTH):
            name = self._find_method()
            if not name:
                break
            arguments = self._read_pattern() if name in _REPLACING else []
            while (argument := self._read_sum(depth + 1)) is not None and len(arguments) < 4:
                arguments.append(argument)
                if self._peek(0) != ",":
                    break
                self._place += 1
            self._skip_to_bracket()
            value = apply_method(name, value, arguments)[:MAX_VALUE]
        return value

    def _read_pattern(self) -> list[str]:
        """Return the plain characters that `/!/g` replaces, and go behind the comma; nothing for other expressions."""
        if self._peek(0) != "/":
            return []
        pattern: list[str] = []
        place = self._place + 1
        while place < len(self._tokens) and len(pattern) < MAX_PATTERN and self._tokens[place].text != "/":
            pattern.append(self._tokens[place].text)
            place += 1
        self._place = place + 1
        if self._place < len(self._tokens) and self._tokens[self._place].kind == "n":
            self._place += 1  # the flags
        self._pass(",")
        return ["".join(pattern).replace("\\", "").strip("[]")]

    def _find_method(self) -> str:
        """Return the method that is called here, and go behind its bracket."""
        place = self._place
        token = self._tokens[place] if place < len(self._tokens) else None
        if token is not None and token.kind == "n" and token.text.startswith(".") and self._peek(1) == "(":
            self._place += 2
            return token.text[1:].lower()
        if self._peek(0) == "." and place + 1 < len(self._tokens) and self._peek(2) == "(":
            self._place += 3
            return self._tokens[place + 1].text.lower()
        return ""

    def _skip_to_bracket(self) -> None:
        for _ in range(64):
            if self._place >= len(self._tokens):
                return
            self._place += 1
            if self._tokens[self._place - 1].text == ")":
                return

    def _pass(self, sign: str) -> None:
        if self._peek(0) == sign:
            self._place += 1

    def _insert(self, text: str) -> str:
        """Return a template literal with the variables that are known."""
        if "${" not in text:
            return text
        return _INSERTED.sub(lambda match: self._variables.get(match.group(1), "")[:2_000], text)[:MAX_VALUE]
