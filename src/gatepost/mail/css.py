"""As much of CSS as decides whether text can be seen: hiding properties, sizes, colours, and simple style sheets.

Spammers hide filler from people (`display:none`, white on white, a font of zero) to feed filters, and phishers hide
what would give them away. Selectors of one compound (`p`, `.x`, `#y`, `p.x`) are resolved; longer ones are not, but
a background set by one makes the background unknown, so that white text on it is not taken for hidden.
"""

import re
from functools import lru_cache

import msgspec

from gatepost.mail.colours import TRANSPARENT, UNKNOWN, alike, background_in, colour

MAX_SHEET = 200_000
MAX_RULES = 4_000
MAX_STYLES = 4_000
MAX_DECLARATIONS = 1_000
MAX_CLASSES = 12
OFF_SCREEN = -400.0
TINY = 1.5

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|<!--|-->", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
_BRACE = re.compile(r"[{}]")
_SIMPLE = re.compile(r"([a-z][a-z0-9]*)?([.#][\w-]+)?\Z")
_LENGTH = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*([a-z%]*)")
_FONT = re.compile(r"(?:^|\s)(\d*\.?\d+(?:px|pt|em|rem|%)?)\s*(?:/|\s)")
_CLIPPED = re.compile(
    r"rect\(\s*[01](?:px)?[\s,]+[01](?:px)?[\s,]+[01](?:px)?[\s,]+[01](?:px)?\s*\)|inset\((?:50|100)%"
)
_PIXELS = {"": 1.0, "px": 1.0, "pt": 1.333, "em": 16.0, "rem": 16.0, "ex": 8.0, "ch": 8.0, "%": 0.16, "vw": 10.0}
_PIXELS |= {"vh": 8.0, "cm": 37.8, "mm": 3.78, "in": 96.0, "pc": 16.0}
_MATTERS = re.compile(
    r"display|visib|opacity|font|color|backgr|height|width|position|indent|margin|clip|scale|bidi", re.IGNORECASE
)
_PLAIN_MEDIA = re.compile(r"@media\s+(?:only\s+)?(?:all|screen)\s*\Z")


class Style(msgspec.Struct, frozen=True, gc=False):
    """What an element's own declarations say: `hides` names the property that takes it off the page.

    `None` means inherited. `size` is the font size in pixels; `reverses` text that runs backwards.
    """

    hides: str = ""
    invisible: bool | None = None
    colour: int | None = None
    background: int | None = None
    size: float | None = None
    reverses: bool = False


PLAIN = Style()


def pixels(text: str) -> float | None:
    """A CSS length in pixels, roughly; None for `auto` and what is no length."""
    match = _LENGTH.match(text)
    if not match or (factor := _PIXELS.get(match.group(2))) is None:
        return None
    return float(match.group(1)[:12]) * factor


def unescaped(text: str) -> str:
    r"""CSS without comments and escapes: `d/**/isplay:n\6fne` says display:none (CSS Syntax section 4.3.7)."""
    if "/*" in text or "--" in text:
        text = _COMMENT.sub("", text)
    return _ESCAPE.sub(_escaped, text) if "\\" in text else text


def _escaped(match: re.Match[str]) -> str:
    code, char = match.groups()
    if not code:
        return str(char)
    number = int(code, 16)
    return chr(number) if 0 < number < 0xD800 or 0xDFFF < number < 0x110000 else "\ufffd"


@lru_cache(4096)
def _known_style(text: str) -> Style:
    return _style(text)


def style(text: str) -> Style:
    """What a list of declarations says; later ones win, `!important` ones win over others."""
    return _known_style(text) if len(text) <= 400 else _style(text)


def _style(text: str) -> Style:
    if not _MATTERS.search(text) and "\\" not in text and "/*" not in text:
        return PLAIN
    found: dict[str, str] = {}
    important: dict[str, str] = {}
    for declaration in unescaped(text).lower().split(";", MAX_DECLARATIONS)[:MAX_DECLARATIONS]:
        name, colon, value = declaration.partition(":")
        if not colon:
            continue
        if "!" in value:
            important[name.strip()] = value.partition("!")[0].strip()
        else:
            found[name.strip()] = value.strip()
    return _judged(found | important)


def _judged(said: dict[str, str]) -> Style:
    result = Style(
        hides=_hiding(said),
        invisible=said["visibility"] in {"hidden", "collapse"} if "visibility" in said else None,
        colour=colour(said["color"]) if "color" in said else None,
        background=background_in(said),
        size=_font_size(said),
        reverses="override" in said.get("unicode-bidi", "") and said.get("direction") == "rtl",
    )
    return PLAIN if result == PLAIN else result


def _font_size(said: dict[str, str]) -> float | None:
    if size := said.get("font-size"):
        return pixels(size)
    match = _FONT.search(said["font"]) if "font" in said else None
    return pixels(match.group(1)) if match else None


def _hiding(said: dict[str, str]) -> str:
    if said.get("display") == "none":
        return "display"
    opacity = pixels(said["opacity"]) if "opacity" in said else None
    if opacity is not None and opacity <= (0.01 if said["opacity"].endswith("%") else 0.05):
        return "opacity"
    if _is_cropped(said):
        return "size"
    if _is_off_screen(said):
        return "off-screen"
    if _CLIPPED.search(said.get("clip", "") + said.get("clip-path", "")):
        return "clip"
    return "scale" if "scale(0" in said.get("transform", "") and "scale(0." not in said["transform"] else ""


def _is_cropped(said: dict[str, str]) -> bool:
    if not any(said.get(name, "").startswith(("hidden", "clip")) for name in ("overflow", "overflow-y", "overflow-x")):
        return False
    sizes = (pixels(said[name]) for name in ("max-height", "height", "max-width", "width") if name in said)
    return any(size is not None and size <= 1 for size in sizes)


def _is_off_screen(said: dict[str, str]) -> bool:
    names = ["text-indent", "margin-left", "margin-top"]
    if said.get("position") in {"absolute", "fixed", "relative"}:
        names += ["left", "top", "right", "bottom"]
    distances = (pixels(said[name]) for name in names if name in said)
    return any(distance is not None and distance <= OFF_SCREEN for distance in distances)


class Sheet:
    """The style sheets of one document, and the styles of its elements as far as they were asked for."""

    def __init__(self) -> None:
        self.rules: dict[str, str] = {}
        self.is_whole = True
        self._styles: dict[tuple[str, ...], Style] = {}

    def read(self, text: str) -> None:
        """Take in one `<style>` element. Conditional blocks (`@media (…)`, `@supports`) are left out."""
        if len(text) > MAX_SHEET:
            self.is_whole, text = False, text[:MAX_SHEET]
        text = unescaped(text)
        opened: list[bool] = []  # per open block: do its rules count?
        start = 0
        prelude = ""
        for brace in _BRACE.finditer(text):
            inner = text[start : brace.start()]
            start = brace.end()
            if brace.group() == "{":
                prelude = inner.rpartition(";")[2].strip().lower()
                counts = not prelude.startswith("@") or bool(_PLAIN_MEDIA.match(prelude))
                opened.append(counts and all(opened[-1:]))
            elif opened:
                if opened.pop() and prelude and not prelude.startswith("@"):
                    self._add(prelude, inner)
                prelude = ""

    def _add(self, prelude: str, body: str) -> None:
        if len(self.rules) >= MAX_RULES:
            self.is_whole = False
        elif _MATTERS.search(body):
            for selector in prelude.split(",", 50)[:50]:
                self._add_one(selector.strip().removeprefix("body ").removeprefix("html "), body.strip()[:400])

    def _add_one(self, selector: str, body: str) -> None:
        if not _SIMPLE.match(selector):
            selector = re.split(r"[\s>+~]", selector)[-1]
            if "background" not in body.lower() or not _SIMPLE.match(selector):
                return
            body = "background:var(--unknown)"
        # What one selector may hold is bounded: every element that it matches pays for it.
        self.rules[selector] = (self.rules.get(selector, "") + ";" + body)[-800:]

    def style(self, tag: str, classes: str, identity: str, inline: str) -> Style:
        """The style of an element by its own declarations and the sheets' (CSS Cascade section 6, simplified)."""
        if not self.rules:
            return style(inline) if inline else PLAIN
        key = (tag, classes, identity, inline)
        known = self._styles.get(key)
        if known is None:
            if len(self._styles) >= MAX_STYLES:
                self.is_whole = False
                return style(inline) if inline else PLAIN
            known = self._styles[key] = style(self._declarations(tag, classes.lower(), identity.lower()) + ";" + inline)
        return known

    def _declarations(self, tag: str, classes: str, identity: str) -> str:
        names = [f".{name}" for name in classes.split(None, MAX_CLASSES)[:MAX_CLASSES]]
        if identity:
            names.append(f"#{identity.strip()}")
        keys = [tag, *names, *(tag + name for name in names)]
        return ";".join(self.rules[key] for key in keys if key in self.rules)


class Look(msgspec.Struct, frozen=True, gc=False):
    """How text looks at one place of the page: what its ancestors and itself say together."""

    hidden: str = ""
    invisible: bool = False
    colour: int = 0x000000
    background: int = 0xFFFFFF
    size: float = 16.0
    reversed: bool = False
    unseen: str = ""

    def inside(self, own: Style) -> "Look":
        """The look inside an element with that style."""
        hidden = self.hidden or own.hides
        invisible = self.invisible if own.invisible is None else own.invisible
        fore = self.colour if own.colour is None else own.colour
        back = self.background if own.background is None else own.background
        size = self.size if own.size is None else own.size
        return Look(
            hidden,
            invisible,
            fore,
            back,
            size,
            self.reversed or own.reverses,
            _unseen(hidden, invisible, fore, back, size),
        )


def _unseen(hidden: str, invisible: bool, fore: int, back: int, size: float) -> str:
    if hidden:
        return hidden
    if invisible:
        return "visibility"
    if size <= TINY:
        return "font-size"
    if fore == TRANSPARENT or (back != UNKNOWN and fore != UNKNOWN and alike(fore, back)):
        return "colour"
    return ""
