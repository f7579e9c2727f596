"""What the model looks at: words of text, subject and display name, concepts, and marks of the message's build.

Marks state shapes (how many links, which types of files, how much is hidden), never a name: a host, a mail program or a
recipient would only tell the model which collection it is looking at. Nor do they state what a sender can write to be
excused: fields of lists, newsletters and answers, or links to the sender's own site.

A text is surely not English where most of its letters are of another script, or the small words of another language
stand in it, and more of these than of English ones. A text of names and numbers is not.
"""

import tomllib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.resources import files as package_files

import msgspec

from gatepost.files.values import File
from gatepost.mail.message import Link, Message
from gatepost.names import org_domain
from gatepost.textmodel.words import CONCEPT, MessageWords, find_concepts, fold, guess_word, read_words, split_words

MAX_LINKS = 60

_FOLLOWED = frozenset({"text", "html", "form", "file", "qr"})
# No mail comes from hosts of these endings but that which somebody wrote as an example (RFC 6761 section 6).
# An ending of so many letters is that of a country.
COUNTRY = 2
_RESERVED = frozenset({"example", "test", "invalid", "localhost"})


def find_marks(message: Message, files: tuple[File, ...]) -> list[str]:
    """Return every mark of a message, each once."""
    found: dict[str, None] = {}
    _mark_shape(message, found)
    _mark_links(message, found)
    bodies = {text.where for text in message.texts if not text.attached}
    for file in files[:50]:
        if file.path not in bodies:
            found[f"#file {file.type}"] = None
    _mark_subject(message.subject, found)
    return list(found)


def _round_down(count: int) -> int:
    """Return the largest of a few steps that a count reaches."""
    if count >= 64:
        return 64
    return 1 << (count.bit_length() - 1) if count > 0 else 0


def _mark_shape(message: Message, found: dict[str, None]) -> None:
    forms: set[str] = set()
    chars = hidden = 0
    for text in message.texts:
        if not text.attached:
            forms.add(text.form)
            chars, hidden = max(chars, len(text.visible)), max(hidden, len(text.hidden))
    found["#form " + ("none" if not forms else "both" if len(forms) > 1 else min(forms))] = None
    found[f"#chars {_round_down(chars // 50)}"] = None
    if hidden > 100:
        found[f"#hidden {min(3, 3 * hidden // (chars + 1))}"] = None


def _mark_links(message: Message, found: dict[str, None]) -> None:
    links: list[Link] = []
    pictures = 0
    for link in message.links:
        if link.source == "image":
            pictures += 1
        elif link.host and link.source in _FOLLOWED:
            links.append(link)
    found[f"#links {_round_down(len(links))}"] = None
    found[f"#images {_round_down(pictures)}"] = None
    if owners := {host: org_domain(host) for host in dict.fromkeys(link.host for link in links[:MAX_LINKS])}:
        found[f"#owners {_round_down(len(set(owners.values())))}"] = None
        for host, owner in owners.items():
            for mark in _describe_host(host, owner):
                found[mark] = None
        for link in links[:MAX_LINKS]:
            _mark_address(link, found)


@lru_cache(2048)
def _describe_host(host: str, owner: str) -> tuple[str, ...]:
    return tuple(_mark_host(host, owner))


def _mark_host(host: str, owner: str) -> Iterator[str]:
    if host.replace(".", "").isdigit() or ":" in host:
        yield "#host number"
        return
    ending = host.rpartition(".")[2]
    # Countries, and names that are long or have hyphens, say nothing about who uses them.
    if ending not in _RESERVED and len(ending) > COUNTRY:
        yield f"#host ending {ending[:12]}"
    name = owner.partition(".")[0]
    if not name.isalpha() and any(map(str.isdigit, name)):
        yield "#host digits"


def _mark_address(link: Link, found: dict[str, None]) -> None:
    place, _, query = link.url.partition("://")[2].partition("/")[2].partition("?")
    found[f"#path {min(4, place.count('/'))}" if place else "#path none"] = None
    if query:
        found[f"#query {_round_down(len(query) // 16)}"] = None
    found["#secure" if link.url.startswith("https") else "#insecure"] = None
    if link.source in ("form", "qr"):
        found[f"#link {link.source}"] = None


def _mark_subject(subject: str, found: dict[str, None]) -> None:
    if not subject.strip():
        found["#subject empty"] = None
        return
    found[f"#subject long {_round_down(len(subject) // 10)}"] = None
    if subject.isupper() and len(subject) > 5:
        found["#subject loud"] = None
    if not subject.isascii() and any(ord(char) > 0x2600 for char in subject if not char.isalpha()):
        found["#subject picture"] = None


SUBJECT, NAME, MARK = "s:", "f:", "#"
# Marks that nearly every mail has in one form or another: they weigh, but tell a reader of the reasons nothing.
SHAPES = ("#form", "#chars", "#links", "#images", "#owners", "#path", "#query", "#secure", "#insecure", "#subject long")


class Features(msgspec.Struct, frozen=True):
    """A message as the model sees it: `text` in order, since neighbours make pairs; `rest` and `concepts` in none."""

    text: list[str]
    rest: list[str]
    marks: list[str]
    concepts: list[str] = []

    def with_marks(self, marks: list[str]) -> "Features":
        """Return the same message with further marks."""
        return msgspec.structs.replace(self, marks=[*self.marks, *marks])


def extract_features(message: Message, files: tuple[File, ...] = ()) -> Features:
    """Return everything that the model may know of a message."""
    return make_features(read_words(message), find_marks(message, files))


def make_features(words: MessageWords, marks: list[str]) -> Features:
    """Return the words of a message and its marks, with the concepts that they name."""
    subject, text = words.subject, words.body
    rest = [SUBJECT + word for word in subject]
    rest += [NAME + word for word in words.names]
    return Features(text, rest, marks, find_concepts([*subject, *text]))


@lru_cache(8192)
def normalise_word(word: str) -> str:
    """Return the word under which an unknown one may be known; "" where there is none."""
    if word.startswith(CONCEPT):
        return ""
    if word.startswith((SUBJECT, NAME)):
        form = guess_word(word[2:])
        return word[:2] + form if form else ""
    return guess_word(word)


# So many words are looked at, and so many there must be; then stretches of all words, each beginning in the middle of
# the one before.
MAX_LOOKED_AT, MIN_LOOKED_AT, STRETCH = 200, 8, 40
# Greek, Cyrillic and all scripts after them.
_OTHER_SCRIPT = "\u0370"
_SCRIPT_SHARE, _SMALL_SHARE, _STRETCH_SHARE, _ENGLISH_FACTOR = 3, 25, 8, 2


def _load_small_words() -> tuple[frozenset[str], frozenset[str]]:
    """Return the small words of English and those of other languages, without what both have."""
    lists = tomllib.loads((package_files("gatepost.textmodel") / "data" / "small_words.toml").read_text("utf-8"))
    english = _read_list(lists.pop("en"))
    others = frozenset[str]().union(*map(_read_list, lists.values()))
    return english - others, others - english


def _read_list(text: str) -> frozenset[str]:
    return frozenset(word for word in split_words(fold(text)) if len(word) > 1)


# Read with the module: a sealed worker opens no files.
_ENGLISH, _OTHERS = _load_small_words()


def is_foreign(words: Sequence[str]) -> bool:
    """Return whether a text, or a stretch of it, is surely not English, whatever English is around it."""
    if _is_not_english(words[:MAX_LOOKED_AT], _SMALL_SHARE):
        return True
    if len(words) <= STRETCH:
        return False
    # Most texts can have no such stretch, which all of their words together show.
    if _STRETCH_SHARE * sum(map(_OTHERS.__contains__, words)) < STRETCH // 2 and "".join(words).isascii():
        return False
    starts = range(0, len(words) - STRETCH // 2, STRETCH // 2)
    return any(_is_not_english(words[start : start + STRETCH], _STRETCH_SHARE) for start in starts)


def _is_not_english(looked_at: Sequence[str], share: int) -> bool:
    """Return whether one in `share` words is a small foreign word, and few are English; or the script is foreign."""
    count = len(looked_at)
    if count < MIN_LOOKED_AT:
        return False
    small = sum(map(_OTHERS.__contains__, looked_at))
    if share * small >= count and small > _ENGLISH_FACTOR * sum(map(_ENGLISH.__contains__, looked_at)):
        return True
    # Most texts are ASCII, which is known at once.
    return not "".join(looked_at).isascii() and _SCRIPT_SHARE * sum(map(_OTHER_SCRIPT.__le__, looked_at)) > count
