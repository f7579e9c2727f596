"""The build of a mail as marks: how many links and of what shape, to whom they lead, which files, how much is hidden.

Marks state relations and shapes ("every link leads to the sender's own domain"), never a name: a host, a mail program
or a recipient would only tell the model which collection it is looking at.
"""

from collections.abc import Iterator

from gatepost.files.tree import File
from gatepost.mail.message import Link, Message
from gatepost.names import org_domain

MAX_LINKS = 60

_FOLLOWED = frozenset({"text", "html", "form", "file", "qr"})
_STEPS = (0, 1, 2, 4, 8, 16, 32, 64)


def marks(message: Message, files: tuple[File, ...]) -> list[str]:
    """Every mark of a message, each once."""
    found = [*_shape(message), *_links(message), *_files(message, files), *_subject(message.subject), *_talk(message)]
    return list(dict.fromkeys(found))


def _step(count: int) -> int:
    """The largest of a few steps that a count reaches."""
    if count >= 64:
        return 64
    return 1 << (count.bit_length() - 1) if count > 0 else 0


def _shape(message: Message) -> Iterator[str]:
    shown = [text for text in message.texts if not text.attached]
    forms = {text.form for text in shown}
    yield "#form " + ("none" if not forms else "both" if len(forms) > 1 else min(forms))
    chars = max((len(text.visible) for text in shown), default=0)
    yield f"#chars {_step(chars // 50)}"
    hidden = max((len(text.hidden) for text in shown), default=0)
    if hidden > 100:
        yield f"#hidden {min(3, 3 * hidden // (chars + 1))}"


def _links(message: Message) -> Iterator[str]:
    links = [link for link in message.links if link.host and link.source in _FOLLOWED]
    pictures = [link for link in message.links if link.source == "image"]
    yield f"#links {_step(len(links))}"
    yield f"#images {_step(len(pictures))}"
    own = {org_domain(sender.domain) for sender in message.senders if sender.domain}
    if owners := _owners(links):
        yield f"#owners {_step(len(set(owners.values())))}"
        yield "#own-links " + _share(owners, own)
        for host, owner in owners.items():
            yield from _host(host, owner)
        for link in links[:MAX_LINKS]:
            yield from _address(link)
    if owners := _owners([link for link in pictures if link.host]):
        yield "#own-images " + _share(owners, own)


def _owners(links: list[Link]) -> dict[str, str]:
    return {host: org_domain(host) for host in dict.fromkeys(link.host for link in links[:MAX_LINKS])}


def _share(owners: dict[str, str], own: set[str]) -> str:
    """How many of these belong to the sender."""
    theirs = own & set(owners.values())
    return "none" if not theirs else "all" if theirs.issuperset(owners.values()) else "some"


def _host(host: str, owner: str) -> Iterator[str]:
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


def _address(link: Link) -> Iterator[str]:
    place, _, query = link.url.partition("://")[2].partition("/")[2].partition("?")
    yield f"#path {min(4, place.count('/'))}" if place else "#path none"
    if query:
        yield f"#query {_step(len(query) // 16)}"
    yield "#secure" if link.url.startswith("https") else "#insecure"
    if link.source in ("form", "qr"):
        yield f"#link {link.source}"


def _files(message: Message, files: tuple[File, ...]) -> Iterator[str]:
    bodies = {text.where for text in message.texts if not text.attached}
    for file in files[:50]:
        if file.path not in bodies:
            yield f"#file {file.type}"


def _subject(subject: str) -> Iterator[str]:
    if not subject.strip():
        yield "#subject empty"
        return
    yield f"#subject long {_step(len(subject) // 10)}"
    if subject.isupper() and len(subject) > 5:
        yield "#subject loud"
    if not subject.isascii() and any(ord(char) > 0x2600 for char in subject if not char.isalpha()):
        yield "#subject picture"


def _talk(message: Message) -> Iterator[str]:
    """Whether the mail answers another (RFC 5322 section 3.6.4), is from a list, or can be ended (RFC 2369)."""
    fields = {field.name for field in message.headers.fields}
    if "in-reply-to" in fields or "references" in fields:
        yield "#answers"
    if "list-post" in fields:
        yield "#list"
    elif "list-unsubscribe" in fields:
        yield "#leave " + ("one-click" if "list-unsubscribe-post" in fields else "link")
