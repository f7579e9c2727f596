"""What pages answer with: HTML under a strict content-security policy, redirects after a change, and small files.

Nothing is loaded from elsewhere, no script or style stands inside a page, nobody may frame it, and no copy is kept of
what is shown to a person who is signed in.
"""

from urllib.parse import quote

from starlette.responses import Response

CONTENT_SECURITY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
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


def html(body: str, status: int = 200) -> Response:
    """A page."""
    return Response(body.encode("utf-8", "replace"), status, HEADERS, "text/html")


def see(path: str) -> Response:
    """After a change the browser asks for another page, so that going back sends nothing twice (RFC 9110 15.4.4)."""
    return Response(status_code=303, headers={**HEADERS, "Location": quote(path, safe="/?&=%+#:@,-_.~")})


def download(body: bytes, name: str, media_type: str) -> Response:
    """A file that the browser saves and never shows. The name is ours, so it needs no escaping."""
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(body, 200, headers, media_type)


def image(png: bytes) -> Response:
    """A picture that we drew."""
    return Response(png, 200, {**HEADERS, "Content-Security-Policy": "default-src 'none'; sandbox"}, "image/png")
