"""HTTP responses of the web interface: pages, redirects after a change, downloads, static files, and progress.

Pages have a strict content security policy: nothing is loaded from other hosts, no script or style is inline, no site
may frame a page, and browsers keep no copy. Static files are addressed by their digest, so browsers keep them for good.

A script can watch long work (`Accept: text/x-progress`): it gets percents, one on each line, then an empty line, then
the page. Without the header the same page is sent when the work is done. The work goes on if the client leaves.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from importlib.resources import files
from typing import TypeAlias
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gatepost.api.errors import NOT_FOUND, Failure
from gatepost.web.notices import set_notice

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
    """An HTML page."""
    return Response(body.encode("utf-8", "replace"), status, PAGE_HEADERS, "text/html")


def json_response(value: object) -> Response:
    """Data for a script of our own pages."""
    return Response(msgspec.json.encode(value), 200, PAGE_HEADERS, "application/json")


def redirect(path: str, *values: object, notice: str = "") -> Response:
    """After a change the browser asks for another page, so that going back sends nothing twice (RFC 9110 15.4.4). That
    page shows the notice, with the values in it."""
    response = Response(status_code=303, headers={**PAGE_HEADERS, "Location": quote(path, safe="/?&=%+#:@,-_.~")})
    return set_notice(response, notice, *values) if notice else response


def download_response(body: bytes, name: str, media_type: str) -> Response:
    """A file that the browser saves and never shows. The name is not taken from mail, so it needs no escaping."""
    headers = {**PAGE_HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(body, 200, headers, media_type)


def image_response(png: bytes) -> Response:
    """A picture that was drawn anew from one in a message."""
    return Response(png, 200, {**PAGE_HEADERS, "Content-Security-Policy": "default-src 'none'; sandbox"}, "image/png")


ASSET_NAMES = {
    "gatepost.css": "text/css",
    "gatepost.js": "text/javascript",
    "security-keys.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
ASSET_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Asset(msgspec.Struct, frozen=True):
    """One static file, and the path that it is served at."""

    path: str
    body: bytes
    media_type: str


class Assets:
    """All static files, by the path with the digest in it."""

    def __init__(self) -> None:
        self._by_path = {asset.path: asset for asset in map(_read_asset, ASSET_NAMES)}
        self.paths: Mapping[str, str] = {path.rpartition("/")[2]: path for path in self._by_path}

    async def serve(self, request: Request) -> Response | Failure:
        """Serve one static file; the path of an older version is not found."""
        asset = self._by_path.get(request.url.path)
        if asset is None:
            return Failure(NOT_FOUND, "there is nothing at this path")
        return Response(asset.body, 200, ASSET_HEADERS, asset.media_type)


def _read_asset(name: str) -> Asset:
    body = files("gatepost.web").joinpath("static", name).read_bytes()
    digest = hashlib.sha256(body).hexdigest()[:16]
    return Asset(f"/static/{digest}/{name}", body, ASSET_NAMES[name])


PROGRESS = "text/x-progress"

ReportProgress: TypeAlias = Callable[[int], Awaitable[None]]


def is_progress_wanted(request: Request) -> bool:
    """Does the script of the pages ask, which can show progress?"""
    return PROGRESS in request.headers.get("accept", "")


async def ignore_progress(_percent: int) -> None:
    """The default for work without a watcher: do nothing."""


class ProgressResponse(Response):
    """A response whose page is made while it is sent. `resources` are closed when the work is done."""

    def __init__(self, work: Callable[[ReportProgress], Awaitable[str]]) -> None:
        super().__init__(headers=PAGE_HEADERS, media_type=PROGRESS)
        del self.headers["content-length"]
        self._work = work
        self.resources = ExitStack()

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        with self.resources:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

            async def report_progress(percent: int) -> None:
                await send({"type": "http.response.body", "body": b"%d\n" % percent, "more_body": True})

            page = await self._work(report_progress)
            await send({"type": "http.response.body", "body": b"\n" + page.encode("utf-8", "replace")})
