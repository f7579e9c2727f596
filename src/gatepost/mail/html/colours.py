"""Colours of HTML and CSS as numbers 0xRRGGBB, as far as telling text from its background needs them."""

import re
from colorsys import hls_to_rgb
from functools import lru_cache

UNKNOWN = -1
TRANSPARENT = -2
NEAR = 16

_NAMES = {
    "white": 0xFFFFFF,
    "black": 0x000000,
    "red": 0xFF0000,
    "green": 0x008000,
    "blue": 0x0000FF,
    "yellow": 0xFFFF00,
    "gray": 0x808080,
    "grey": 0x808080,
    "silver": 0xC0C0C0,
    "navy": 0x000080,
    "maroon": 0x800000,
    "purple": 0x800080,
    "teal": 0x008080,
    "olive": 0x808000,
    "lime": 0x00FF00,
    "aqua": 0x00FFFF,
    "cyan": 0x00FFFF,
    "fuchsia": 0xFF00FF,
    "magenta": 0xFF00FF,
    "orange": 0xFFA500,
    "whitesmoke": 0xF5F5F5,
    "snow": 0xFFFAFA,
    "ivory": 0xFFFFF0,
    "ghostwhite": 0xF8F8FF,
    "floralwhite": 0xFFFAF0,
    "mintcream": 0xF5FFFA,
    "azure": 0xF0FFFF,
    "aliceblue": 0xF0F8FF,
    "honeydew": 0xF0FFF0,
    "seashell": 0xFFF5EE,
    "beige": 0xF5F5DC,
    "linen": 0xFAF0E6,
    "lightyellow": 0xFFFFE0,
    "lightgray": 0xD3D3D3,
    "lightgrey": 0xD3D3D3,
    "gainsboro": 0xDCDCDC,
    "darkgray": 0xA9A9A9,
    "darkgrey": 0xA9A9A9,
    "dimgray": 0x696969,
    "darkblue": 0x00008B,
    "darkred": 0x8B0000,
    "darkgreen": 0x006400,
    "gold": 0xFFD700,
    "pink": 0xFFC0CB,
    "brown": 0xA52A2A,
    "transparent": TRANSPARENT,
}
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
def _parse_cached(text: str) -> int | None:
    if (named := _NAMES.get(text)) is not None:
        return named
    if match := _HEX.match(text):
        return _parse_hex(match.group(1))
    if match := _FUNCTION.match(text):
        return _parse_function(match.group(1), match.group(2))
    return None if text in {"inherit", "initial", "unset", ""} else UNKNOWN


def parse_colour(text: str) -> int | None:
    """Return a colour, `TRANSPARENT`, `UNKNOWN` for one that we cannot read, None for `inherit`."""
    return _parse_cached(text.strip().lower()[:80])


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
    return next((word for word in shorthand.split() if word in _NAMES or _HEX.match(word)), "")
