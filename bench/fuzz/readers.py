"""The readers of hostile bytes, each as a function of bytes that returns a value which can be compared."""

import re
from collections.abc import Callable, Iterator
from hashlib import sha256

import msgspec
from selectolax.lexbor import LexborHTMLParser

from gatepost.abby.scan import _ScanParts, split_plain
from gatepost.analysis.analyse import analyse
from gatepost.analysis.stages import Context
from gatepost.api.lists import ListFileError, records
from gatepost.auth import dkim, signature, spf
from gatepost.auth.dmarc import authenticate
from gatepost.files import svg_drawing
from gatepost.files.archives import unpack
from gatepost.files.archives.passwords import PasswordCandidates
from gatepost.files.documents import dispatch, page_scripts
from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.qr_codes import find_qr_codes
from gatepost.files.values import File, UnpackBudget
from gatepost.guard.answers.dns import build_question, is_reply, read_reply
from gatepost.lists.catalogue import LISTS
from gatepost.lists.entries import MAX_ENTRY
from gatepost.lists.links import list_url_keys
from gatepost.mail.encodings import charset, embedded, outlook, transfer
from gatepost.mail.html import large_pages
from gatepost.mail.html.style import StyleSheets, parse_style
from gatepost.mail.links import parse_url, unwrap
from gatepost.mail.message import Envelope, Message, Part
from gatepost.mail.part_places import find_parts
from gatepost.mail.reader import read
from gatepost.mail.text import TextReader
from gatepost.milter.session import (
    Command,
    Frame,
    FrameError,
    FrameReader,
    agree,
    pack_options,
    parse_connect,
    parse_field,
    parse_macros,
    parse_options,
    parse_texts,
)
from gatepost.pages.page_nodes import PageNodes, PageScript, read_html_nodes, read_xml_page
from gatepost.pages.runner import PageRun, ScriptTime, run_opened, sort_effects
from gatepost.pages.runner import run_page as run_all_scripts
from gatepost.questions import Dns, DnsAnswer, LookupAnswer, RecordType
from gatepost.scanning.request import Edit, apply_edits, first_received_id, order_edits
from gatepost.settings.document import parse_document
from gatepost.settings.faults import validate
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.smtp.commands import SmtpLimits
from gatepost.smtp.content import DotStream, DotStuffer, normalise_line_ends
from gatepost.smtp.hop_answers import find_queue_id, render_reply
from gatepost.smtp.intake import read_path
from gatepost.smtp.replies import ReplyReader, pass_on
from gatepost.smtp.trace import read_header
from gatepost.workers import protocol

Run = Callable[[bytes], object]
NOW = 1_794_302_520.0
MAX_MEMBER = 1 << 20


def decode_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def read_file(kind: str, name: str, *, native: bool = False) -> Run:
    """Return a target that gives any bytes to the readers of one type of file, whatever they look like."""

    def run(data: bytes) -> object:
        budget = UnpackBudget(native=native)
        file = File(f"1/{name}", data, kind, sha256(data).hexdigest(), (name,))
        contents = dispatch.inspect(file, budget, ("1234",))
        members = unpack.read_members(file, budget, PasswordCandidates(Message()))
        found = [(each.names, each.content[:MAX_MEMBER], each.unread) for each in members or ()]
        return contents, found

    return run


def run_page(data: bytes) -> object:
    """Run a page with its scripts. One that was stopped gives nothing to compare: time does not repeat."""
    contents = dispatch.inspect(File("1/a.html", data, "html", "0" * 64, ("a.html",)), UnpackBudget())
    stopped = any(trait.name == "script-unfinished" and trait.detail.startswith("limit") for trait in contents.traits)
    return "stopped" if stopped else contents


def run_script(data: bytes, *, is_gated: bool = False) -> object:
    """Run any script as it is; or so at first, and then with its conditions opened."""
    page = read_html_nodes("<form id=f><input name=p type=password></form><template id=t>a</template><b class=x>")
    page.scripts.append(PageScript(1, decode_text(data)))
    run = run_opened(page, ScriptTime(), frozenset()) if is_gated else run_all_scripts(page, ScriptTime())
    sort_effects(run)
    return None


def shorten_page(data: bytes) -> object:
    """Cut any page down as if it were a large one: no script that a browser would see may be lost."""
    small = {"HEAD": 60, "HEAD_TAGS": 2, "TAIL": 40, "TAIL_TAGS": 2, "_CHUNK": 120, "SAMPLE": 20, "SAMPLES": 2}
    html = decode_text(data)
    usual = {name: getattr(large_pages, name) for name in small}
    try:
        for name, value in small.items():
            setattr(large_pages, name, value)
        large_pages._LATEST.clear()  # noqa: SLF001
        page = large_pages.shorten_page(html)
    finally:
        for name, value in usual.items():
            setattr(large_pages, name, value)
    # A parser replaces some characters, and has elements inside of scripts of drawings: these are not compared.
    if page.is_whole and "<svg" not in (low := html.lower()) and "<math" not in low:
        scripts = " ".join(node.text() for node in LexborHTMLParser(html).css("script"))
        if lost := [word for word in re.findall(r"\w{4,}", scripts) if word not in page.html]:
            raise ValueError(f"lost: {lost[0][:80]!r}")
    return page


def read_xml_nodes(data: bytes) -> object:
    """Read any bytes as a page that is XML."""
    page = read_xml_page(data)
    return page and (page.html, page.nodes.rows, page.nodes.scripts, page.markup_entities, page.is_whole)


def add_page_effects(data: bytes) -> object:
    """Take any rows for what a page did."""
    try:
        rows = msgspec.json.decode(data, type=list[list[str]])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    builder = ContentsBuilder(File("1/a.html", b"", "html", "0" * 64, ("a.html",)), UnpackBudget())
    page_scripts.add_effects(
        sort_effects(PageRun([row for row in rows if row])), PageNodes(visible="Win + R"), "", builder
    )
    return builder.build()


def read_picture(kind: str) -> Run:
    def run(data: bytes) -> object:
        return find_qr_codes((File("1/a", data, kind, "0" * 64),))

    return run


def read_part(data: bytes, kind: str) -> object:
    reader = TextReader()
    reader.read(Part("1", content_type=kind, content=data))
    return reader.texts, tuple(reader.links), reader.defects, reader.nodes


def read_styles(data: bytes) -> object:
    text = decode_text(data)
    sheets = StyleSheets()
    sheets.read(text)
    return sheets.rules, parse_style(text), sheets.style("p", text[:40], text[40:60], text[60:200])


def read_charset(data: bytes) -> object:
    label = data[:12].decode("latin-1").strip()
    decoded = charset.decode_charset(data[12:], label)
    return decoded, charset.encode_charset(decoded[0], label)


def decode_transfer(data: bytes) -> object:
    return (
        transfer.decode_base64(data),
        transfer.decode_quoted_printable(data),
        [*transfer.reread_base64(data), *transfer.reread_quoted_printable(data)],
    )


def find_embedded(data: bytes) -> object:
    return [*embedded.find_uuencoded(data), *embedded.find_binhex(data), *embedded.find_yenc(data)]


def read_compressed_rtf(data: bytes) -> object:
    rtf, whole = outlook.decompress_rtf(data)
    return rtf, whole, outlook.extract_html(rtf), outlook.extract_html(data)


def answer(question: object, data: bytes) -> object:
    """Return an answer that depends on the question and the input alone."""
    if not isinstance(question, Dns):
        return LookupAnswer()
    texts = data.decode("latin-1").split("\n")
    return DnsAnswer("found", tuple(texts[len(question.name) % 3 :][:4])) if len(texts) > 1 else DnsAnswer("no-name")


def drive(asking: Iterator[object], data: bytes) -> object:
    answers: object = None
    while True:
        try:
            questions = asking.send(answers)  # type: ignore[attr-defined]
        except StopIteration as stop:
            return stop.value
        answers = tuple(answer(each, data) for each in questions)


def authenticate_message(data: bytes) -> object:
    """The input is a message; its lines are the records that DNS has."""
    envelope = Envelope("a@a.example", ("b@b.example",), "192.0.2.1", "mx.a.example")
    return drive(authenticate(read(data), envelope, NOW), data)


def analyse_message(data: bytes) -> object:
    return drive(analyse(data, Envelope("a@a.example", ("b@b.example",)), Context(now=NOW)), data)


def read_key(data: bytes) -> object:
    answer = DnsAnswer("found", tuple(data.decode("latin-1").split("\n")[:3]))
    found = dkim.select_keys(answer, "rsa", "sha256"), dkim.select_keys(answer, "ed25519", "sha256")
    return [len(each) if isinstance(each, tuple) else each for each in found]


def read_signature(data: bytes) -> object:
    tags = signature.read_field_tags(b"DKIM-Signature: " + data)
    if tags is None:
        return None
    return signature.read_dkim(tags, NOW), signature.read_arc_message(tags, NOW), signature.read_arc_seal(tags)


def read_spf(data: bytes) -> object:
    found = spf.parse_record(data.decode("latin-1"))
    return str(found) if isinstance(found, Exception) else found


_DNS_TYPES: tuple[RecordType, ...] = ("TXT", "MX", "PTR", "A")


def read_dns(data: bytes) -> object:
    """A reply of a name server, in every type that is asked for; others are not read at all."""
    found: list[object] = []
    for kind in _DNS_TYPES:
        question = Dns("a.example", kind)
        section = build_question(question)
        reply = b"\0\0\x81\x80\0\1\0\x04\0\0\0\0" + section + data[2:]
        found += [is_reply(data, 0, section), is_reply(reply, 0, section), read_reply(reply, question, section)]
    return found


def receive_data(data: bytes) -> object:
    """However a message is cut by the network, it is the same message; what is stuffed comes back."""
    whole = DotStream()
    first = whole.feed(data)
    cut = DotStream()
    body, rest = b"", None
    for place in range(0, len(data), 7):
        piece, rest = cut.feed(data[place : place + 7])
        body += piece
        if rest is not None:
            rest += data[place + 7 :]
            break
    assert (body, rest) == first, "the pieces make another message"
    first_received_id(data)
    stuffer = DotStuffer()
    sound = normalise_line_ends(data)
    sent = stuffer.feed(sound) + stuffer.end
    got, left = DotStream().feed(sent)
    assert left == b"", "a message ends before its end"
    assert got in (sound, sound + b"\r\n"), "a message changes on its way"
    head = read_header(data, "b.example")
    return first, head, b"".join(apply_edits([data], head.claims))


def find_part_places(data: bytes) -> object:
    """Cut out whatever can be cut, and look whether the places are in order and the rest is there."""
    places = find_parts(data, ("1/a.exe", "1.1", "1.2/b.zip/c.js", "1.2.1~base64", "1.3", "1.1.1/x"))
    edits = order_edits((Edit(start, end, b"notice" if path else b"") for start, end, path in places), len(data))
    assert edits is not None, "places overlap"
    left = b"".join(apply_edits([data[:100], data[100:]], edits))
    assert len(left) == len(data) + sum(len(edit.text) - (edit.end - edit.start) for edit in edits)
    return places, left


def read_replies(data: bytes) -> object:
    try:
        found = ReplyReader().feed(data)
        return [(pass_on(each), find_queue_id(each), render_reply(each)) for each in found]
    except ValueError:
        return None


_MILTER_READERS: dict[Command, Run] = {
    Command.OPTIONS: lambda data: pack_options(agree(parse_options(data), quarantine=True)),
    Command.MACRO: parse_macros,
    Command.CONNECT: parse_connect,
    Command.HELO: parse_texts,
    Command.MAIL: lambda data: read_path(parse_texts(data)[0], SmtpLimits()),
    Command.RCPT: lambda data: read_path(parse_texts(data)[0], SmtpLimits()),
    Command.HEADER: parse_field,
}


def read_milter_frames(data: bytes) -> object:
    """Frames of a mail server, whole and in pieces, and what is in each."""
    seen = []
    for size in (len(data) or 1, 7):
        reader, found = FrameReader(1 << 16), list[Frame | str]()
        try:
            for start in range(0, len(data), size):
                reader.feed(data[start : start + size])
                while (frame := reader.next()) is not None:
                    found.append(frame)
        except FrameError as fault:
            found.append(str(fault))
        seen.append(found)
    assert seen[0] == seen[1], "pieces made a difference"
    return [_read_milter_frame(frame) for frame in seen[0] if isinstance(frame, Frame)]


def _read_milter_frame(frame: Frame) -> object:
    read = _MILTER_READERS.get(frame.command)
    try:
        return read(frame.data) if read else None
    except FrameError as fault:
        return str(fault)


class _Sink(bytearray):
    """Takes the message of an upload."""

    @property
    def size(self) -> int:
        return len(self)

    def write(self, data: bytes) -> None:
        self.extend(data)

    async def settle(self) -> None:
        """It keeps everything."""


def receive_upload(data: bytes) -> object:
    email = _Sink()
    parts = _ScanParts("b", email)
    plain = split_plain(data, "b")
    for place in range(0, len(data), 100):
        if failure := parts.feed(data[place : place + 100]):
            assert plain is None, "a body that is wrong was split"
            return failure
    found = parts.finish()
    assert plain in (None, (found, bytes(email))), "a body was split otherwise than the parser has it"
    return found


_BODIES = {
    protocol.Frame.READY: (protocol.read_ready,),
    protocol.Frame.ASK: (protocol.read_ask,),
    protocol.Frame.DONE: (protocol.read_report, protocol.read_view, protocol.read_picture),
    protocol.Frame.FAILED: (protocol.read_failed,),
}


def read_frames(data: bytes) -> object:
    found: list[object] = []
    try:
        for kind, _, body in protocol.FrameReader().feed(data):
            for decode in _BODIES[kind]:
                try:
                    found.append(decode(body))
                except protocol.FrameError:
                    found.append(None)
    except protocol.FrameError as fault:
        found.append(str(fault))
    return found


def normalise_entry(data: bytes) -> object:
    """The normal form of an entry is its own normal form, in every list."""
    text = decode_text(data)
    found = []
    for each in LISTS:
        normal = each.normalise(text)
        shown = getattr(normal, "shown", "")
        if 0 < len(shown) <= MAX_ENTRY:  # escapes may make it longer than what can be entered
            again = each.normalise(shown)
            assert getattr(again, "key", None) == getattr(normal, "key", ""), f"{each.name}: {shown!r} is another entry"
        found.append(normal)
    return found


def read_list_file(data: bytes) -> object:
    found: list[object] = []
    for kind in ("plain", "csv", "ndjson"):
        try:
            found.append(list(records(data.split(b"\n"), kind)))
        except ListFileError as fault:
            found.append(str(fault))
    return found


def read_url(data: bytes) -> object:
    url = parse_url(decode_text(data))
    return url, unwrap(url), list_url_keys(url.href)


def read_settings(data: bytes) -> object:
    document = parse_document(data)
    return [validate(model, document, "/nowhere")[1] for model in (GuardSettings, AbbySettings)]


def draw_svg(data: bytes) -> object:
    return [image.tobytes() for image in svg_drawing.draw_svg(decode_text(data))]
