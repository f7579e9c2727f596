"""The native functions beside their Python twins, for any bytes: whatever they are given, both must say the same."""

from collections.abc import Callable, Iterator
from typing import cast

import msgspec

from gatepost.checks import phrases, triggers
from gatepost.checks.sender import sending_host
from gatepost.checks.text import advertising, fraud
from gatepost.files import qr_codes, walk
from gatepost.files.archives.passwords import PasswordCandidates
from gatepost.files.file_types import identify
from gatepost.files.values import File, UnpackBudget
from gatepost.mail import headers, links, mime, reader
from gatepost.mail.budget import ReadBudget
from gatepost.mail.html import active, document, limits
from gatepost.mail.html.active import HtmlNotes
from gatepost.mail.html.document import HtmlPage
from gatepost.mail.message import DRAWS, EMBEDS, IS_HTML, Field, Message, Part, Text
from gatepost.near_duplicates import RUN, find_smallest_hashes
from gatepost.speedups import native
from gatepost.textmodel import learnt, words

Pair = tuple[str, object, object]
MOST_WORDS = 60
_FIELD_SIGNS = ({"x-mailer": 2, "to": 1 << 50}, {"from": b"From", "to": b"To"}, 1 << 40)


def compare_native(data: bytes) -> object:
    """Give any bytes to the native functions that read mail and to their twins."""
    return _compare(data, _pair_bytes)


def compare_native_texts(data: bytes) -> object:
    """Give any text to the native functions that read text and pages, and to their twins."""
    return _compare(data, _pair_texts)


def compare_native_links(data: bytes) -> object:
    """Give any text to the native search for links, and its words to what makes links, and to their twins."""
    return _compare(data, _pair_links)


def _compare(data: bytes, pair: Callable[[bytes], Iterator[Pair]]) -> object:
    if not native:
        return None
    found: list[object] = []
    for name, ours, twins in pair(data):
        if ours != twins:
            raise AssertionError(f"{name}: {ours!r} is not {twins!r}")
        found.append(ours)
    return found


def _pair_bytes(data: bytes) -> Iterator[Pair]:
    half = len(data) // 2
    names = frozenset(data[half:].split(b"-")[:4])
    given = (data, 0, 65_536, 1 << 20, 50, Field, str.lower)
    fields = headers.split_fields(*given)
    yield "split_fields", native.split_fields(*given), fields
    if fields is not None:
        found = triggers.find_field_signs(fields[0], *_FIELD_SIGNS)
        yield "field_signs", native.field_signs(fields[0], *_FIELD_SIGNS), found
    yield "find_segments", native.find_segments(data, len(data), 9), reader.find_segments(data, len(data), 9)
    sought = (data, 0, names, frozenset[bytes](), tuple(names), 9)
    yield "find_delimiter", native.find_delimiter(*sought), mime.find_delimiter(*sought)
    yield "find_content_field", native.find_content_field(data, 0, half), reader.find_content_field(data, 0, half)
    yield "look_for_cells", native.look_for_cells(data), qr_codes.look_for_cells(data)
    yield from _pair_ordinary(data)
    for kind in ("text/plain", "text/html"):
        yield f"content_signs of {kind}", _find_left_out(data, kind), []


def _pair_ordinary(data: bytes) -> Iterator[Pair]:
    """A message that the native pass reads whole has the same parts for `MessageParts`, for the same work."""
    budget, other = ReadBudget(), ReadBudget()
    found = reader.read_ordinary(data, budget)
    if found is None:
        return
    parts = reader.MessageParts(data, other)
    yield "read_ordinary", found, (parts.root.entity.headers, parts.root.start, parts.flat)
    yield "work of read_ordinary", budget.work, other.work
    yield "defects of an ordinary message", other.defects, []


def _find_left_out(content: bytes, kind: str) -> list[str]:
    """Return what readers find in content in which `content_signs` has seen nothing for them."""
    signs, budget = native.content_signs(content), ReadBudget()
    left_out: list[str] = []
    if not signs & EMBEDS:
        entity = mime.Entity(types=(kind,))
        left_out += ("embedded" for _ in reader._find_embedded("1", entity, content, budget))  # noqa: SLF001
        left_out += (str(defect) for defect in budget.defects)
    plain = File("1", content, identify(content), "", (), kind, shown=True)
    if not signs & DRAWS and qr_codes.may_draw_code(plain):
        left_out.append("drawing")
    if walk._sort_body(Part("1", content_type=kind, content=content, signs=signs)):  # noqa: SLF001
        if plain.type != ("html" if signs & IS_HTML else "text"):
            left_out.append(plain.type)
        opened = walk._unpack_file(plain, 0, UnpackBudget(), PasswordCandidates(Message()))  # noqa: SLF001
        if opened != (walk._NOTHING, ()):  # noqa: SLF001
            left_out.append("members")
    return left_out


def _pair_texts(data: bytes) -> Iterator[Pair]:
    for text in (data.decode("utf-8", "replace"), data.decode("latin-1")):
        yield from _pair_text(text)
        yield from _pair_page(text)
    flat = data.decode("ascii", "replace").encode("ascii", "replace").decode("ascii")
    yield "link_words", native.link_words(flat, links._ENDINGS_WITH_PATH), links.find_link_words(flat)  # noqa: SLF001
    yield "fold_ascii", native.fold_ascii(flat), phrases.fold_plain(flat)


def _pair_links(data: bytes) -> Iterator[Pair]:
    for text in (data.decode("utf-8", "replace"), data.decode("latin-1"), data.decode("ascii", "ignore")):
        yield "find_targets", list(links.find_targets(text)), list(links.find_any_targets(text))
        some = text.split()[:MOST_WORDS]
        targets = [*some, *(f"http://{word}" for word in some), *(f"https://a.example/{word}" for word in some)]
        targets += [f"http://{word}.example/?{line}" for word, line in zip(some, text.split("\n"), strict=False)]
        yield "make_links", describe_links(targets), describe_links(targets, is_twin=True)


def describe_links(targets: list[str], *, is_twin: bool = False) -> list[object]:
    """Return what is kept of links that are written in a text and of those of a page's events, made natively or each by
    itself."""
    found = links.Links()

    def add_event(event: links.Event) -> None:
        kind, target, shown, is_hidden = event
        if kind != "comment":
            found.add(target, "2", cast("links.Source", kind), shown=shown, hidden=is_hidden)

    events = [event for number, target in enumerate(targets) for event in make_events(target, number)]
    if is_twin:
        for target in targets:
            found.add(target, "1", "text", shown=target)
        for event in events:
            add_event(event)
    else:
        found.add_written(targets, "1")
        found.add_items(events, "2", add_event)
    return [*found, len(found), found.is_whole]


def make_events(target: str, number: int) -> Iterator[links.Event]:
    """Yield events of a page that lead to a target."""
    kinds: tuple[links.Source, ...] = ("html", "image", "css", "form")
    yield kinds[number % 4], target, target[::-1] if number % 3 else "", number % 5 == 0
    yield "comment", target, "", False


def _pair_text(text: str) -> Iterator[Pair]:
    squeezed = "\n".join([" ".join(line.split()) for line in text.split(document.BREAK) if line.strip()])
    yield "squeeze", native.squeeze(text, True), squeezed
    yield "squeeze without breaks", native.squeeze(text, False), " ".join(text.split())
    yield from _pair_words(text)
    parts = native.split_words(text)
    yield "split_words", parts, words._WORD.findall(text)  # noqa: SLF001
    few = parts[:MOST_WORDS]
    yield "smallest_hashes", native.smallest_hashes(few, RUN, 8, 5), find_smallest_hashes(few, 8, 5)
    short = [*dict.fromkeys("0" * min(len(word), 9) if word.isdigit() else word for word in few)][:40]
    row = native.feature_row(few, 40, few[:3])
    yield "feature_row", row, learnt.pack_row([*short, *few[:3]]) if row is not None else None
    yield "transliterate", phrases.fold(text), phrases.fold_any(text)
    yield from _pair_phrases(text)
    yield "spelled_places", native.spelled_places(text), advertising.find_spelled_places(text)
    yield "has_long_run", native.has_long_run(text, 12), advertising.has_long_run(text, 12)
    folded = phrases.fold(text)
    left_out = "" if native.may_spell_number(folded) else fraud.search_disguised_number(folded)
    yield "may_spell_number", left_out, ""
    yield "ordinary_addresses", headers.parse_addresses(text, 9), headers.parse_any_addresses(text, 9)
    yield "read_hop", sending_host.read_hop(text), sending_host.read_any_hop(text)
    pieces = text.split("\n")
    yield "edge_words", links.find_cut_words(pieces), links.find_cut_words_of(pieces)


def _pair_phrases(text: str) -> Iterator[Pair]:
    """The phrases of a message whose subject and texts, one of them a document, are pieces of a text."""
    half = len(text) // 2
    texts = (Text("1", "plain", text[:half], text[half:]), Text("2", "html", text[half:]), Text("3", "document", text))
    message = Message(subject=text[:200], texts=texts)
    found, twin = phrases.search_message(message), phrases.search_texts(phrases.SHIPPED, message)
    yield "search_message", msgspec.structs.replace(found, signs=None), twin
    yield "its signs", triggers.find_text_signs(twin.text, message) & ~(found.signs or 0), 0


def _pair_words(text: str) -> Iterator[Pair]:
    """The words of a message whose sender, subject and two texts are pieces of a text."""
    half, room = len(text) // 2, min(len(text), words.MAX_CHARS)
    given = ([text[:90], text[half : half + 90]], text[:200], [text[:half], text[half:]])
    limits_of = (words._PLAIN_LETTERS, words.SPECIALS, words.MAX_NAME_WORDS, room, words.MAX_WORDS)  # noqa: SLF001
    found = native.WordArray.read(*given, *limits_of)
    names, subject, _ = words.find_words(*given[:2], [])
    twin = words.MessageWords(names, subject, words.find_body_words(given[2], room))
    for each in (found, native.WordArray(twin.names, twin.subject, twin.body)):
        if each is not None:
            yield "WordArray", (each.names, each.subject, each.body), (twin.names, twin.subject, twin.body)
            yield "its smallest_hashes", each.smallest_hashes(RUN, 8, 5), twin.smallest_hashes(RUN, 8, 5)
            mine, other = (learnt.make_message_row(Message(), every, ["#links 0"]) for every in (each, twin))
            yield "its row", mine, other


def _pair_page(html: str) -> Iterator[Pair]:
    yield "has_invisible", native.has_invisible(html), document.has_invisible(html)
    yield "has_latent_marks", native.has_latent_marks(html), active.has_latent_marks(html)
    yield "is_well_nested", native.is_well_nested(html, 9, 9), limits.is_well_nested(html, 9, 9)
    yield "is_harmless", native.is_harmless(html, 40, 50), limits.is_harmless(html, 40, 50)
    limited = limits.limit_html(html).html
    yield "read_page", describe_page(HtmlPage, limited), describe_page(WalkedPage, limited)


class WalkedPage(HtmlPage):
    """A page of which the tree is walked, as if it were not ordinary: the twin of `read_page`."""

    def _read_ordinary(self, _source: str) -> bool:
        return False


def describe_page(read: type[HtmlPage], html: str) -> list[object]:
    """Return all that reading a page gives; nodes are counted otherwise in what neither of them reads."""
    found, notes = links.Links(), HtmlNotes()
    page = read(html, "1", found, notes)
    texts = [page.join_visible(), page.join_hidden(), page.loose, list(page.unseen.items())]
    return [*texts, page.nested, list(found), list(notes.defects("1")), page.is_whole]
