"""How a message is described in few words: its headline, its sender as the reader sees it, its marks, and the entries
of lists that can be made from it.

Lists of messages and the page of one message use the same words. Model internals and the numbers of parts are not among
them; the ledger has them.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import msgspec

from gatepost.analysis.report import FileSeen, Line, Report
from gatepost.lists.catalogue import BY_NAME
from gatepost.lists.entries import Role
from gatepost.lists.links import split_url
from gatepost.policy.rules import Policy, collect_titles
from gatepost.store.message_records import MessageRecord
from gatepost.store.quarantine import HeldMessage
from gatepost.store.search_conditions import shape_of

# The tag of a finding of a list is this and the name of the list.
LIST = "list:"
MAX_REASONS = 6
MAX_HOSTS = 50
# How a decision is said.
DONE = {"deliver": "delivered", "quarantine": "held", "bounce": "bounced", "drop": "dropped"}
_DECISIONS = {"quarantine": "Held", "deliver": "Delivered", "bounce": "Bounced", "drop": "Dropped"}
_ACTIONS = {
    "tag": "Tagged and delivered",
    "redirect": "Redirected",
    "copy": "Delivered and copied",
    "strip": "Stripped of attachments and delivered",
}


def name_tag(tag: str, policy: Policy) -> str:
    """Return what a tag means, as people read it: the title of its kind, the name of its list, or the tag itself."""
    if tag.startswith(LIST):
        return f"An entry of “{_list_name(tag.removeprefix(LIST))}”"
    return collect_titles(policy).get(tag, tag)


def _list_name(name: str) -> str:
    return BY_NAME[name].display_name if name in BY_NAME else name


def _title_of(line: Line) -> str:
    """Return the title of a finding; a list has the name that its page has."""
    name = line.kind.removeprefix(LIST)
    is_list = line.kind.startswith(LIST) and name in BY_NAME
    return f"An entry of “{_list_name(name)}” matches" if is_list else line.title


def strongest_lines(report: Report) -> list[Line]:
    """Return the lines that led to the verdict, each kind once: those that point to it first, then by points."""
    counted = (line for line in report.lines if line.counted > 0 or line.conclusive)
    ordered = sorted(counted, key=lambda line: (line.verdict != report.verdict, not line.conclusive, -line.counted))
    each: dict[str, Line] = {}
    for line in ordered:
        each.setdefault(line.kind, msgspec.structs.replace(line, title=_title_of(line)))
    return list(each.values())[:MAX_REASONS]


def short_reason(report: Report) -> str:
    """Return the reason of the verdict in one line: the strongest findings, or the sentence of the report."""
    titles = [line.title for line in strongest_lines(report) if line.verdict == report.verdict][:2]
    return "; ".join(titles) or report.reason


def headline(report: Report) -> str:
    """Return what happened to a message and why, as a help desk would say it."""
    done = _DECISIONS.get(report.decision, "Not decided")
    if report.action is not None and not report.action.failed:
        done = _ACTIONS[report.action.name]
    titles = [line.title for line in strongest_lines(report) if line.verdict == report.verdict][:2]
    if not titles:
        return f"{done} as {report.verdict}: {report.reason}"
    reasons = " and ".join(_lower_first(title) for title in titles)
    return f"{done} as {report.verdict}: {reasons}"


def _lower_first(title: str) -> str:
    """Return a title within a sentence; a word in capitals, such as a name of a standard, stays."""
    first = title.partition(" ")[0]
    return title if len(first) > 1 and not first[1:].islower() else title[:1].lower() + title[1:]


class HostLinks(msgspec.Struct, frozen=True):
    """The links of a message to one host."""

    host: str
    links: tuple[str, ...]

    @property
    def defanged(self) -> str:
        """The host as it can be passed on without becoming a link."""
        return self.host.replace(".", "[.]")


def links_by_host(report: Report) -> list[HostLinks]:
    """Return the links of a message grouped by their hosts, those with most links first."""
    grouped: dict[str, dict[str, None]] = {}
    for subject in report.subjects:
        if subject.role == "link":
            parts = split_url(subject.value)
            grouped.setdefault(parts[0] if parts else "", {})[subject.value] = None
    groups = [HostLinks(host, tuple(links)) for host, links in grouped.items()]
    return sorted(groups, key=lambda group: -len(group.links))[:MAX_HOSTS]


def defang(url: str) -> str:
    """Return a link as it can be passed on without becoming a link: `hxxps://evil[.]example/x`."""
    scheme, found, rest = url.partition("://")
    if not found:
        return url.replace(".", "[.]")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower().replace('tt', 'xx', 1)}://{host.replace('.', '[.]')}{slash}{path}"


def attachments(report: Report) -> list[str]:
    """Return the names of the files that are attached, not of those inside of them and not of text parts."""
    return [file.names[-1] for file in report.files if file.names and file.path.count("/") <= 1][:20]


def is_body(file: FileSeen) -> bool:
    """Is a file the text of the message, rather than something that came with it?"""
    return not file.names and "/" not in file.path and file.type in ("text", "html")


class ComparedRow(msgspec.Struct, frozen=True):
    """One thing that two messages have: what both have, and what only one of them has."""

    name: str
    both: tuple[str, ...]
    first: tuple[str, ...]
    second: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        return not self.first and not self.second


def compare_messages(one: MessageRecord, other: MessageRecord) -> list[ComparedRow]:
    """Return what two messages have in common and what not, with what a reader sees first."""
    return [
        ComparedRow(
            name,
            tuple(value for value in ours if value in theirs)[:MAX_COMPARED],
            tuple(value for value in ours if value not in theirs)[:MAX_COMPARED],
            tuple(value for value in theirs if value not in ours)[:MAX_COMPARED],
        )
        for (name, ours), (_, theirs) in zip(_list_comparable(one), _list_comparable(other), strict=True)
        if ours or theirs
    ]


MAX_COMPARED = 200


def _list_comparable(record: MessageRecord) -> list[tuple[str, list[str]]]:
    """The values of a message by what they are, each once."""
    report, envelope = record.report, record.envelope
    auth = report.authentication
    values: list[tuple[str, list[str]]] = [
        ("Subject", [report.subject]),
        ("Display name", [*report.sender_names]),
        ("From", [*report.senders]),
        ("Envelope sender", [envelope.sender]),
        ("Recipients", [*envelope.recipients]),
        ("Verdict", [report.verdict]),
        ("Decision", [report.decision]),
        ("Score", [f"{report.score / 100:g}"]),
        ("Findings", [line.title for line in report.lines]),
        ("Link hosts", [each.defanged for each in links_by_host(report)]),
        (
            "Files",
            [f"{'/'.join(each.names) or each.path} {each.sha256[:16]}" for each in report.files if not is_body(each)],
        ),
        ("Sending host", [auth.host]),
        ("HELO", [envelope.helo or ""]),
        ("SPF", [f"{auth.spf.result} {auth.spf.domain}"]),
        ("DKIM", [f"{each.result} {each.domain}" for each in auth.dkim]),
        ("DMARC", [f"{auth.dmarc.result} {auth.dmarc.domain}"]),
        ("Message-ID", [report.message_id]),
    ]
    return [(name, list(dict.fromkeys(value.strip() for value in found if value.strip()))) for name, found in values]


# How long before and after a message its copies are looked for.
COPIES_DAYS = timedelta(days=7)


def copies_path(record: MessageRecord) -> str:
    """Return the address of the search for the messages of the same campaign as this one."""
    came = datetime.fromtimestamp(record.completed / 1_000, UTC)
    period = f"after:{came - COPIES_DAYS:%Y-%m-%d} before:{came + COPIES_DAYS:%Y-%m-%d}"
    return f"/messages?{urlencode({'q': f'campaign:{record.ggrid} {period}'})}"


class MailGroup(msgspec.Struct, frozen=True):
    """Messages of one campaign, the newest first: same subject but for digits, and same first link host."""

    rows: tuple[HeldMessage, ...]

    @property
    def first(self) -> HeldMessage:
        return self.rows[0]

    @property
    def ggrids(self) -> str:
        """The ids of all messages, as one value of a form."""
        return ",".join(row.record.ggrid for row in self.rows)


def group_campaigns(rows: Sequence[HeldMessage]) -> list[MailGroup]:
    """Group held messages that belong together, in the order of their newest ones."""
    groups: dict[tuple[str, str, str], list[HeldMessage]] = {}
    for row in rows:
        report = row.record.report
        hosts = links_by_host(report)
        key = (report.verdict, shape_of(report.subject), hosts[0].host if hosts else "")
        groups.setdefault(key, []).append(row)
    return [MailGroup(tuple(group)) for group in groups.values()]


MAX_PER_ROLE = 8


class EntryLink(msgspec.Struct, frozen=True):
    """One possible list entry, what it is, and the URLs of the forms that block or allow it."""

    what: str
    entry: str
    block: str
    allow: str


def entry_links(report: Report, ggrid: str, place: str = "") -> list[EntryLink]:
    """Return links for sender, sender's domain, sending host, link hosts and files, each once; `place` is where the
    message stands (`message_search`)."""
    found: dict[tuple[str, str], EntryLink] = {}
    for what, entry, lists in entry_candidates(report):
        block, allow = (entry_form_path(ggrid, name, entry, place) for name in lists)
        found.setdefault((what, entry), EntryLink(what, entry, block, allow))
    return list(found.values())


def entry_form_path(ggrid: str, name: str, entry: str, place: str) -> str:
    """Return the URL of the form of one entry."""
    query = urlencode({"list": name, "entry": entry}, errors="replace")
    return f"/messages/{ggrid}/entry?{query}{place.replace('?', '&', 1)}"


def entry_candidates(report: Report) -> Iterator[tuple[str, str, tuple[str, str]]]:
    """Yield what lists can have of a message: what it is, the entry, and the lists that block and allow it."""
    senders = ("blocked-senders", "allowed-senders")
    roles: tuple[Role, ...] = ("from", "envelope")
    for role in roles:
        for address in _values_of_role(report, role):
            yield "sender", address, senders
            if domain := address.rpartition("@")[2]:
                yield "sender's domain", domain, senders
    for host in _values_of_role(report, "host"):
        yield "sending host", host, ("blocked-ips", "allowed-ips")
    for link in _values_of_role(report, "link"):
        if parts := split_url(link):
            yield "link host", parts[0], ("blocked-urls", "allowed-urls")
    for digest in _values_of_role(report, "file"):
        yield "file", digest, ("blocked-files", "allowed-files")


def _values_of_role(report: Report, role: Role) -> list[str]:
    return [subject.value for subject in report.subjects if subject.role == role][:MAX_PER_ROLE]
