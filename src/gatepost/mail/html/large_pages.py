"""Pages of many megabytes, cut down to what can matter: saved reports, exported tables, logs shown as pages.

Such a page is long because something repeats: the row of a table, the line of a listing. The first tags and the last
are kept as they are. Of those between them, one of each form is kept, where forms are compared without their digits,
so that `<tr id=r17>` and `<tr id=r18>` are one; tags of tables, prose and drawings that can do nothing are left out,
and their links are kept. Scripts, style sheets and everything else in which a tag may hide are kept as they are. So
whatever acts in the page acts in what is left of it, and whoever reads that reads in bounded time. A page that has more
different things that act than are kept is not cut down.

A tag is found here more roughly than by the standard (HTML section 13.2.5). That is safe, since a piece that is left
out has no `<`, no handler and no address in it that could mean something to a parser which divides the page otherwise,
and a piece that is kept is kept unchanged.
"""

import re
from collections.abc import Iterator

import msgspec

from gatepost.mail.html.limits import TOKEN as _TOKEN
from gatepost.mail.html.limits import find_script_end

LONG, MANY_TAGS = 6_000_000, 40_000
HEAD, HEAD_TAGS = 3_000_000, 20_000
TAIL, TAIL_TAGS = 500_000, 5_000
MAX_PAGE = 96_000_000
MAX_KEPT, MAX_KEPT_TAGS = 12_000_000, 20_000
MAX_FORMS = 60_000
MAX_LINKS, MAX_HOSTS, LAST_LINKS = 2_000, 1_500, 200
MAX_SPANS = 60_000
# Letters after a tag that is kept, and samples of text between tags.
MAX_AFTER = 2_000
SAMPLE, SAMPLES = 30_000, 10
# A payload needs more digits than these; fewer are a number of a row.
FEW_DIGITS = 24
_CHUNK = 200_000
_LONGEST_START = 60

# What ends where its own end tag stands, whatever is in it, and comments.
_SPAN = re.compile(
    r"<(?:(!--)|(script|style|textarea|title|xmp|iframe|noembed|noframes|template|plaintext)[\t\n\f\r />]"
    r"|([\w.-]{1,40}:script)[\t\n\f\r />])",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"=[\t\n\f\r ]*+'")
_SCRIPT = re.compile(r"<(?:[\w.-]{1,40}:)?script\b", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*+>|<[!/A-Za-z?]?")
# This ends whatever may be open where the page is cut: a value in quotes, a tag, an element whose content is text.
_CLOSER = " \"'></script></style></textarea></title></xmp></iframe></noembed></noframes></template>\n"
_DIGITS = str.maketrans("123456789", "0" * 9)
# Elements of tables, prose, fields and drawings. Everything else may act, show something from elsewhere or hide what
# follows.
_INERT_TAGS = (
    "table|tbody|thead|tfoot|tr|td|th|caption|colgroup|col|p|div|span|br|hr|b|i|u|s|strong|em|font|small|sub|sup|nobr|wbr|"
    "center|ul|ol|li|dl|dt|dd|h[1-6]|pre|code|tt|a|html|head|body|section|article|header|footer|main|nav|aside|figure|"
    "figcaption|time|mark|abbr|cite|q|del|ins|kbd|samp|var|bdi|details|summary|label|img|input|option|optgroup|button|"
    "fieldset|legend|o:[a-z]{1,20}|v:[a-z]{1,20}|w:[a-z]{1,20}|x:[a-z]{1,20}|st1:[a-z]{1,20}|"
    "g|path|rect|circle|ellipse|line|polyline|polygon|text|tspan|title|desc|defs|stop"
)
_INERT = re.compile(rf"</?(?:{_INERT_TAGS})[\t\n\f\r />]|<!\[(?:if|endif)\b", re.IGNORECASE)
_ACTING = re.compile(
    r".<|[\t\n\f\r /\"']on[a-z]{3,24}[\t\n\f\r ]*+=|script[\t\n\f\r ]*+:|data:|expression|url[\t\n\f\r ]*+\(|password"
    r"|text-security|@import|\\|&#|&(?:colon|tab|newline|lpar)"
    r"|(?:action|formaction|srcdoc|background|http-equiv|ping|is)[\t\n\f\r ]*+="
    r"|type[\t\n\f\r ]*+=[\t\n\f\r \"']*+(?:submit|image|file)",
    re.IGNORECASE | re.DOTALL,
)
_ADDRESS = re.compile(
    r"(?:href|src|xlink:href)[\t\n\f\r ]*+=[\t\n\f\r ]*+[\"']?+([^\"'\t\n\f\r >]{0,4000})", re.IGNORECASE
)
_PLAIN_ADDRESS = re.compile(r"(?:https?:)?//([^/?#\s]{0,300})|mailto:|tel:|cid:|#|[\w./?%=&+~-]*+\Z", re.IGNORECASE)
_LONG_DATA = re.compile(
    r"(data:(?:image|font|audio|video|application/(?:x-)?font)[\w./+-]{0,60}(?:;[\w=.-]{1,40}){0,4};base64,[\w+/=]{64})"
    r"[\w+/=]{60000,}+",
    re.IGNORECASE,
)


class ShortPage(msgspec.Struct, frozen=True):
    """A page cut down: what is left of it, and the plain links of tags that were left out. `is_whole` is false where
    something that may act had no room: the page is as it was then."""

    html: str
    links: tuple[str, ...] = ()
    is_whole: bool = True


def is_large_page(html: bytes) -> bool:
    """Return whether a page is to be cut down before it is read."""
    return len(html) > LONG or (len(html) > MANY_TAGS * 3 and html.count(b"<") > MANY_TAGS)


def shorten_page(html: str) -> ShortPage:
    """Return a large page cut down to what can matter. A page that is attached is read as a text and as a file: what
    was left of the latest one is kept, where it is short."""
    key = (len(html), hash(html))
    if known := _LATEST.get(key):
        return known
    page = ShortPage(html, is_whole=False)
    if len(html) <= MAX_PAGE:
        shortener = _Shortener(html)
        page = shortener.build() if shortener.run() else page
    if len(page.html) < HEAD:
        _LATEST.clear()
        _LATEST[key] = page
    return page


_LATEST: dict[tuple[int, int], ShortPage] = {}


def cut_scripts(html: str, most: int) -> str:
    """Return a page in which scripts of more letters than these have only their first and their last ones."""
    out, at = [], 0
    for start, end, text in find_spans(html, 0, len(html)):
        if len(text) > most and _SCRIPT.match(text):
            out += [html[at:start], text[: most // 2], "\n", text[-most // 2 :]]
            at = end
    return "".join([*out, html[at:]]) if out else html


class _Shortener:
    """One pass over a page. `_out` are the pieces that are kept, in their order."""

    def __init__(self, html: str) -> None:
        self._html = html
        self._out: list[str] = []
        self._forms: set[str] = set()
        self._exact: set[str] = set()
        self._links: dict[str, None] = {}
        self._hosts: set[str] = set()
        self._last: list[str] = []
        self._span_forms: set[str] = set()
        self._spans = 0
        self._is_loose = False
        self._kept = 0
        self._kept_tags = 0

    def run(self) -> bool:
        """Read the page; return False where what is to be kept has no room."""
        html = self._html
        # What is kept as it is at the start ends where a tag begins.
        head, tail = self._skip_spans(_find_tag(html, HEAD_TAGS, HEAD)), self._find_tail()
        self._write_whole(0, head)
        at = head
        while at < tail:
            end = _find_cut(html, at, tail)
            forms = _TAG.findall(html[at:end].translate(_DIGITS))
            if self._has_spans(set(forms)):
                end = self._read_spans(at, end)
                if end < 0:
                    return False
            elif not self._read_tags(html[at:end], forms):
                return False
            self._sample(at, end, head, tail)
            at = end
        self._out.append(_CLOSER)
        self._write_whole(max(at, tail), len(html))
        return self._kept <= MAX_KEPT

    def build(self) -> ShortPage:
        return ShortPage("".join(self._out), tuple(dict.fromkeys((*self._links, *self._last))))

    def _find_tail(self) -> int:
        html = self._html
        start = max(0, len(html) - TAIL)
        tags = html.count("<", start)
        at = html.find("<", start)
        if tags > TAIL_TAGS:
            at = start + _find_tag(html[start:], tags - TAIL_TAGS, TAIL)
        return at if at >= 0 else len(html)

    def _skip_spans(self, place: int) -> int:
        """Return a place that is in no script, style sheet or comment: the given one, or the end of what it is in."""
        for _, end, _ in find_spans(self._html, 0, place):
            place = max(place, end)
        return place

    def _has_spans(self, forms: set[str]) -> bool:
        """Return whether something may begin among these tags that ends only where its own end tag stands."""
        self._span_forms.update(form for form in forms - self._forms if form[-1] != ">" or _SPAN.match(form))
        return not self._span_forms.isdisjoint(forms)

    def _read_spans(self, at: int, stop: int) -> int:
        """Read a piece with scripts, style sheets or comments; return where the last ends, -1 if one has no room."""
        html = self._html
        for start, end, text in find_spans(html, at, stop):
            between = html[at:start]
            self._spans += 1
            if not self._read_tags(between, _TAG.findall(between.translate(_DIGITS))) or not self._keep_span(text):
                return -1
            at = end
        rest = html[at:stop]
        return max(at, stop) if self._read_tags(rest, _TAG.findall(rest.translate(_DIGITS))) else -1

    def _keep_span(self, text: str) -> bool:
        if text.startswith("<!--") and "<" not in text[1:]:
            return self._spans <= MAX_SPANS  # a comment that no parser takes for anything else
        if text in self._exact:
            return True
        if len(text) < _CHUNK:
            self._exact.add(text)
        self._kept_tags += 1
        if _SCRIPT.match(text):
            self._out.append(text)
            return self._kept_tags <= MAX_KEPT_TAGS
        text = _LONG_DATA.sub(r"\1", text)
        if self._is_loose or not text.startswith("<!--"):
            # To a parser that has seen a quote before it, this begins nothing, and tags in it are tags.
            inner = text[text.find(">") + 1 :] if "<" in text[1:-12] else ""
            text = f"{text}{_CLOSER}{inner}{_CLOSER}" if inner else text
        return self._write(text)

    def _read_tags(self, chunk: str, forms: list[str]) -> bool:
        """Keep what is worth it of the tags of a piece; return False where there is no room."""
        fresh = set(forms).difference(self._forms)
        acting = {form for form in fresh if not self._is_inert(form)}
        if len(self._forms) < MAX_FORMS:
            self._forms |= fresh
        if acting:
            return self._keep_acting(chunk, forms, acting)
        if any("=" in form for form in fresh):
            for form, tag in dict(zip(forms, _TAG.findall(chunk), strict=True)).items():
                if form in fresh:
                    self._add_links(tag)
        return True

    def _is_inert(self, form: str) -> bool:
        if not _INERT.match(form) or _ACTING.search(form) or _has_open_quote(form):
            return False
        return all(map(_PLAIN_ADDRESS.match, _ADDRESS.findall(form))) if "=" in form else True

    def _keep_acting(self, chunk: str, forms: list[str], acting: set[str]) -> bool:
        """Keep the first tag of each form that may act, each whose digits may matter, and the links of the others."""
        for form, found in zip(forms, _TAG.finditer(chunk), strict=True):
            if form not in acting:
                self._add_links(found.group()) if "=" in form else None
                continue
            if form[-1] != ">":
                is_kept = self._keep_loose(chunk, found.start())
            else:
                is_kept = self._keep_tag(chunk, found.start(), found.end())
                if form.count("0") <= FEW_DIGITS:
                    acting.discard(form)
            if not is_kept:
                return False
        # Of forms whose digits matter, and of what is no tag, the next piece may have others.
        self._forms -= acting
        return True

    def _keep_tag(self, chunk: str, start: int, end: int) -> bool:
        tag = chunk[start:end]
        if tag in self._exact:
            return True
        if not (token := _TOKEN.match(tag)) or token.end() < len(tag) or not tag.endswith(">"):
            return self._keep_loose(chunk, start)
        self._exact.add(tag)
        after = chunk.find("<", end, end + MAX_AFTER)
        self._kept_tags += 1
        return self._write(_LONG_DATA.sub(r"\1", chunk[start : after if after >= 0 else end + MAX_AFTER]))

    def _keep_loose(self, chunk: str, start: int) -> bool:
        """Keep a piece of the page in which tags and quotes do not fit together, so that parsers may differ."""
        if chunk[start + 1 : start + 2].isalpha() or chunk[start + 1 : start + 2] in ("/", "!", "?"):
            key = chunk[start : start + 40].translate(_DIGITS)
            if key not in self._exact:
                self._exact.add(key)
                self._kept_tags += 10
                self._is_loose = True
                return self._write(chunk[start : start + MAX_AFTER] + _CLOSER)
        return True

    def _add_links(self, tag: str) -> None:
        for address in _ADDRESS.findall(tag):
            host = match.group(1) if (match := _PLAIN_ADDRESS.match(address)) else None
            if not host:
                continue
            if tag[1:2] not in "aA":
                if host not in self._hosts and len(self._hosts) < MAX_HOSTS:
                    self._out.append(tag)
            elif len(self._links) < MAX_LINKS or (host not in self._hosts and len(self._hosts) < MAX_HOSTS):
                self._links[address] = None
            else:
                self._last = [*self._last[-LAST_LINKS + 1 :], address]
            self._hosts.add(host)

    def _sample(self, start: int, end: int, head: int, tail: int) -> None:
        """Write pieces of the text between two places, as many as their share of the page is."""
        spread = (tail - head) // SAMPLES + 1
        due = [place for place in range(head + spread // 2, tail, spread) if start <= place < end]
        if not due:
            return
        text = _TAG.sub(" ", self._html[start:end]).replace("<", " ")
        for place in due:
            at = (place - start) * len(text) // (end - start)
            self._out.append(f" {text[at : at + SAMPLE]} ")

    def _write(self, text: str) -> bool:
        self._out.append(text)
        self._kept += len(text)
        return self._kept <= MAX_KEPT and self._kept_tags <= MAX_KEPT_TAGS

    def _write_whole(self, start: int, end: int) -> None:
        """Write a part of the page as it is."""
        at = start
        for place, stop, text in find_spans(self._html, start, end):
            if _SCRIPT.match(text):
                self._out.append(self._html[at:place])
                self._out.append(text)
                at = stop
        self._out.append(_LONG_DATA.sub(r"\1", self._html[at:end]))
        if end < len(self._html):
            self._out.append(_CLOSER)


def _has_open_quote(tag: str) -> bool:
    """Return whether a value of a tag may go on behind its `>`."""
    return tag.count('"') % 2 == 1 or ("'" in tag and tag.count("'") % 2 == 1 and _QUOTED.search(tag) is not None)


def find_spans(html: str, at: int, stop: int) -> Iterator[tuple[int, int, str]]:
    """Yield the places and texts of scripts, style sheets and comments that begin between two places."""
    while (found := _SPAN.search(html, at, stop + _LONGEST_START)) and found.start() < stop:
        end = _find_end(html, found)
        yield found.start(), end, html[found.start() : end]
        at = end


def _find_tag(html: str, count: int, most: int) -> int:
    """Return where the tag of this number begins, or the first one after `most` letters."""
    place = -1
    for _ in range(count):
        place = html.find("<", place + 1, most)
        if place < 0:
            place = html.find("<", most, most + MAX_AFTER)
            break
    return place if place >= 0 else min(most, len(html))


def _find_cut(html: str, at: int, stop: int) -> int:
    """Return where a piece of the page ends, at the start of a tag if there is one."""
    if stop - at <= _CHUNK:
        return stop
    end = html.rfind("<", at + 1, at + _CHUNK)
    end = html.find("<", at + _CHUNK, stop) if end < 0 else end
    return end if end >= 0 else stop


def _find_end(html: str, start: re.Match[str]) -> int:
    """Return where a comment, or an element whose content is text, ends."""
    if start.group(1):
        end = html.find("-->", start.end() - 2)
        return end + 3 if end >= 0 else len(html)
    name = (start.group(2) or start.group(3)).lower()
    tag = _TOKEN.match(html, start.start())
    inside = max(tag.end() if tag else 0, start.end())
    if name == "script":
        place = find_script_end(html, inside)
        return html.find(">", place) + 1 or len(html) if place >= 0 else len(html)
    found = _END_TAGS[name].search(html, inside) if name in _END_TAGS else None
    if name not in _END_TAGS:
        place = html.find(f"</{start.group(3)}", start.end())
        return html.find(">", place) + 1 if place >= 0 and ">" in html[place : place + 100] else len(html)
    return found.end() if found else len(html)


_END_TAGS = {
    name: re.compile(rf"</{name}[\t\n\f\r ]*+>", re.IGNORECASE)
    for name in "script style textarea title xmp iframe noembed noframes template plaintext".split()
}
