"""Templates, compiled once. All that is put into one is escaped; a name that is missing is an error, not a gap.

What pages answer with: HTML under a strict content-security policy, redirects after a change, and small files.

Nothing is loaded from elsewhere, no script or style stands inside a page, nobody may frame it, and no copy is kept of
what is shown to a person who is signed in.

Style, script and icon: read once, addressed by what is in them, and so kept by browsers for good.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.resources import files
from urllib.parse import quote

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import Response

from gatepost.api.errors import NOT_FOUND, Failure
from gatepost.times import date_time

_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def environment(assets: Mapping[str, str]) -> Environment:
    """All templates; `assets` are the paths of style, script and icon by their names."""
    made = Environment(
        loader=PackageLoader("gatepost.web"),
        autoescape=select_autoescape(default_for_string=True, default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals["asset"] = dict(assets)
    made.filters.update(
        moment=moment, machine=date_time, size=size, points=points, count=count, percent=percent, ago=ago
    )
    return made


def moment(milliseconds: int | None) -> str:
    """A time as people read it; the zone is always UTC, and is said once for each page."""
    if milliseconds is None:
        return "never"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def ago(milliseconds: int, now: int) -> str:
    """How long since, roughly."""
    seconds = max(0, now - milliseconds) // 1000
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= unit:
            number = seconds // unit
            return f"{number} {name}{'' if number == 1 else 's'} ago"
    return "just now"


def size(number: float) -> str:
    """`1536` as `1.5 KB`."""
    for unit in _UNITS[:-1]:
        if number < 1000:
            return f"{number:.0f} {unit}" if number >= 100 else f"{round(number, 1):g} {unit}"
        number /= 1024
    return f"{number:.1f} {_UNITS[-1]}"


def points(hundredths: int) -> str:
    """`250` as `2.5`."""
    return f"{hundredths / 100:g}"


def count(number: int) -> str:
    """`1234567` as `1,234,567`."""
    return f"{number:,}"


def percent(part: float, whole: float) -> str:
    """A share, with one decimal where it is small."""
    share = 100 * part / whole if whole else 0.0
    return f"{share:.1f} %" if 0 < share < 10 else f"{share:.0f} %"


CONTENT_SECURITY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
    "Vary": "Accept, Cookie",
}


def html_response(body: str, status: int = 200) -> Response:
    """A page."""
    return Response(body.encode("utf-8", "replace"), status, PAGE_HEADERS, "text/html")


def redirect(path: str) -> Response:
    """After a change the browser asks for another page, so that going back sends nothing twice (RFC 9110 15.4.4)."""
    return Response(status_code=303, headers={**PAGE_HEADERS, "Location": quote(path, safe="/?&=%+#:@,-_.~")})


def download_response(body: bytes, name: str, media_type: str) -> Response:
    """A file that the browser saves and never shows. The name is ours, so it needs no escaping."""
    headers = {**PAGE_HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(body, 200, headers, media_type)


def image_response(png: bytes) -> Response:
    """A picture that we drew."""
    return Response(png, 200, {**PAGE_HEADERS, "Content-Security-Policy": "default-src 'none'; sandbox"}, "image/png")


ASSET_NAMES = {"gatepost.css": "text/css", "gatepost.js": "text/javascript", "icon.svg": "image/svg+xml"}
ASSET_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Asset(msgspec.Struct, frozen=True):
    """One file, and the path that it is served at."""

    path: str
    body: bytes
    media_type: str


class Assets:
    """All of them, by the path with the digest in it."""

    def __init__(self) -> None:
        self._by_path = {asset.path: asset for asset in map(_asset, ASSET_NAMES)}
        self.paths: Mapping[str, str] = {path.rpartition("/")[2]: path for path in self._by_path}

    async def serve(self, request: Request) -> Response | Failure:
        """One asset; an address of an older version leads nowhere."""
        asset = self._by_path.get(request.url.path)
        if asset is None:
            return Failure(NOT_FOUND, "there is nothing at this path")
        return Response(asset.body, 200, ASSET_HEADERS, asset.media_type)


def _asset(name: str) -> Asset:
    body = files("gatepost.web").joinpath("static", name).read_bytes()
    digest = hashlib.sha256(body).hexdigest()[:16]
    return Asset(f"/static/{digest}/{name}", body, ASSET_NAMES[name])
