"""What of a message could go into a list: each leads to the form of that list with the entry filled in.

The form shows what the entry would have done to the last messages before it is saved, so nothing is blocked by one
careless click.
"""

from collections.abc import Iterator
from urllib.parse import urlencode

import msgspec

from gatepost.abby.web.visit import GLOBAL
from gatepost.analysis import Report
from gatepost.lists.subjects import Role
from gatepost.lists.url import split

MAX_OF_A_ROLE = 8


class EntryLink(msgspec.Struct, frozen=True):
    """One entry, what it is, and where it can be blocked or allowed."""

    what: str
    entry: str
    block: str
    allow: str


def entry_links(report: Report, scope: str | None) -> list[EntryLink]:
    """Sender, its domain, host, link hosts and files, each once."""
    found: dict[tuple[str, str], EntryLink] = {}
    for what, entry, lists in _candidates(report):
        block, allow = (_path(scope, name, entry) for name in lists)
        found.setdefault((what, entry), EntryLink(what, entry, block, allow))
    return list(found.values())


def _candidates(report: Report) -> Iterator[tuple[str, str, tuple[str, str]]]:
    senders = ("blocked-senders", "allowed-senders")
    roles: tuple[Role, ...] = ("from", "envelope")
    for role in roles:
        for address in _values(report, role):
            yield "sender", address, senders
            if domain := address.rpartition("@")[2]:
                yield "sender's domain", domain, senders
    for host in _values(report, "host"):
        yield "sending host", host, ("blocked-ips", "allowed-ips")
    for link in _values(report, "link"):
        if parts := split(link):
            yield "host of a link", parts[0], ("blocked-urls", "allowed-urls")
    for digest in _values(report, "file"):
        yield "file", digest, ("blocked-files", "allowed-files")


def _values(report: Report, role: Role) -> list[str]:
    return [subject.value for subject in report.subjects if subject.role == role][:MAX_OF_A_ROLE]


def _path(scope: str | None, name: str, entry: str) -> str:
    return f"/lists/{scope or GLOBAL}/{name}?{urlencode({'add': entry}, errors='replace')}#add"
