"""Passwords that the mail itself gives away.

"Your invoice is attached, the password is 7361": the sender encrypts an archive so that no scanner reads it, and tells
the person how to open it. So any word near a word for "password", in any of the usual languages, is tried, then any
quoted word, then well-known passwords. The candidates are collected when the first encrypted archive asks for them, and
there are never more than a few dozen.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import PurePosixPath
from typing import TypeVar

from gatepost.files.values import UnpackBudget
from gatepost.mail.message import Message

T = TypeVar("T")

MAX_CANDIDATES = 64
MAX_TEXT = 20_000
MAX_TEXTS = 20
MAX_CUES = 12
MAX_LENGTH = 64
SHORT_TEXT = 400
MAX_FAILURES = 3
MAX_COUNTED = 500  # words that are counted though they are not tried

_CUE = re.compile(
    r"pass(?:[ -]?(?:word|code|phrase|wd|key|ort))?\b|\bpwd?\b|\bpin\b|\bp/w\b|passwor[dt]|kennwort|zugangscode"
    r"|mot de passe|\bmdp\b|contrase[ñn]a|\bclave\b|\bsenha\b|palavra-passe|parola|\bsifre|şifre|wachtwoord|l[öo]senord"
    r"|adgangskode|kodeord|salasana|has[łl]o|\bheslo|jelsz[óo]|лозинка|парол[а-яї]{0,3}|κωδικ[όο]ς"
    r"|סיסמ[אה]|كلمة (?:ال)?(?:سر|مرور)|密码"
    r"|密碼|口令|パスワード|暗証|비밀번호|암호|รหัสผ่าน|m[ậa]t kh[ẩa]u|kata sandi|\bcode\b|\bkey\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[\"“”„«‘'`『「【\[(]([^\s\"“”„«»‘’'`』」】\])]{2,64})[\"”“»’'`』」】\])]")
_TOKEN = re.compile(r"[^\s\"“”„«»‘’'`<>()\[\]{}：:=，。、『』「」【】]{2,64}")
_SPACED = re.compile(r"\S{2,70}")
_AFTER, _BEFORE = 160, 60
_TOKENS_AFTER, _TOKENS_BEFORE = 8, 3
_EVERYBODYS = ("infected", "1234", "123", "12345", "123456", "password", "0000", "1111", "malware", "virus")


class PasswordCandidates:
    """The candidates of one message, in the order of their likelihood; iterating gathers them once."""

    def __init__(self, message: Message) -> None:
        self._message = message

    def __iter__(self) -> Iterator[str]:
        return iter(self._candidates)

    @property
    def left_out(self) -> int:
        """How many words of the message are no candidates, since there are more likely ones."""
        return max(0, len(self._words) - MAX_CANDIDATES + len(_EVERYBODYS))

    @cached_property
    def _candidates(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._words[: MAX_CANDIDATES - len(_EVERYBODYS)], *_EVERYBODYS)))

    @cached_property
    def _words(self) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for word in self._rank_candidates():
            if len(word) <= MAX_LENGTH:
                found[word] = None
            if len(found) >= MAX_COUNTED:
                break
        return tuple(found)

    def _rank_candidates(self) -> Iterator[str]:
        texts = [self._message.subject, *(text.visible[:MAX_TEXT] for text in self._message.texts[:MAX_TEXTS])]
        for text in texts:
            yield from _find_near_cues(text)
        for text in texts:
            yield from _QUOTED.findall(text[:MAX_TEXT])[:8]
            if len(text) <= SHORT_TEXT:
                yield from (token for token in _TOKEN.findall(text) if any(map(str.isdigit, token)))
        for name in (name for part in self._message.files for name in part.names):
            stem = PurePosixPath(name[:200]).stem
            yield stem
            yield from re.findall(r"[0-9]{3,16}", stem)[:3]


class PasswordAttempts:
    """The candidates as one archive tries them. The password that opened one entry is tried first on the next, and
    where nothing opened the first few entries, the rest are not tried."""

    def __init__(self, passwords: Iterable[str], budget: UnpackBudget, cost: int = 1) -> None:
        self._passwords = passwords
        self._budget = budget
        self._cost = cost
        self._failures = 0
        self.password = ""

    def unlock(self, attempt: Callable[[str], T | None], cost: int = 0) -> T | None:
        """Return what the first password that fits gives; `password` is that one afterwards. `cost` is that of one
        attempt where it differs from that of others in the archive."""
        if self._failures >= MAX_FAILURES:
            return None
        candidates = (self.password, *self._passwords) if self.password else tuple(self._passwords)
        for tried, password in enumerate(candidates):
            if not self._budget.take_attempt(cost or self._cost):
                self._budget.untried = max(self._budget.untried, len(candidates) - tried)
                break
            result = attempt(password)
            if result is not None:
                self.password = password
                return result
        self._failures += 1
        return None

    def give_up(self) -> None:
        """Say that no password was tried: the archive is encrypted in a way that nothing here undoes."""
        self._budget.untried = max(self._budget.untried, len(tuple(self._passwords)))


def _find_near_cues(text: str) -> Iterator[str]:
    """Yield what follows each word for "password", nearest first, then what stands before it."""
    for count, cue in enumerate(_CUE.finditer(text[:MAX_TEXT])):
        if count >= MAX_CUES:
            return
        after, before = text[cue.end() : cue.end() + _AFTER], text[max(0, cue.start() - _BEFORE) : cue.start()]
        yield from _QUOTED.findall(after)[:3]
        for found in (_TOKEN.findall(after), _SPACED.findall(after)):
            for token in found[:_TOKENS_AFTER]:
                yield from _trim_token(token)
        for token in reversed(_TOKEN.findall(before)[-_TOKENS_BEFORE:]):
            yield from _trim_token(token)


def _trim_token(token: str) -> tuple[str, ...]:
    """Return a token with and without the punctuation around it: a full stop may end the sentence or the password."""
    bare = token.strip(".,;!?*_-:\"'()")
    return tuple(dict.fromkeys(word for word in (bare, token) if word))
