"""As much of CSS as decides whether text can be seen: hiding properties, sizes, colours, and simple style sheets.

Spammers hide filler from people (`display:none`, white on white, a font of zero) to feed filters, and phishers hide
what would give them away. Selectors of one compound (`p`, `.x`, `#y`, `p.x`) are resolved; longer ones are not, but
a background set by one makes the background unknown, so that white text on it is not taken for hidden.

Colours are numbers 0xRRGGBB, as far as telling text from its background needs them.
"""

import re
import unicodedata
from colorsys import hls_to_rgb
from functools import lru_cache

import msgspec

UNKNOWN = -1
TRANSPARENT = -2
NEAR = 16

_NAMED = (
    "white=ffffff black=000000 red=ff0000 green=008000 blue=0000ff yellow=ffff00 gray=808080 grey=808080 "
    "silver=c0c0c0 navy=000080 maroon=800000 purple=800080 teal=008080 olive=808000 lime=00ff00 aqua=00ffff "
    "cyan=00ffff fuchsia=ff00ff magenta=ff00ff orange=ffa500 whitesmoke=f5f5f5 snow=fffafa ivory=fffff0 "
    "ghostwhite=f8f8ff floralwhite=fffaf0 mintcream=f5fffa azure=f0ffff aliceblue=f0f8ff honeydew=f0fff0 "
    "seashell=fff5ee beige=f5f5dc linen=faf0e6 lightyellow=ffffe0 lightgray=d3d3d3 lightgrey=d3d3d3 "
    "gainsboro=dcdcdc darkgray=a9a9a9 darkgrey=a9a9a9 dimgray=696969 darkblue=00008b darkred=8b0000 "
    "darkgreen=006400 gold=ffd700 pink=ffc0cb brown=a52a2a"
)
COLOUR_NAMES = {name: int(digits, 16) for name, _, digits in (pair.partition("=") for pair in _NAMED.split())}
COLOUR_NAMES["transparent"] = TRANSPARENT
_HEX = re.compile(r"#?([0-9a-f]{3,8})\Z")
_FUNCTION = re.compile(r"(rgb|hsl)a?\(([^)]{1,60})\)?")
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(%?)")


def is_alike(one: int, other: int) -> bool:
    """Return whether text in one colour cannot be told from the other behind it."""
    return (
        abs((one >> 16) - (other >> 16)) <= NEAR
        and abs((one >> 8 & 255) - (other >> 8 & 255)) <= NEAR
        and abs((one & 255) - (other & 255)) <= NEAR
    )


@lru_cache(1024)
def _parse_colour(text: str) -> int | None:
    if (named := COLOUR_NAMES.get(text)) is not None:
        return named
    if match := _HEX.match(text):
        return _parse_hex(match.group(1))
    if match := _FUNCTION.match(text):
        return _parse_function(match.group(1), match.group(2))
    return None if text in {"inherit", "initial", "unset", ""} else UNKNOWN


def parse_colour(text: str) -> int | None:
    """Return a colour, `TRANSPARENT`, `UNKNOWN` for one that we cannot read, None for `inherit`."""
    return _parse_colour(text.strip().lower()[:80])


def _parse_hex(digits: str) -> int:
    if len(digits) in {4, 8} and int(digits[-(len(digits) // 4) :], 16) == 0:
        return TRANSPARENT
    if len(digits) < 6:
        digits = "".join(digit * 2 for digit in digits[:3])
    return int(digits[:6], 16)


def _parse_function(name: str, arguments: str) -> int:
    numbers = [(float(number[:8]), bool(percent)) for number, percent in _NUMBER.findall(arguments)]
    if len(numbers) < 3:
        return UNKNOWN
    if len(numbers) > 3 and numbers[3][0] <= 0.05:
        return TRANSPARENT
    (first, is_share), (second, _), (third, _) = numbers[:3]
    if name == "hsl":
        channels = [part * 255 for part in hls_to_rgb(first % 360 / 360, min(third, 100) / 100, min(second, 100) / 100)]
    else:
        channels = [number / 100 * 255 if is_share else number for number in (first, second, third)]
    red, green, blue = (min(255, max(0, round(channel))) for channel in channels)
    return red << 16 | green << 8 | blue


def find_background(values: dict[str, str]) -> int | None:
    """Return the background that declarations set: `UNKNOWN` where a picture or a gradient is drawn."""
    drawn = values.get("background", "") + values.get("background-image", "")
    if "(" in drawn and ("url(" in drawn or "gradient" in drawn or "var(" in drawn):
        return UNKNOWN
    found = values.get("background-color") or _find_colour(values.get("background", ""))
    shade = parse_colour(found) if found else None
    return None if shade == TRANSPARENT else shade


def _find_colour(shorthand: str) -> str:
    """Return the colour among the words of the shorthand."""
    if "(" in shorthand:
        match = _FUNCTION.search(shorthand)
        return match.group() if match else ""
    return next((word for word in shorthand.split() if word in COLOUR_NAMES or _HEX.match(word)), "")


MAX_SHEET = 200_000
MAX_RULES = 4_000
MAX_STYLES = 4_000
MAX_DECLARATIONS = 1_000
MAX_CLASSES = 12
MAX_FONT = 400
OFF_SCREEN = -400.0
# Farther down or to the right than anybody scrolls: some ten screens.
FAR = 10_000.0
TINY = 1.5

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|<!--|-->", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
# Each of these consumes what it looks at, matched or not: no text makes them appearance twice.
_AT_BLOCK = re.compile(r"(@[^{}@;]*+)\{((?>[^{}]*+\{[^{}]*+\})*+[^{}]*+)\}?")
_RULE = re.compile(r"([^{}]*+)(?:\{([^{}]*+)\}?|\}|\Z)")
_SIMPLE = re.compile(r"([a-z][a-z0-9]*)?([.#][\w-]+)?\Z")
_LENGTH = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*([a-z%]*)")
_FONT = re.compile(r"(?:^|(?<=\s))((?:\d++(?:\.\d++)?|\.\d++)(?:px|pt|em|rem|%)?)(?:\s|/)")
_CLIPPED = re.compile(
    r"rect\(\s*[01](?:px)?[\s,]+[01](?:px)?[\s,]+[01](?:px)?[\s,]+[01](?:px)?\s*\)|inset\((?:50|100)%"
)
_PIXELS = {"": 1.0, "px": 1.0, "pt": 1.333, "em": 16.0, "rem": 16.0, "ex": 8.0, "ch": 8.0, "%": 0.16, "vw": 10.0}
_PIXELS |= {"vh": 8.0, "cm": 37.8, "mm": 3.78, "in": 96.0, "pc": 16.0}
_MATTERS = tuple("color backgr display visib hidden font-size opacity indent absolute clip override".split())
_FAR_GAP = re.compile(r"(?:margin|padding)[a-z-]{0,5}\s{0,9}:\s{0,9}\d{3}")
_HIDING = frozenset(
    "display opacity overflow overflow-x overflow-y position text-indent margin-left margin-top clip clip-path "
    "transform".split()
)
_GAPS = frozenset({"margin", "padding", "padding-left", "padding-top"})
_DECIDING = _HIDING | frozenset(
    "visibility color background background-color background-image font font-size unicode-bidi".split()
)
_ACTIVE = re.compile(r"url\s*\(|pression|behavio|-moz-binding|@import|javascript\s*:", re.IGNORECASE)
_PLAIN_MEDIA = re.compile(r"@media\s{1,9}(?:only\s{1,9})?(?:all|screen)\s*+\Z")


class Style(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """What an element's own declarations say: `hides` names the property that takes it off the page.

    `None` means inherited. `tiny` is a font too small to read; `reverses` text that runs backwards; `active` is the
    text of declarations that fetch or run something.
    """

    hides: str = ""
    invisible: bool | None = None
    colour: int | None = None
    background: int | None = None
    tiny: bool | None = None
    reverses: bool = False
    active: str = ""

    @property
    def is_quiet(self) -> bool:
        """Whether the declarations say nothing about the appearance but perhaps a font size."""
        is_silent = self.colour is None and self.background is None and self.invisible is None
        return is_silent and not self.hides and not self.reverses


PLAIN = Style()
# Why text cannot be seen. Native code has the same order.
REASONS = tuple(" display opacity size off-screen clip scale attribute visibility font-size colour".split(" "))
_UNSAID = -3
# A style as native code takes it: the place of `hides` in `REASONS`, and -1 or -3 for what is inherited.
PackedStyle = tuple[int, int, int, int, int, str]


def pack_style(style: Style) -> PackedStyle | None:
    """Return a style for native code; None for one that it does not know."""
    if style.reverses:
        return None
    return (
        REASONS.index(style.hides),
        -1 if style.invisible is None else int(style.invisible),
        _UNSAID if style.colour is None else style.colour,
        _UNSAID if style.background is None else style.background,
        -1 if style.tiny is None else int(style.tiny),
        style.active,
    )


def parse_packed_style(text: str) -> PackedStyle | None:
    """Return what declarations say, for native code."""
    return _parse_packed_short(text) if len(text) <= 400 else pack_style(_parse(text))


def parse_length(text: str) -> float | None:
    """Return a CSS length in pixels, roughly; None for `auto` and what is no length."""
    match = _LENGTH.match(text)
    if not match or (factor := _PIXELS.get(match.group(2))) is None:
        return None
    return float(match.group(1)[:12]) * factor


def unescape_css(text: str) -> str:
    r"""Return CSS without comments and escapes: `d/**/isplay:n\6fne` says display:none (CSS Syntax section 4.3.7)."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)  # old browsers ran `ｅｘｐｒｅｓｓｉｏｎ(…)`
    if "/*" in text or "--" in text:
        text = _COMMENT.sub("", text)
    return _ESCAPE.sub(_unescape_match, text) if "\\" in text else text


def _unescape_match(match: re.Match[str]) -> str:
    code, char = match.groups()
    if not code:
        return str(char)
    number = int(code, 16)
    return chr(number) if 0 < number < 0xD800 or 0xDFFF < number < 0x110000 else "\ufffd"


def parse_style(text: str) -> Style:
    """Return the style that a list of declarations gives; later ones win, `!important` ones win over others."""
    return _parse_short(text) if len(text) <= 400 else _parse(text)


def _parse(text: str) -> Style:
    found: dict[str, str] = {}
    important: dict[str, str] = {}
    text = unescape_css(text)
    for declaration in text.lower().split(";", MAX_DECLARATIONS)[:MAX_DECLARATIONS]:
        name, colon, value = declaration.partition(":")
        if not colon:
            continue
        if "!" in value:
            important[name.strip()] = value.partition("!")[0].strip()
        else:
            found[name.strip()] = value.strip()
    return _build_style(found | important, text if "(" in text and _ACTIVE.search(text) else "")


_parse_short = lru_cache(4096)(_parse)


@lru_cache(4096)
def _parse_packed_short(text: str) -> PackedStyle | None:
    return pack_style(_parse_short(text))


def _build_style(values: dict[str, str], active: str) -> Style:
    is_far = not _GAPS.isdisjoint(values) and _has_far_gap(values)
    if _DECIDING.isdisjoint(values) and not active and not is_far:
        return PLAIN
    hides = "" if _HIDING.isdisjoint(values) else _find_hiding(values)
    result = Style(
        hides=hides or ("off-screen" if is_far else ""),
        invisible=values["visibility"] in {"hidden", "collapse"} if "visibility" in values else None,
        colour=parse_colour(values["color"]) if "color" in values else None,
        background=find_background(values),
        tiny=_is_tiny(values),
        reverses="override" in values.get("unicode-bidi", "") and values.get("direction") == "rtl",
        active=active,
    )
    return PLAIN if result == PLAIN else result


def _is_tiny(values: dict[str, str]) -> bool | None:
    size = values.get("font-size", "")
    if not size and "font" in values and (match := _FONT.search(values["font"][:MAX_FONT])):
        size = match.group(1)
    height = parse_length(size) if size else None
    return None if height is None else height <= TINY


def _find_hiding(values: dict[str, str]) -> str:
    if values.get("display") == "none":
        return "display"
    opacity = parse_length(values["opacity"]) if "opacity" in values else None
    if opacity is not None and opacity <= (0.01 if values["opacity"].endswith("%") else 0.05):
        return "opacity"
    if _is_cropped(values):
        return "size"
    if _is_off_screen(values):
        return "off-screen"
    if ("clip" in values or "clip-path" in values) and _CLIPPED.search(
        values.get("clip", "") + values.get("clip-path", "")
    ):
        return "clip"
    return "scale" if "scale(0" in values.get("transform", "") and "scale(0." not in values["transform"] else ""


def _is_cropped(values: dict[str, str]) -> bool:
    if not any(
        values.get(name, "").startswith(("hidden", "clip")) for name in ("overflow", "overflow-y", "overflow-x")
    ):
        return False
    sizes = (parse_length(values[name]) for name in ("max-height", "height", "max-width", "width") if name in values)
    return any(size is not None and size <= 1 for size in sizes)


def _is_off_screen(values: dict[str, str]) -> bool:
    names = ["text-indent", "margin-left", "margin-top"]
    if values.get("position") in {"absolute", "fixed", "relative"}:
        names += ["left", "top", "right", "bottom"]
    distances = (parse_length(values[name]) for name in names if name in values)
    return any(distance is not None and (distance <= OFF_SCREEN or distance >= FAR) for distance in distances)


def _has_far_gap(values: dict[str, str]) -> bool:
    """Return whether an element is so far off that nobody gets there: fillers for filters stand below lures."""
    gaps = (values[name] for name in _GAPS if name in values)
    lengths = (parse_length(gap) for gap in gaps if gap[:3].isdigit())
    return any(length is not None and length >= FAR for length in lengths)


def _keep_unconditional(block: re.Match[str]) -> str:
    """Return the rules of a block that holds on any screen, "" for others (`@media print`, `@font-face`)."""
    return block.group(2) if _PLAIN_MEDIA.match(block.group(1)) else ""


class StyleSheets:
    """The style sheets of one document, and the styles of its elements as far as they were asked for. With `keeps_all`,
    declarations are kept that do not decide whether text can be seen as well."""

    def __init__(self, *, keeps_all: bool = False) -> None:
        self.rules: dict[str, str] = {}
        self.is_whole = True
        self._keeps_all = keeps_all
        self._styles: dict[tuple[str, ...] | str, Style] = {}

    def read(self, text: str) -> None:
        """Take in one `<style>` element. Conditional blocks (`@media (…)`, `@supports`) are left out."""
        if len(text) > MAX_SHEET:
            self.is_whole, text = False, text[:MAX_SHEET]
        text = unescape_css(text).lower()
        if "@" in text:
            text = _AT_BLOCK.sub(_keep_unconditional, text)
        for prelude, body in _RULE.findall(text):
            if self._keeps_all or any(word in body for word in _MATTERS) or _FAR_GAP.search(body):
                self._add(prelude.rpartition(";")[2], body)

    def _add(self, prelude: str, body: str) -> None:
        if len(self.rules) >= MAX_RULES:
            self.is_whole = False
            return
        body = body.strip()[:400]
        for selector in prelude.split(",", 50)[:50]:
            self._add_one(selector.strip().removeprefix("body ").removeprefix("html "), body)

    def _add_one(self, selector: str, body: str) -> None:
        if not _SIMPLE.match(selector):
            selector = re.split(r"[\s>+~]", selector)[-1]
            if "background" not in body or not _SIMPLE.match(selector):
                return
            body = "background:var(--unknown)"
        # What one selector may hold is bounded: every element that it matches pays for it.
        self.rules[selector] = (self.rules.get(selector, "") + ";" + body)[-800:]

    def style(self, tag: str, classes: str, identity: str, inline: str) -> Style:
        """Return an element's style by its declarations and the sheets' (CSS Cascade section 6, simplified)."""
        key = (tag, classes, identity, inline) if self.rules else inline
        known = self._styles.get(key)
        if known is None:
            if len(self._styles) >= MAX_STYLES:
                self.is_whole = False
                return PLAIN
            sheets = self.find_declarations(tag, classes.lower(), identity.lower()) if self.rules else ""
            known = self._styles[key] = parse_style(f"{sheets};{inline}" if sheets else inline)
        return known

    def find_declarations(self, tag: str, classes: str, identity: str) -> str:
        """Return what the sheets declare for an element, its class and its id in lower case."""
        names = [f".{name}" for name in classes.split(None, MAX_CLASSES)[:MAX_CLASSES]]
        if identity:
            names.append(f"#{identity.strip()}")
        keys = [tag, *names, *(tag + name for name in names)]
        return ";".join(self.rules[key] for key in keys if key in self.rules)


class Appearance(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """How text looks at one place of the page, by its ancestors and itself; `unseen` is why it cannot be seen."""

    hidden: str = ""
    invisible: bool = False
    colour: int = 0x000000
    background: int = 0xFFFFFF
    tiny: bool = False
    reversed: bool = False
    unseen: str = ""

    def with_style(self, own: Style) -> "Appearance":
        """Return the appearance inside an element with that style."""
        return _apply_style(self, own)


@lru_cache(4096)
def _apply_style(appearance: Appearance, own: Style) -> Appearance:
    """Return the appearance inside an element, cached: few appearances nest in few styles on every page."""
    if own.is_quiet and (own.tiny is None or own.tiny is appearance.tiny):
        return appearance
    hidden = appearance.hidden or own.hides
    invisible = appearance.invisible if own.invisible is None else own.invisible
    fore = appearance.colour if own.colour is None else own.colour
    back = appearance.background if own.background is None else own.background
    tiny = appearance.tiny if own.tiny is None else own.tiny
    unseen = _find_unseen(hidden, invisible, fore, back, tiny)
    return Appearance(hidden, invisible, fore, back, tiny, appearance.reversed or own.reverses, unseen)


def _find_unseen(hidden: str, invisible: bool, fore: int, back: int, tiny: bool) -> str:
    if hidden:
        return hidden
    if invisible:
        return "visibility"
    if tiny:
        return "font-size"
    if fore == TRANSPARENT or (back != UNKNOWN and fore != UNKNOWN and is_alike(fore, back)):
        return "colour"
    return ""
