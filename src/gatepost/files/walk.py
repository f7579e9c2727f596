"""The walk through the files of a message, layer by layer, within the budget.

Every leaf of the message is a file, whatever it claims to be, and so is everything inside archives. The walk is a
queue, not a recursion, so depth costs nothing but budget.
"""

from collections import deque
from hashlib import sha256
from itertools import chain

import msgspec

from gatepost.files.archives import unpack
from gatepost.files.archives.passwords import PasswordCandidates
from gatepost.files.documents import dispatch, web_page
from gatepost.files.file_types import has_mark, identify, is_plain_picture, is_plain_text, is_text_name, reads_as_text
from gatepost.files.values import MAX_DEPTH, Contents, File, Member, Trait, UnpackBudget, UnreadReason
from gatepost.mail.message import IS_HTML, IS_TEXT, OPENS, Message, Part
from gatepost.mail.text import detect_form
from gatepost.process.cpu_account import FILES

MIN_LONG_TEXT = 1 << 20
_NOTHING = Contents()


def find_files(message: Message, budget: UnpackBudget | None = None) -> tuple[File, ...]:
    """Return every file of the message and every file inside those, outermost first, within the budget."""
    budget = budget or UnpackBudget()
    open_one = budget.cpu.attempt
    passwords = PasswordCandidates(message)
    found: list[File] = []
    known: dict[str, Contents] = {}
    noted = _collect_page_traits(message)
    queue = deque((_make_attached_file(part, noted), 0) for part in message.files)
    nothing: tuple[Contents, tuple[File, ...]] = (_NOTHING, ())
    while queue:
        file, depth = queue.popleft()
        opened = known.get(file.sha256)
        if opened is None:  # the same bytes under two names are opened once
            is_plain = file.signs & (IS_TEXT | IS_HTML) and not file.signs & OPENS
            opened, inside = (
                nothing if is_plain else open_one(FILES, nothing, _unpack_file, file, depth, budget, passwords)
            )
            known[file.sha256] = opened
            queue.extend((child, depth + 1) for child in inside)
        if opened != _NOTHING:
            traits = tuple(dict.fromkeys((*file.traits, *opened.traits))) if file.traits else opened.traits
            file = msgspec.structs.replace(
                file, unread=opened.unread, traits=traits, links=opened.links, text=opened.text
            )
        found.append(file)
    return tuple(found)


def _collect_page_traits(message: Message) -> dict[str, list[Trait]]:
    """Return what the reader of the message saw in its pages, by the path of the part: they are not read again."""
    found: dict[str, list[Trait]] = {}
    for defect in message.defects:
        if defect.kind.startswith("html:"):
            found.setdefault(defect.where, []).append(web_page.make_trait(defect))
    return found


def _make_attached_file(part: Part, noted: dict[str, list[Trait]]) -> File:
    if kind := _sort_body(part):
        digest = sha256(part.content).hexdigest()
        return File(part.path, part.content, kind, digest, (), part.content_type, shown=True, signs=part.signs)
    path = f"{part.path}/{part.names[0]}" if part.names else part.path
    shown = bool(detect_form(part))
    file = _make_file(path, part.content, part.names, part.content_type, shown=shown)
    if shown and part.path in noted and not file.is_body:
        file = msgspec.structs.replace(file, traits=tuple(noted[part.path]))
    return file


_BODIES = frozenset({"text/plain", "text/html"})


def _sort_body(part: Part) -> str:
    """Return the type of a body that holds nothing but its text, as native code has seen at a glance; "" for all
    others, which are looked at in every way that there is."""
    signs = part.signs
    if signs & OPENS or part.names or part.content_type not in _BODIES:
        return ""
    kind = "text" if signs & IS_TEXT else "html" if signs & IS_HTML else ""
    return kind if kind and not has_mark(part.content) else ""


def _make_file(
    path: str, content: bytes, names: tuple[str, ...], declared: str = "", within: str = "", *, shown: bool = False
) -> File:
    kind = identify(content)
    if kind in ("eml", "mbox") and declared.startswith("text/") and not names:
        kind = "text"  # a letter that quotes a header
    return File(path, content, kind, sha256(content).hexdigest(), names, declared, within=within, shown=shown)


def _is_long_text(member: Member) -> bool:
    """Return whether a member was cut for its size alone and is text that nothing runs: a log, a table, a dump."""
    if member.unread not in ("size", "ratio") or len(member.content) < MIN_LONG_TEXT:
        return False
    return is_text_name(member.names) and reads_as_text(member.content) and identify(member.content) in ("text", "xml")


def _find_plain(member: Member) -> UnreadReason | None:
    """Return what is not read of a member that nothing runs and that holds no others, by names and content, where it is
    not opened; None for every other member. Archives of business have thousands of texts and pictures."""
    if member.unread not in (None, "text") or member.password or member.declared:
        return None
    if is_plain_text(member.names, member.content):
        return "text"
    return "pixels" if is_plain_picture(member.names, member.content) else None


def _unpack_file(
    file: File, depth: int, budget: UnpackBudget, passwords: PasswordCandidates
) -> tuple[Contents, tuple[File, ...]]:
    """Return what was seen in one file, and the files directly inside."""
    budget.untried = 0
    contents = dispatch.inspect(file, budget, passwords)
    members = unpack.read_members(file, budget, passwords)
    if members is None and not contents.members:
        return contents, ()
    if depth >= MAX_DEPTH:
        return msgspec.structs.replace(contents, members=(), unread=("depth",)), ()
    inside: list[File] = []
    unread: dict[UnreadReason, None] = dict.fromkeys(contents.unread)
    traits: dict[Trait, None] = dict.fromkeys(contents.traits)
    within = file.document if file.within or dispatch.is_document(file) else ""
    if dispatch.is_message(file):
        within = ""  # what is attached to a message is a file of its own, wherever the message is
    may_pass = not within and unpack.says_count(file)
    for member in chain(contents.members, members or ()):
        if budget.keeps_files and may_pass and (reason := _find_plain(member)) and budget.take_plain():
            unread[reason] = None
            continue
        if not budget.take_file():
            unread["count"] = None
            break
        # Documents hold scraps of zip that are no archives: themes in .xls, shapes in .ppt.
        if member.unread and (member.unread != "damaged" or not dispatch.has_reader(file)):
            unread["text" if _is_long_text(member) else member.unread] = None
        if member.password:
            traits[Trait("opened-with-password", member.password)] = None
        name = (member.names[0] if member.names else member.declared) or "unnamed"
        path = f"{file.path}/{name}"
        inside.append(_make_file(path, member.content, member.names, member.declared, within, shown=member.shown))
    if "encrypted" in unread and (untried := budget.untried + passwords.left_out):
        traits[Trait("untried-passwords", f"{untried} of {len(tuple(passwords)) + passwords.left_out}")] = None
    if not inside and not unread and unpack.is_container(file) and not unpack.is_empty(file):
        unread["damaged"] = None  # a container that gives nothing was not read
    return msgspec.structs.replace(contents, members=(), unread=tuple(unread), traits=tuple(traits)), tuple(inside)
