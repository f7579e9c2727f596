"""What the model looks at: words of text, subject and display name, concepts, and marks of the message's build.

Marks state shapes (how many links, which types of files, how much is hidden), never a name: a host, a mail program or a
recipient would only tell the model which collection it is looking at. Nor do they state what a sender can write to be
excused: fields of lists, newsletters and answers, or links to the sender's own site.
"""

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from gatepost.files.values import File
from gatepost.mail.message import Link, Message
from gatepost.names import org_domain
from gatepost.textmodel.concepts import CONCEPT, find_concepts
from gatepost.textmodel.words import guess_word, list_body_words, list_name_words, list_subject_words

MAX_LINKS = 60

_FOLLOWED = frozenset({"text", "html", "form", "file", "qr"})


def find_marks(message: Message, files: tuple[File, ...]) -> list[str]:
    """Return every mark of a message, each once."""
    found = [
        *_mark_shape(message),
        *_mark_links(message),
        *_mark_files(message, files),
        *_mark_subject(message.subject),
    ]
    return list(dict.fromkeys(found))


def _round_down(count: int) -> int:
    """Return the largest of a few steps that a count reaches."""
    if count >= 64:
        return 64
    return 1 << (count.bit_length() - 1) if count > 0 else 0


def _mark_shape(message: Message) -> Iterator[str]:
    shown = [text for text in message.texts if not text.attached]
    forms = {text.form for text in shown}
    yield "#form " + ("none" if not forms else "both" if len(forms) > 1 else min(forms))
    chars = max((len(text.visible) for text in shown), default=0)
    yield f"#chars {_round_down(chars // 50)}"
    hidden = max((len(text.hidden) for text in shown), default=0)
    if hidden > 100:
        yield f"#hidden {min(3, 3 * hidden // (chars + 1))}"


def _mark_links(message: Message) -> Iterator[str]:
    links = [link for link in message.links if link.host and link.source in _FOLLOWED]
    pictures = [link for link in message.links if link.source == "image"]
    yield f"#links {_round_down(len(links))}"
    yield f"#images {_round_down(len(pictures))}"
    if owners := _find_owners(links):
        yield f"#owners {_round_down(len(set(owners.values())))}"
        for host, owner in owners.items():
            yield from _describe_host(host, owner)
        for link in links[:MAX_LINKS]:
            yield from _mark_address(link)


def _find_owners(links: list[Link]) -> dict[str, str]:
    return {host: org_domain(host) for host in dict.fromkeys(link.host for link in links[:MAX_LINKS])}


@lru_cache(2048)
def _describe_host(host: str, owner: str) -> tuple[str, ...]:
    return tuple(_mark_host(host, owner))


def _mark_host(host: str, owner: str) -> Iterator[str]:
    if host.replace(".", "").isdigit() or ":" in host:
        yield "#host number"
        return
    yield "#host ending " + host.rpartition(".")[2][:12]
    name = owner.partition(".")[0]
    if "-" in name:
        yield "#host hyphen"
    if len(name) > 15:
        yield "#host long"
    if not name.isalpha() and any(map(str.isdigit, name)):
        yield "#host digits"


def _mark_address(link: Link) -> Iterator[str]:
    place, _, query = link.url.partition("://")[2].partition("/")[2].partition("?")
    yield f"#path {min(4, place.count('/'))}" if place else "#path none"
    if query:
        yield f"#query {_round_down(len(query) // 16)}"
    yield "#secure" if link.url.startswith("https") else "#insecure"
    if link.source in ("form", "qr"):
        yield f"#link {link.source}"


def _mark_files(message: Message, files: tuple[File, ...]) -> Iterator[str]:
    bodies = {text.where for text in message.texts if not text.attached}
    for file in files[:50]:
        if file.path not in bodies:
            yield f"#file {file.type}"


def _mark_subject(subject: str) -> Iterator[str]:
    if not subject.strip():
        yield "#subject empty"
        return
    yield f"#subject long {_round_down(len(subject) // 10)}"
    if subject.isupper() and len(subject) > 5:
        yield "#subject loud"
    if not subject.isascii() and any(ord(char) > 0x2600 for char in subject if not char.isalpha()):
        yield "#subject picture"


SUBJECT, NAME, MARK = "s:", "f:", "#"


class Features(msgspec.Struct, frozen=True):
    """One message as the model sees it: `text` in its order, because neighbours make pairs; `rest` and `concepts` in no
    order."""

    text: list[str]
    rest: list[str]
    marks: list[str]
    concepts: list[str] = []

    def with_marks(self, marks: list[str]) -> "Features":
        """Return the same message with further marks."""
        return msgspec.structs.replace(self, marks=[*self.marks, *marks])


def extract_features(message: Message, files: tuple[File, ...] = (), written: list[str] | None = None) -> Features:
    """Return everything that the model may know of a message; `written` are its `list_body_words`, where the caller has
    them."""
    names = [word for sender in message.senders[:2] for word in list_name_words(sender.name)]
    subject = list_subject_words(message.subject)
    rest = [SUBJECT + word for word in subject]
    rest += [NAME + word for word in names]
    text = list_body_words(message.texts) if written is None else written
    return Features(text, rest, find_marks(message, files), find_concepts([*subject, *text]))


@lru_cache(8192)
def normalise_word(word: str) -> str:
    """Return the word under which an unknown one may be known; "" where there is none."""
    if word.startswith(CONCEPT):
        return ""
    if word.startswith((SUBJECT, NAME)):
        form = guess_word(word[2:])
        return word[:2] + form if form else ""
    return guess_word(word)
