"""The build of a mail as marks: how many links and of what shape, to whom they lead, which files, how much is hidden.

Marks state relations and shapes ("every link leads to the sender's own domain"), never a name: a host, a mail program or
a recipient would only tell the model which collection it is looking at.
"""

from collections.abc import Iterator

from gatepost.files.tree import File
from gatepost.mail.message import Link, Message
from gatepost.names import org_domain

_FOLLOWED = frozenset({"text", "html", "form", "file", "qr"})
_SIZES = (0, 1, 2, 4, 8, 16, 32, 64)
MAX_LINKS = 100


def marks(message: Message, files: tuple[File, ...]) -> list[str]:
    """Every mark of a message."""
    return [*_shape(message), *_links(message), *_files(message, files), *_subject(message.subject)]


def _size(count: int) -> int:
    """The largest of a few steps that a count reaches."""
    return max(step for step in _SIZES if step <= count)


def _shape(message: Message) -> Iterator[str]:
    shown = [text for text in message.texts if not text.attached]
    forms = {text.form for text in shown}
    yield "#form " + ("none" if not forms else "both" if len(forms) > 1 else min(forms))
    chars = max((len(text.visible) for text in shown), default=0)
    yield f"#chars {_size(chars // 50)}"
    hidden = max((len(text.hidden) for text in shown), default=0)
    if hidden > 100:
        yield f"#hidden {min(3, 3 * hidden // (chars + 1))}"


def _links(message: Message) -> Iterator[str]:
    links = [link for link in message.links if link.host and link.source in _FOLLOWED][:MAX_LINKS]
    yield f"#links {_size(len(links))}"
    yield f"#images {_size(sum(link.source == 'image' for link in message.links))}"
    if not links:
        return
    owners = {host: org_domain(host) for host in {link.host for link in links}}
    own = {org_domain(sender.domain) for sender in message.senders}
    yield f"#owners {_size(len(set(owners.values())))}"
    led = sum(owners[link.host] in own for link in links)
    yield "#own-links " + ("all" if led == len(links) else "none" if not led else "some")
    yield from {mark for host in owners for mark in _host(host, owners[host])}
    yield from {mark for link in links for mark in _address(link)}


def _host(host: str, owner: str) -> Iterator[str]:
    if host.replace(".", "").isdigit() or ":" in host:
        yield "#host number"
        return
    yield "#host ending " + host.rpartition(".")[2][:12]
    name = owner.partition(".")[0]
    if any(char.isdigit() for char in name):
        yield "#host digits"
    if "-" in name:
        yield "#host hyphen"
    if len(name) > 15:
        yield "#host long"


def _address(link: Link) -> Iterator[str]:
    path = link.url.partition("://")[2].partition("/")[2]
    place, _, query = path.partition("?")
    yield f"#path {min(4, place.count('/'))}" if place else "#path none"
    if query:
        yield f"#query {_size(len(query) // 16)}"
    yield "#secure" if link.url.startswith("https") else "#insecure"
    if link.source in ("form", "qr"):
        yield f"#link {link.source}"


def _files(message: Message, files: tuple[File, ...]) -> Iterator[str]:
    bodies = {text.where for text in message.texts if not text.attached}
    yield from {f"#file {file.type}" for file in files[:50] if file.path not in bodies}


def _subject(subject: str) -> Iterator[str]:
    if not subject.strip():
        yield "#subject empty"
        return
    letters = [char for char in subject if char.isalpha()]
    if len(letters) > 5 and sum(map(str.isupper, letters)) > 0.7 * len(letters):
        yield "#subject loud"
    if any(ord(char) > 0x2600 for char in subject if not char.isalpha()):
        yield "#subject picture"
    yield f"#subject long {_size(len(subject) // 10)}"
