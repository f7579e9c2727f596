"""Notices: what a page says once about the change before it ("Entries saved.").

A change is answered with a redirect and a cookie that names the notice; the next page shows it and clears the cookie.
In the address the notice would come back with every reload and bookmark. The texts are a closed set, so that nobody can
make a page say anything else, and what stands in them besides are numbers and ids.
"""

import re

import msgspec
from starlette.requests import Request
from starlette.responses import Response

NOTICE_COOKIE = "__Host-gatepost-notice"
# Long enough for a redirect over a slow line.
NOTICE_SECONDS = 60
_COOKIE = re.compile(r"[a-z-]{1,30}(?:~[0-9a-f-]{1,40}){0,3}", re.ASCII)

NOTICES = {
    "signed-out": "You are signed out.",
    "session-over": "Your session has ended; nothing was saved. Sign in again.",
    "password": "Password changed. All other sessions of this user have ended.",
    "model-withdrawn": "The model is withdrawn. All nodes follow within seconds.",
    "model-not-current": "This model did not take part any more; nothing was changed.",
    "rule-saved": "Rule saved. All nodes apply it within seconds.",
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
    "added": "Entries saved.",
    "deleted": "Deleted.",
    "changed": "Change saved.",
    "list-created": "List created. Add its first entry.",
    "list-deleted": "List and entries deleted.",
    "tenant-created": "Tenant created. Add its domains next.",
    "tenant-deleted": "Tenant deleted, with all its data.",
    "user-created": "User created.",
    "user-deleted": "User deleted.",
    "released": "Released: the next hop has accepted the message.",
    "mail-released": "{0} released: the next hop has accepted them.",
    "mail-deleted": "{0} deleted.",
    "mail-reported": "{0} reported. Thank you.",
    "mail-restored": "{0} restored.",
    "reported": "Report recorded. Thank you.",
    "none-selected": "Nothing is selected; nothing was changed.",
    "event-sent": "A test event was handed to every output. Alerts get it if they choose node.state.",
    "no-outputs": "No output of events is configured, so there is nothing to test.",
    "senders-blocked": "Senders blocked from the next message on.",
    "search-saved": "Search saved.",
    "search-deleted": "Saved search deleted.",
    "blocked": "Blocked from the next message on.",
    "allowed": "Allowed from the next message on.",
}
# Notices of changes that can be taken back: where to post to, with the last value of the cookie in it.
UNDO = {"mail-deleted": "/quarantine/work/{}/undo"}


class Notice(msgspec.Struct, frozen=True):
    """A sentence, and the path that takes the change back; "" where it cannot be."""

    text: str
    undo: str = ""


def set_notice(response: Response, notice: str, *values: object) -> Response:
    """Have the next page show a notice; the values stand in its text, the last one is what `UNDO` names."""
    content = "~".join((notice, *map(str, values)))
    assert notice in NOTICES
    assert _COOKIE.fullmatch(content)
    response.set_cookie(
        NOTICE_COOKIE, content, max_age=NOTICE_SECONDS, path="/", secure=True, httponly=True, samesite="lax"
    )
    return response


def read_notice(request: Request) -> Notice | None:
    """Return the notice that a request brings along."""
    content = request.cookies.get(NOTICE_COOKIE, "")
    word, *values = content.split("~")
    if not _COOKIE.fullmatch(content) or word not in NOTICES or len(values) < NOTICES[word].count("{"):
        return None
    undo = UNDO[word].format(values[-1]) if word in UNDO and len(values) > 1 else ""
    return Notice(NOTICES[word].format(*values), undo)


def clear_notice(response: Response) -> Response:
    """Delete the cookie, since its notice was shown."""
    response.delete_cookie(NOTICE_COOKIE, path="/", secure=True, httponly=True, samesite="lax")
    return response
