"""What the scripts of a page do, found by running them (`gatepost.pages`), as contents of the file.

Files that scripts make are files inside the page, pages that they write are read, addresses that they go to are links.
What a page is able to do becomes a trait: it saves a file that it made, puts a command on the clipboard, sends what is
typed to a server, hides an address or a page from whoever reads its source. Honest pages make and save files, too: a
table as CSV, a chart as a picture, when the reader asks for it.
"""

import io
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from html import unescape
from html.entities import html5
from itertools import chain, islice

from PIL import Image

from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.file_types import find_last_extensions, identify
from gatepost.mail.html.active import LITTLE_TEXT, starts_program
from gatepost.mail.links import parse_url
from gatepost.mail.message import Part
from gatepost.mail.text import TextReader
from gatepost.pages.page_nodes import PageNodes, PageScript
from gatepost.pages.runner import (
    ANSWER,
    SECRET,
    MadeFile,
    PageEffects,
    PagePixels,
    choose_left_out,
    run_opened,
    run_page,
    sort_effects,
)

MAX_MADE = 60
MAX_PAGE_TEXT = 400_000
MAX_LAYERS = 400_000
MAX_VISIBLE = 200_000
SMALL = 9
MAX_COMMAND = 600
MAX_SHELL = 40  # nodes
FEW_SENTENCES = 2_000
# Where libraries are kept for everybody. Anybody can put a script there, too, so that they excuse a text alone.
_LIBRARY_HOSTS = frozenset(
    "cdn.jsdelivr.net cdnjs.cloudflare.com unpkg.com ajax.googleapis.com code.jquery.com cdn.plot.ly cdn.mathjax.org "
    "d3js.org maxcdn.bootstrapcdn.com stackpath.bootstrapcdn.com www.googletagmanager.com www.google-analytics.com "
    "www.gstatic.com use.fontawesome.com kit.fontawesome.com polyfill.io esm.sh cdn.skypack.dev".split()
)
_REMOTE_MODULE = re.compile(
    r"\s{0,200}import\b[^\"';]{0,200}[\"'](https?:[^\"']{4,2000})[\"'][\s\S]{0,200}\Z", re.IGNORECASE
)
MAX_PICTURE = 400_000
MAX_PIXELS = 250_000
# What is not known, as the stand-in calls it.
UNKNOWN_PIXELS, UNKNOWN_ANSWER = "pixels of a picture", "answer of a server"
FETCHED = "fetched by the script"
STALLED = "one script has no end: "

_CONTENT = frozenset({"img", "svg", "table", "video", "picture"})
HARMLESS = frozenset({"png", "jpeg", "gif", "bmp", "webp", "tiff", "heif", "wav", "mp3", "mp4", "empty"})
# What honest pages save behind a condition only.
_ORDINARY_FILES = HARMLESS | {"text", "xml", "svg", "ics", "vcard", "pdf", "html", "script"}
FONTS = (b"wOFF", b"wOF2", b"\0\x01\0\0\0", b"OTTO", b"true", b"glTF", b"\0asm")
# What honest pages save for their readers: text that no program runs.
_PLAIN_NAMES = frozenset(
    {"", "csv", "tsv", "txt", "json", "md", "ics", "vcf", "log", "geojson", "xml", "svg", "yaml", "yml"}
)
_EXPORTED_NAMES = _PLAIN_NAMES | {"png", "jpg", "jpeg", "pdf", "xlsx", "webp"}
_COMMAND = re.compile(
    r"\b(?:powershell|pwsh|cmd(?:\.exe)?\s{1,5}/[ckr]|mshta|rundll32|regsvr32|wscript|cscript|msiexec|certutil|bitsadmin"
    r"|conhost|schtasks|osascript|forfiles|pcalua|odbcconf|msdt|installutil|scriptrunner|finger(?:\.exe)?\s|hh\.exe|iex|invoke-(?:expression|webrequest|restmethod)|i[rw]m?r?\s{1,5}[\"']?https?:"
    r"|cmd(?:\.exe)?\s[^\n]{0,40}?/[ckr]\b|ssh\s[^\n]{0,80}?(?:proxy|local)command|wmic\s[^\n]{0,80}?\bcreate|winget\s{1,5}install"
    r"|start-process|frombase64string|base64\s{1,5}(?:-d|--decode)|bash\s{1,5}-c|zsh\s{1,5}-c|sh\s{1,5}-c)"
    r"|\b(?:curl|wget)\b[^\n]{0,300}?[|;&]|\\\\[\w.-]{3,80}@?\w{0,5}\\[\w$.-]{1,80}\\|%comspec%|nslookup\s[^\n]{0,200}\|",
    re.IGNORECASE,
)
_FETCHING = re.compile(r"https?:|\\\\[\w.-]{3}|\s-e(?:nc|c|ncodedcommand)?\s|base64|\bi(?:ex|wr|rm)\b", re.IGNORECASE)
_RUN_KEYS = re.compile(r"win(?:dows)?\b.{0,30}?\+.{0,12}?\b[rx]\b|\u229e.{0,9}?\b[rx]\b", re.IGNORECASE | re.DOTALL)
_FULL_PAGE = re.compile(
    r"\s{0,200}(?:<!--.{0,200}?-->\s{0,50})?<(?:!doctype|html|head|body)[\s>]", re.IGNORECASE | re.DOTALL
)
_PASSWORD = re.compile(r"type\s{0,3}=\s{0,3}[\"']?password|text-security", re.IGNORECASE)
_REMOTE_FORM = re.compile(r"<form\b[^>]{0,500}?action\s{0,3}=\s{0,3}[\"']?\s{0,9}(?:https?:)?//", re.IGNORECASE)
_REFRESH = re.compile(r"http-equiv\s{0,3}=\s{0,3}[\"']?refresh", re.IGNORECASE)
_CONDITION = re.compile(r"[?]|&&|\|\||\b(?:if|while|switch|catch|then)\b")
# What pages asked Internet Explorer for before it had functions of its own.
_ORDINARY_OBJECT = re.compile(
    r"XMLHTTP|DOMDocument|Flash|htmlfile|\A(?:Pdf|AcroPDF|QuickTime|RealPlayer|WMPlayer|AgControl)", re.IGNORECASE
)
_SPACE = re.compile(r"\s{1,9999}")
# A number, a name with a semicolon, or one of the old names that need none.
_OLD_NAMES = "|".join(sorted((name for name in html5 if name[-1] != ";"), key=len, reverse=True))
_REFERENCE = re.compile(rf"&(?:#[xX]?[0-9a-fA-F]{{1,40}};?|[A-Za-z][A-Za-z0-9]{{1,30}};|{_OLD_NAMES})")


def replace_references(text: str) -> str:
    """Return a text with its character references replaced (HTML Living Standard, section 13.2.5.72), as
    `html.unescape` does, which looks up every `&` of a script with the letters behind it."""
    return _REFERENCE.sub(lambda match: unescape(match.group()), text)


def run_scripts(page: PageNodes, text: str, builder: ContentsBuilder) -> PageEffects | None:
    """Run a page that has scripts or handlers and add what it did; None where it has none or may not run here."""
    budget = builder.budget
    if not (budget.native and (page.scripts or page.has_handlers or _has_active_parts(page))):
        return None
    left = budget.script_time.left
    effects = sort_effects(run_page(page, budget.script_time))
    if UNKNOWN_PIXELS in effects.missing and (pixels := _read_pixels(page, builder)):
        spent = left - budget.script_time.left
        effects = sort_effects(run_page(page, budget.script_time, pixels, spent))
    if not (builder.file.is_body or effects.stalls or shows_itself(effects)):
        _open_conditions(page, effects, text, builder)
    add_effects(effects, page, text, builder)
    return effects


def _open_conditions(page: PageNodes, effects: PageEffects, text: str, builder: ContentsBuilder) -> None:
    """Run a page again with its conditions opened, without scripts that are too long for it."""
    left_out = choose_left_out(page)
    effects.is_closed = bool(left_out)
    scripts = [script for place, script in enumerate(page.scripts) if place not in left_out]
    if (scripts or page.has_handlers) and has_conditions(scripts, effects):
        opened = sort_effects(run_opened(page, builder.budget.script_time, left_out))
        effects.withheld = choose_withheld(opened, effects, text)


def has_conditions(scripts: list[PageScript], effects: PageEffects) -> bool:
    """Return whether any script of a page decides anything: else a run with open conditions would do the same."""
    if (effects.is_cut and effects.code) or effects.evaluates or effects.files or effects.requests:
        return True
    if any(script.source[:5].lower() == "data:" for script in scripts):
        return True
    sources = chain((script.text for script in scripts), effects.code, (html for html, _ in effects.pages))
    return any(_CONDITION.search(source) for source in sources)


def shows_itself(effects: PageEffects) -> bool:
    """Return whether a page has done what it is held for, so that nothing needs to be looked for behind conditions."""
    return any(made.by and is_smuggled(made, identify_payload(made.content)) for made in effects.files) or any(
        _COMMAND.search(text[:20_000]) for text, _ in effects.clipboard
    )


def choose_withheld(opened: PageEffects, effects: PageEffects, text: str) -> PageEffects:
    """Return what a page does only behind conditions, as far as no honest page hides it: it saves programs, archives
    and data that it made by itself, puts commands on the clipboard, goes to an address that its source does not name,
    writes a page that asks for a password. What honest pages do for old programs, or on a click, is left out."""
    source = replace_references(text).lower() if opened.navigations else ""
    seen = {made.content for made in effects.files}
    files = [
        made
        for made in opened.files
        if made.by
        and made.content
        and made.content not in seen
        and identify_payload(made.content) not in _ORDINARY_FILES
    ]
    gone = {navigation.target for navigation in effects.navigations}
    navigations = [
        each
        for each in opened.navigations
        if each.how in ("location", "open", "click", "download")
        and each.target not in gone
        and ANSWER not in each.target
        and (host := parse_url(each.target).host)
        and host not in source
    ]
    pages = [(html, by) for html, by in opened.pages if html not in text and _PASSWORD.search(html)]
    known = {html for html, _ in effects.pages}
    clipboard = [
        each for each in opened.clipboard if each not in effects.clipboard and _COMMAND.search(each[0][:20_000])
    ]
    return PageEffects(
        files=files,
        navigations=navigations,
        pages=[each for each in pages if each[0] not in known],
        clipboard=clipboard,
    )


def add_effects(effects: PageEffects, page: PageNodes, text: str, builder: ContentsBuilder) -> None:
    """Add what a page did to the contents of its file; `text` is its source. Mail programs run no scripts, so of the
    message's own text only the files count."""
    _add_files(effects, builder)
    if builder.file.is_body:
        return
    if is_empty_shell(page):
        builder.add_trait("written-page", FETCHED)
    _add_addresses(effects, text, builder)
    _add_pages(effects, text, builder)
    _add_clipboard(effects, page.visible, builder)
    if (withheld := effects.withheld) is not None:
        _add_withheld(withheld, page, text, builder)
    _add_requests(effects, builder)
    _add_rest(effects, builder)


def _add_withheld(withheld: PageEffects, page: PageNodes, text: str, builder: ContentsBuilder) -> None:
    """Add what a page does only behind conditions, and that it does."""
    if withheld.files or withheld.navigations or withheld.pages or withheld.clipboard:
        _add_files(withheld, builder)
        _add_addresses(withheld, text, builder)
        _add_pages(withheld, text, builder)
        _add_clipboard(withheld, page.visible, builder)
        builder.add_trait("hides-source", "does so only where a condition holds")


def is_empty_shell(page: PageNodes) -> bool:
    """Return whether a page is hardly more than a script of a server: pages that draw something with a library from
    elsewhere have a script of their own for it. A few sentences make no page, unless the script is one of those
    libraries that write formulas or marks into a text."""
    if page.has_handlers or not page.scripts or len(page.rows) > MAX_SHELL:
        return False
    hosts = [parse_url(_find_source(script)).host for script in page.scripts]
    if any(script.text.strip() and not host for script, host in zip(page.scripts, hosts, strict=True)):
        return False
    if any(len(row) == 6 and row[2] in _CONTENT for row in page.rows) or not any(hosts):
        return False
    return len(page.visible.strip()) < (LITTLE_TEXT if _LIBRARY_HOSTS.intersection(hosts) else FEW_SENTENCES)


def _find_source(script: PageScript) -> str:
    """Return the address of a script, or the one from which it takes all that it runs: `import run from 'https:…'`."""
    found = _REMOTE_MODULE.match(script.text) if script.is_module and not script.source else None
    return found[1] if found and parse_url(found[1]).host not in _LIBRARY_HOSTS else script.source


def _read_pixels(page: PageNodes, builder: ContentsBuilder) -> dict[str, PagePixels]:
    """Return the pixels of small pictures that stand in the page, for a script that draws and reads them."""
    found: dict[str, PagePixels] = {}
    for address in page.pictures:
        head, _, digits = address.partition(",")
        if "base64" not in head.lower() or len(digits) > MAX_PICTURE:
            continue
        try:
            with Image.open(io.BytesIO(b64decode(digits)), formats=("PNG", "GIF", "BMP", "WEBP")) as picture:
                width, height = picture.size
                if width * height > MAX_PIXELS or not builder.budget.take_image(width * height):
                    continue
                content = picture.convert("RGBA").tobytes()
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            continue
        found[address.strip()] = PagePixels(width, height, b64encode(content).decode())
    return found


def _has_active_parts(page: PageNodes) -> bool:
    """Return whether an element holds a document of its own: in `srcdoc`, or in a `data:` address."""
    for row in page.rows:
        if len(row) == 6 and row[2] in ("iframe", "frame", "object", "embed"):
            attributes = row[3]
            sources = (attributes.get("src") or attributes.get("data") or "").lstrip()[:5].lower()
            if attributes.get("srcdoc") or sources == "data:":
                return True
    return False


def _add_files(effects: PageEffects, builder: ContentsBuilder) -> None:
    """Add files that the page made. One that it saves and that is more than a table or a picture is smuggled."""
    count = 0
    for made in effects.files:
        kind = identify_payload(made.content)
        if made.by and is_unknown(made):
            builder.add_trait("smuggling", "content that only the page's own keys or servers give")
        if len(made.content) < SMALL or (kind in HARMLESS and not made.by) or made.content.startswith(FONTS):
            continue
        count += 1
        if count > MAX_MADE:
            builder.add_unread("count")
            break
        if made.by and is_smuggled(made, kind):
            builder.add_trait("smuggling", f"{kind}, {len(made.content)} bytes")
        builder.add_member(made.name or f"script file {count}", made.content, len(made.content))
    for number, content in enumerate(effects.packed[:MAX_MADE], 1):
        if plain := _inflate(content, builder.allowance(len(content))):
            builder.add_member(f"script stream {number}", plain, len(content))
            builder.add_trait("smuggling", f"{identify_payload(plain)}, {len(plain)} bytes")


def is_smuggled(made: MadeFile, kind: str) -> bool:
    """Return whether a saved file is more than what honest pages give to their readers."""
    if kind in HARMLESS:
        return False
    if kind in ("text", "xml", "svg", "ics", "vcard"):
        names = set(find_last_extensions(made.name)) or {""}
        is_plain = names <= _PLAIN_NAMES and b"<script" not in made.content.lower()
        return not is_plain or made.by == "load"
    return True


def is_unknown(made: MadeFile) -> bool:
    """Return whether a page saves what a server, a key or a library gives, as pages with charts do on a click."""
    if made.content and not made.content.startswith((ANSWER.encode(), SECRET.encode())):
        return False
    return made.by == "load" or not set(find_last_extensions(made.name)) <= _EXPORTED_NAMES


def identify_payload(content: bytes) -> str:
    """Return the type; what is text only for want of a NUL is data."""
    kind = identify(content)
    if kind == "text":
        head = content[:1_000].decode("utf-8", "replace")
        odd = sum(character == "\ufffd" or not (character.isprintable() or character.isspace()) for character in head)
        return "data" if odd * 20 > len(head) else kind
    return kind


def _inflate(content: bytes, room: int) -> bytes:
    """Return what a stream of the page unpacks: gzip, zlib or deflate without a head."""
    for form in (47, -15):
        try:
            plain = zlib.decompressobj(form).decompress(content, max(1, room))
        except zlib.error:
            continue
        if plain:
            return plain
    return b""


def _add_addresses(effects: PageEffects, text: str, builder: ContentsBuilder) -> None:
    """Add where the page goes; an address that cannot be read in its source is hidden."""
    source = replace_references(text).lower() if effects.navigations else ""
    for navigation in effects.navigations[:MAX_MADE]:
        url = parse_url(navigation.target)
        if ANSWER in navigation.target and navigation.how != "frame":
            builder.add_trait("hidden-redirect", "an address that a server gives")
        if navigation.by == "load" and navigation.how != "frame" and starts_program(url.scheme):
            builder.add_trait("page-system-link", navigation.target)
        if not url.host or ANSWER in navigation.target:
            if url.scheme and url.scheme not in ("file", "about", "blob"):
                builder.add_link(navigation.target, source="refresh" if navigation.by == "load" else "file")
            continue
        is_alone = navigation.by == "load" and navigation.how != "frame"
        builder.add_link(navigation.target, source="refresh" if is_alone else "file")
        if is_alone and navigation.how == "location":
            builder.add_trait("page-meta-refresh", navigation.target)
        if navigation.how != "frame" and url.host not in source:
            builder.add_trait("hidden-redirect", navigation.target)
    for request in effects.requests[:MAX_MADE]:
        if parse_url(request.target).host:
            builder.add_link(request.target, source="script")


def _add_pages(effects: PageEffects, text: str, builder: ContentsBuilder) -> None:
    """Add what the page shows once its scripts have run. What asks for a password or leads away, and does not stand in
    the source, is a page that is hidden in a script."""
    room = MAX_PAGE_TEXT
    fresh: list[str] = []
    for html, by in effects.pages:
        if room <= 0 or html in text:
            continue
        if html.lstrip().startswith((ANSWER, SECRET)):
            # A page that its reader opens with a password is said to be encrypted, and no more.
            if by == "load" or html.lstrip().startswith(ANSWER):
                builder.add_trait("written-page", FETCHED)
            continue
        fresh.append(html[:room])
        room -= len(html)
        asks = bool(_PASSWORD.search(html) or _REMOTE_FORM.search(html) or _REFRESH.search(html))
        if asks or (by == "load" and len(html) > 200 and _FULL_PAGE.match(html)):
            builder.add_trait("written-page", f"{len(html)} bytes")
    if not fresh:
        return
    reader = TextReader()
    content = "\n".join(fresh).encode("utf-8", "replace")
    reader.read(Part(builder.file.path, content_type="text/html", disposition="attachment", content=content))
    for link in reader.links:
        builder.add_link(link.target, link.shown, "refresh" if link.source == "refresh" else "file")
    for defect in reader.defects:
        if defect.kind in ("html:password-field", "html:form", "html:meta-refresh", "html:system-link"):
            builder.add_trait(defect.kind.replace("html:", "page-"), defect.detail)
    builder.add_text("\n".join(found.visible for found in reader.texts))


def _add_clipboard(effects: PageEffects, visible: str, builder: ContentsBuilder) -> None:
    """Add commands that the page puts on the clipboard. Articles do that with code that they show; a command that the
    reader does not see, or is told to run by keys, is meant to be pasted unread."""
    shown = ""
    for text, _ in effects.clipboard[:MAX_MADE]:
        match = _COMMAND.search(text[:20_000])
        if not match:
            continue
        if not shown:
            shown = _SPACE.sub(
                " ", " ".join([visible[:MAX_VISIBLE], *effects.said, *(page for page, _ in effects.pages)])
            ).lower()
        plain = _SPACE.sub(" ", text).strip().lower()
        if plain[:400] not in shown or _RUN_KEYS.search(shown):
            builder.add_trait("clipboard-command", text.strip())
            builder.add_member("clipboard.txt", text.encode("utf-8", "replace"))


def find_told_command(visible: str) -> str:
    """Return a command that a text has its reader type into the window of Windows that runs programs: one that fetches
    something. Help desks explain that window, too, and name programs that are there."""
    keys = _RUN_KEYS.search(visible)
    if keys is None:
        return ""
    for match in islice(_COMMAND.finditer(visible[:MAX_VISIBLE], keys.end()), MAX_MADE):
        line = visible[match.start() : match.start() + MAX_COMMAND].split("\n", 1)[0]
        if _FETCHING.search(line):
            return line
    return ""


def _add_requests(effects: PageEffects, builder: ContentsBuilder) -> None:
    for request in effects.requests:
        host = parse_url(request.target).host
        if request.carries and (host or request.how != "form"):
            builder.add_trait("sends-input", f"{request.carries} to {host or 'an unknown host'}")


def _add_rest(effects: PageEffects, builder: ContentsBuilder) -> None:
    if any(code.lstrip().startswith((ANSWER, SECRET)) for code in effects.code):
        builder.add_trait("written-page", FETCHED)
    for program in effects.automation:
        if not _ORDINARY_OBJECT.search(program):
            builder.add_trait("program-action", program)
    if effects.decrypts and (effects.files or effects.pages):
        builder.add_trait("encrypted", "page")
    if len(effects.blocks) > 1 or (effects.blocks and "webdriver" in effects.looks):
        builder.add_trait("hides-source", ", ".join(["blocks", *effects.blocks, *effects.looks]))
    builder.budget.has_stalled |= effects.stalls
    if reason := describe_end(effects):
        builder.add_trait("script-unfinished", f"{STALLED if effects.stalls else ''}{reason}")


_ENDS = {"crash": "a crash of the interpreter"}


def describe_end(effects: PageEffects) -> str:
    """Return why scripts of a page were not followed to their end; "" where they were."""
    reasons = [_ENDS.get(effects.ended, f"limit of {effects.ended}")] if effects.ended else []
    reasons += ["limit of effects"] if effects.is_cut else []
    reasons += effects.faults[:3]
    if reasons and effects.missing:
        reasons.append(f"not known here: {', '.join(effects.missing[:6])}")
    return "; ".join(reasons)


def was_followed(effects: PageEffects | None) -> bool:
    """Return whether all scripts of a page ran to their end, without anything that the stand-in lacks."""
    return effects is not None and not describe_end(effects) and not set(effects.missing) - {UNKNOWN_ANSWER}


def list_layers(effects: PageEffects) -> Iterator[str]:
    """Yield scripts that the page made of strings, and what it wrote, as far as that is worth a second reading."""
    room = MAX_LAYERS
    for layer in (*effects.code, *(html for html, _ in effects.pages)):
        if room <= 0:
            return
        yield layer[:room]
        room -= len(layer)
