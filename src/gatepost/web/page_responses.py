"""HTTP responses of the web interface: pages, redirects with a notice, downloads, static files, and progress.

Pages have a strict content security policy: nothing is loaded from other hosts, no script or style is inline, no site
may frame a page, and browsers keep no copy. Static files are addressed by their digest, so browsers keep them for good.

A script can watch long work (`Accept: text/x-progress`): it gets percents, one on each line, then an empty line, then
the page. Without the header the same page is sent when the work is done. The work goes on if the client leaves.

A notice is what a page says once about the change before it ("Entries saved."). A change is answered with a redirect
and a cookie that names the notice; the next page shows it and clears the cookie. In the address the notice would come
back with every reload and bookmark. The texts are a closed set, so that nobody can make a page say anything else, and
what stands in them besides are numbers and ids.
"""

import hashlib
import re
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
from gatepost.web.request import put_cookie

NOTICE_COOKIE = "__Host-gatepost-notice"
# Long enough for a redirect over a slow line.
NOTICE_SECONDS = 60
_COOKIE = re.compile(r"[a-z-]{1,30}(?:~[0-9a-z-]{1,40}){0,3}", re.ASCII)

NOTICES = {
    "signed-out": "You are signed out.",
    "session-over": "Your session has ended; nothing was saved. Sign in again.",
    "password": "Password changed. All other sessions of this user have ended.",
    "model-withdrawn": "The model is withdrawn. All nodes follow within seconds.",
    "model-not-current": "This model did not take part any more; nothing was changed.",
    "rule-saved": "Rule saved. All nodes apply it within seconds.",
    "rule-saved-changes": "Rule saved. With it, the message that it was made from would have been {0}.",
    "rule-saved-same": "Rule saved. It holds for the message that it was made from, which would still have been {0}."
    " Try the rule with more points or an action to see what would change that.",
    "rule-saved-idle": "Rule saved, but its condition does not count for the message that it was made from, which would"
    " still have been {0}. Try the rule to see which messages it holds for.",
    "rule-on": "Rule switched on. All nodes apply it within seconds.",
    "rule-off": "Rule switched off. All nodes follow within seconds.",
    "rule-deleted": "Rule deleted. All nodes follow within seconds.",
    "rules-changed": "The rules were changed meanwhile; nothing was saved. Look at them and try again.",
    "feed-saved": "Feed saved. It runs when it is due.",
    "feed-paused": "Feed paused. Its entries stay.",
    "feed-resumed": "Feed resumed.",
    "feed-deleted": "Feed deleted. Its entries stay; gatepost feeds clear deletes them.",
    "feed-requested": "The feed runs within seconds. Reload this page to see what came of it.",
    "feeds-changed": "The feed was changed meanwhile; nothing was saved. Look at it and try again.",
    "draft-saved": "Draft saved. Nothing changes before it is published.",
    "draft-same": "Nothing differs from what is in force, so there is no draft.",
    "draft-empty": "The draft changed nothing any more and is gone.",
    "draft-discarded": "Draft discarded.",
    "draft-changed": "The draft or the running version was changed meanwhile; nothing was done. Look at it again.",
    "published": "Published. The nodes take it over one after the other.",
    "rolled-back": "The earlier version is published again. The nodes take it over one after the other.",
    "token-revoked": "Token revoked with a new version. It works no more once the nodes have taken that over.",
    "item-dismissed": "Item dismissed.",
    "alert-saved": "Alert saved. All nodes follow within seconds.",
    "alert-deleted": "Alert deleted.",
    "digests-saved": "Preferences saved.",
    "digests-changed": "The preferences were changed meanwhile; nothing was saved. Look at them and try again.",
    "entries-removed": "{0} entries removed.",
    "requests-granted": "{0} granted.",
    "requests-denied": "{0} denied.",
    "session-ended": "Session ended.",
    "sessions-ended": "All other sessions ended.",
    "recovery-code": "You signed in with a recovery code, and {0} are left. Set up a second factor anew under Account.",
    "totp-off": "The authenticator app is off. All other sessions of this user have ended.",
    "key-added": "Security key added. All other sessions of this user have ended.",
    "key-removed": "Security key removed. All other sessions of this user have ended.",
    "zone": "Time zone saved.",
    "key-revoked": "Key revoked. It no longer works.",
    "added": "Entries saved: {0}. They count from the next message on.",
    "deleted": "Entries deleted: {0}.",
    "changed": "Change saved.",
    "entry-saved": "Change saved. Entries changed: {0}.",
    "change-undone": "Taken back. Entries restored or removed: {0}.",
    "change-undone-in-part": "Taken back. Entries restored or removed: {0}; changed meanwhile, so left: {1}.",
    "list-created": "List created. Add its first entry.",
    "list-deleted": "List and entries deleted.",
    "tenant-created": "Tenant created. Add its domains next.",
    "tenant-deleted": "Tenant deleted, with all its data.",
    "user-deleted": "User deleted.",
    "released": "Released: the next hop has accepted the message.",
    "mail-released": "{0} released: the next hop has accepted them.",
    "mail-deleted": "{0} deleted.",
    "mail-reported": "{0} reported. Thank you.",
    "mail-unreported": "Report of {0} taken back: what was said before holds again.",
    "mail-restored": "{0} restored.",
    "mail-removed": "{0} taken out of mailboxes.",
    "mail-put-back": "{0} put back into mailboxes.",
    "mail-noted": "Note written on {0}.",
    "mail-written-back": "Taken back for {0}.",
    "none-held": "None of these messages is held; nothing was changed.",
    "two-needed": "Select exactly two messages to compare them.",
    "none-selected": "Nothing is selected; nothing was changed.",
    "event-sent": "A test event was handed to every output. Alerts get it if they choose node.state.",
    "no-outputs": "No output of events is configured, so there is nothing to test.",
    "blocked": "Entries saved: {0}. They count from the next message on.",
    "search-saved": "Search saved.",
    "search-deleted": "Saved search deleted.",
    "entry-changes": "Saved. With this entry, this message would have been {0}.",
    "entry-already": "Saved. This message would be {0} without the entry as well; the entry counts for mail to come.",
    "entry-unproven": "Saved, but this message would still be {0}: SPF, DKIM and DMARC do not prove its sender.",
    "entry-idle": "Saved, but this message would still be {0}: the entry does not change the decision on it.",
}
# Notices of changes that can be taken back: where to post to, with the last value of the cookie in it.
UNDO = {
    **dict.fromkeys(("mail-deleted", "mail-removed", "mail-reported", "mail-noted"), "/quarantine/work/{}/undo"),
    **dict.fromkeys(("added", "deleted", "entry-saved", "blocked"), "/list-changes/{}/undo"),
}


class Notice(msgspec.Struct, frozen=True):
    """A sentence, and the path that takes the change back; "" where it cannot be."""

    text: str
    undo: str = ""


def set_notice(response: Response, notice: str, *values: object) -> Response:
    """Have the next page show a notice; the values stand in its text, the last one is what `UNDO` names."""
    content = "~".join((notice, *map(str, values)))
    assert notice in NOTICES
    assert _COOKIE.fullmatch(content)
    return put_cookie(response, NOTICE_COOKIE, content, NOTICE_SECONDS)


def read_notice(request: Request) -> Notice | None:
    content = request.cookies.get(NOTICE_COOKIE, "")
    word, *values = content.split("~")
    if not _COOKIE.fullmatch(content) or word not in NOTICES or len(values) < NOTICES[word].count("{"):
        return None
    undo = UNDO[word].format(values[-1]) if word in UNDO and len(values) > 1 else ""
    return Notice(NOTICES[word].format(*values), undo)


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


# A page of ours that shows the HTML of a message, in a frame of its own.
FRAMING = CONTENT_SECURITY.replace("form-action", "frame-src 'self'; form-action", 1)
# That frame: it runs nothing, asks for nothing, leads nowhere, and has no rights of ours wherever it is opened.
MAIL_SECURITY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'"
)


def html_response(body: str, status: int = 200) -> Response:
    return Response(body.encode("utf-8", "replace"), status, PAGE_HEADERS, "text/html")


def mail_response(document: str) -> Response:
    """The HTML of a message, written anew, for a frame of a page of ours."""
    headers = {
        **PAGE_HEADERS,
        "Content-Security-Policy": MAIL_SECURITY,
        "X-Frame-Options": "SAMEORIGIN",
        "Referrer-Policy": "no-referrer",
        "X-DNS-Prefetch-Control": "off",
    }
    return Response(document.encode("utf-8", "replace"), 200, headers, "text/html")


def with_status(page: Response, status: int) -> Response:
    """Return a page with another status, such as 409 for a form that is shown again."""
    page.status_code = status
    return page


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
    "icons.svg": "image/svg+xml",
}
ASSET_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Assets:
    """All static files with their media types, by the path with the digest in it."""

    def __init__(self) -> None:
        self._by_path: dict[str, tuple[bytes, str]] = {}
        for name, media_type in ASSET_NAMES.items():
            body = files("gatepost.web").joinpath("static", name).read_bytes()
            self._by_path[f"/static/{hashlib.sha256(body).hexdigest()[:16]}/{name}"] = body, media_type
        self.paths: Mapping[str, str] = {path.rpartition("/")[2]: path for path in self._by_path}

    async def serve(self, request: Request) -> Response | Failure:
        """Serve one static file; the path of an older version is not found."""
        found = self._by_path.get(request.url.path)
        if found is None:
            return Failure(NOT_FOUND, "there is nothing at this path")
        return Response(found[0], 200, ASSET_HEADERS, found[1])


PROGRESS = "text/x-progress"

ReportProgress: TypeAlias = Callable[[int], Awaitable[None]]


def is_progress_wanted(request: Request) -> bool:
    """Does the script of the pages ask, which can show progress?"""
    return PROGRESS in request.headers.get("accept", "")


async def ignore_progress(_percent: int) -> None:
    """The default for work without a watcher: do nothing."""


class ProgressResponse(Response):
    """A response whose page is made while it is sent, too late for its status. `resources` are closed when the work is
    done."""

    def __init__(self, work: Callable[[ReportProgress], Awaitable[tuple[str, int]]]) -> None:
        super().__init__(headers=PAGE_HEADERS, media_type=PROGRESS)
        del self.headers["content-length"]
        self._work = work
        self.resources = ExitStack()

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        with self.resources:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

            async def report_progress(percent: int) -> None:
                await send({"type": "http.response.body", "body": b"%d\n" % percent, "more_body": True})

            page, _ = await self._work(report_progress)
            await send({"type": "http.response.body", "body": b"\n" + page.encode("utf-8", "replace")})
