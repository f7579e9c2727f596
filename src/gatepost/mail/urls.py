r"""URLs as browsers read them (WHATWG URL): `http:\\host`, `0x7f.1`, tabs inside, percent-encoded and Unicode hosts.

RFC 3986 readers and browsers disagree on hostile URLs, and it is the browser that a click starts. `parse` answers in
the browser's normal form, with two habits of mail programs added: `www.host` without a scheme is http, and so is a
`//host` with no page around it.
"""

import re

import can_ada
import msgspec

MAX_URL = 8_192
MAX_BASE = 2_048
MAX_DATA = 256

_SCHEME = re.compile(r"[\x00-\x20]*+([A-Za-z](?:[A-Za-z0-9+.\t\r\n-]){0,30}):")
_BARE = re.compile(r"[\x00-\x20]*+(?:www\d{0,3}\.[^\s./\\]|[\w-]{1,63}+(?>\.[\w-]{1,63}+)++/)", re.IGNORECASE)
_BLANK = str.maketrans("", "", "\t\r\n")
_HTTP = frozenset({"http", "https", "ftp", "ws", "wss"})


class Url(msgspec.Struct, frozen=True, gc=False):
    """A URL in normal form: `href` whole (cut at `MAX_URL`), `host` lower case in A-labels without the trailing dot."""

    href: str = ""
    host: str = ""
    scheme: str = ""

    @property
    def is_web(self) -> bool:
        return self.scheme in _HTTP and bool(self.host)


NO_URL = Url()


def read_scheme(target: str) -> str:
    """Return the scheme that a browser would see, "" for a relative reference."""
    match = _SCHEME.match(target)
    return match.group(1).translate(_BLANK).lower() if match else ""


def parse_url(target: str, base: Url = NO_URL) -> Url:
    """Return the URL that following `target` leads to, `NO_URL` where a browser would refuse."""
    if target[:5].lower() == "data:":
        # A picture of megabytes: what it is stands in front, and it is never resolved.
        return Url(target[:MAX_DATA], "", "data")
    found = _parse_absolute(target)
    if found is NO_URL and not read_scheme(target):
        found = _parse_absolute(_resolve(target, base))
    return found


def _parse_absolute(text: str) -> Url:
    try:
        url = can_ada.parse(text)
    except (ValueError, TypeError):  # the latter for lone surrogates
        return NO_URL
    scheme = url.protocol[:-1]
    href = url.href
    if scheme == "blob":
        return Url(href[:MAX_URL], _parse_absolute(href[5:]).host, scheme)
    return Url(href[:MAX_URL], url.hostname.rstrip("."), scheme)


def _resolve(target: str, base: Url) -> str:
    """Return a relative reference made whole by its base; without one, by what mail programs suppose."""
    text = target.strip("\x00\t\n\r\f\v ").translate(_BLANK)
    slashed = text[:2].replace("\\", "/")
    if slashed == "//":
        return f"{base.scheme or 'http'}:{text}"
    if not base.is_web or len(base.href) > MAX_BASE:
        return f"http://{text}" if _BARE.match(text) else ""
    origin, path = _split(base.href)
    if slashed[:1] == "/":
        return origin + text
    if text[:1] in "?#":
        return origin + path + text
    return origin + path[: path.rfind("/") + 1] + text


def _split(href: str) -> tuple[str, str]:
    """Return origin and path of a normal-form web URL."""
    start = href.find("/", href.find("://") + 3)
    if start < 0:
        return href, "/"
    end = min((at for at in (href.find("?", start), href.find("#", start)) if at >= 0), default=len(href))
    return href[:start], href[start:end]
