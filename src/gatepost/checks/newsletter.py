"""Mail that says itself it went to many: lists and newsletters (RFC 2369, RFC 2919, RFC 8058).

This is no fault. It names the mail `bulk`, which is delivered; only together with bad signs does it matter.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

NEWSLETTER = Kind("bulk:unsubscribe", "The mail offers a way to unsubscribe: it went to many")
DISCUSSION = Kind("bulk:discussion-list", "The mail came through a discussion list")
KINDS = (NEWSLETTER, DISCUSSION)


def check(reading: Reading) -> Iterator[Finding]:
    headers = reading.message.headers
    if (post := headers.first("list-post")) and post.strip().lower() != "no":
        yield DISCUSSION.at("List-Post", list=headers.first("list-id") or "")
    elif unsubscribe := headers.first("list-unsubscribe"):
        one_click = headers.first("list-unsubscribe-post") is not None
        yield NEWSLETTER.at("List-Unsubscribe", target=unsubscribe, one_click="yes" if one_click else "no")
