"""Style, script and icon: read once, addressed by what is in them, and so kept by browsers for good."""

import hashlib
from collections.abc import Mapping
from importlib.resources import files

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gatepost.api.errors import NOT_FOUND, Failure

NAMES = {"gatepost.css": "text/css", "gatepost.js": "text/javascript", "icon.svg": "image/svg+xml"}
HEADERS = {
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
        self._by_path = {asset.path: asset for asset in map(_asset, NAMES)}
        self.paths: Mapping[str, str] = {path.rpartition("/")[2]: path for path in self._by_path}

    async def serve(self, request: Request) -> Response | Failure:
        """One asset; an address of an older version leads nowhere."""
        asset = self._by_path.get(request.url.path)
        if asset is None:
            return Failure(NOT_FOUND, "there is nothing at this path")
        return Response(asset.body, 200, HEADERS, asset.media_type)


def _asset(name: str) -> Asset:
    body = files("gatepost.abby.web").joinpath("static", name).read_bytes()
    digest = hashlib.sha256(body).hexdigest()[:16]
    return Asset(f"/static/{digest}/{name}", body, NAMES[name])
