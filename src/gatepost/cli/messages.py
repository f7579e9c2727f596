"""`gatepost messages`: search results and held mail over the API, show, read, release, delete and report them;
`gatepost trace` says where a message is.

The commands are clients of the Email Scanning API, so they also work from another machine; `gatepost quarantine` and
`gatepost trace` work on the storage of this machine and need no token.
"""

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from gatepost.cli.api_client import MessageService
from gatepost.cli.commands import Argument, BadParameter, Group, Option, Options
from gatepost.cli.deployment import (
    Deployment,
    GgridArgument,
    MailOwnerOption,
    YesOption,
    parse_moment,
    parse_tenant_uid,
    render_time,
)
from gatepost.cli.printing import Output, ProgressBar, escape, print_json, print_table, render_count, render_people
from gatepost.ids import canonical
from gatepost.times import DAY, now

if TYPE_CHECKING:
    from gatepost.api.messages import ActionResult, FoundHeldMessage, FoundMessage, MessageText, Timeline
    from gatepost.store.store import Store

group = Group("Search and read messages, and release or delete held mail, over the API.")

GgridsArgument = Annotated[
    list[str], Argument(metavar="GGRID", help="The ids of the messages, or - for standard input.")
]
RecipientOption = Annotated[str | None, Option(help="Envelope recipient: an address or a domain.")]
# How far back `gatepost trace` looks: no mail server tries for longer.
TRACED_DAYS = 7
ASK_BEFORE = "Ask the mail server before us: its log has the Message-ID, and postqueue -p shows what waits there."


class SearchFilters(Options, frozen=True):
    """What messages are searched by, as the API names it."""

    tenant: MailOwnerOption = None
    since: Annotated[str | None, Option(metavar="DATE", help="Only mail since then.")] = None
    until: Annotated[str | None, Option(metavar="DATE", help="Only mail up to then.")] = None
    sender: Annotated[str | None, Option(help="Envelope sender: an address or a domain.")] = None
    recipient: RecipientOption = None
    subject: Annotated[str | None, Option(help="Words that must all occur in the subject.")] = None
    verdict: Annotated[str | None, Option(help="Only with this verdict.")] = None
    decision: Annotated[str | None, Option(help="Only with this decision.")] = None
    tag: Annotated[str | None, Option(help="Only with this tag.")] = None
    remote_address: Annotated[str | None, Option(metavar="IP", help="Address of the sending host.")] = None
    link_host: Annotated[str | None, Option(metavar="HOST", help="Host of a link, or a name above it.")] = None
    file_name: Annotated[str | None, Option(metavar="NAME", help="Whole name of a file.")] = None
    file_hash: Annotated[str | None, Option(metavar="SHA256", help="Hash of a file.")] = None
    message_id: Annotated[str | None, Option(metavar="ID", help="The Message-ID.")] = None


@group.command("search")
def search(
    query: Annotated[
        str | None,
        Argument(metavar="QUERY", help="As in the web interface: 'from:evil.example (verdict:phishing OR score>8)'."),
    ] = None,
    *,
    filters: SearchFilters,
    held: Annotated[bool, Option("--held", help="Search held mail.")] = False,
    released: Annotated[bool, Option("--released", help="Search released mail.")] = False,
    limit: Annotated[int, Option(least=1, most=1_000_000, help="Maximum number of messages.")] = 100,
    service: MessageService,
    output: Output,
) -> None:
    """Print results, or held mail with --held, newest first. The token needs the permission messages.search."""
    stated = msgspec.structs.asdict(filters) | {"released": released or None, "query": query}
    stated["tenant_uid"] = parse_tenant_uid(stated.pop("tenant"))
    stated["since"] = render_time(parse_moment(filters.since, "--since")) or None
    stated["until"] = render_time(parse_moment(filters.until, "--until", end=True)) or None
    stated = {name: value for name, value in stated.items() if value is not None}
    if (held or released) and (filters.decision or filters.tag):
        raise BadParameter("--decision and --tag are not possible with --held and --released")
    with service.connect() as client:
        found: list[FoundMessage | FoundHeldMessage] = []
        found += islice(client.held_messages(**stated) if held or released else client.messages(**stated), limit)
    if output.json:
        _print_answer(found)
        return
    print_table(("ggrid", "time", "verdict", "state", "from", "to", "subject"), list(map(_render_found, found)))
    if len(found) == limit:
        print(f"The first {limit:,} are shown; use --limit for more.")


def _print_answer(value: object) -> None:
    from gatepost.api.scanning import encode_scanning

    print(msgspec.json.format(encode_scanning(value)).decode())


def _render_found(each: "FoundMessage | FoundHeldMessage") -> tuple[str, ...]:
    from gatepost.api.messages import FoundMessage

    time, state = (each.completed, each.decision) if isinstance(each, FoundMessage) else (each.held_since, each.state)
    people = render_people(each.envelope_recipients)
    return each.ggrid, time, each.verdict, state, each.envelope_from, people, each.subject


@group.command("show")
def show(ggrid: GgridArgument, *, service: MessageService, output: Output) -> None:
    """Print one result with its ledger. The token needs the permission messages.read."""
    from gatepost.cli import ledger

    with service.connect() as client:
        found = client.message(ggrid)
    if output.json:
        _print_answer(found)
    else:
        ledger.show_ledger(found.ggrid, found)


def trace(
    wanted: Annotated[
        str, Argument(metavar="MESSAGE-ID|GGRID", help="Or a queue id, here or at the next hop, or an address.")
    ],
    *,
    recipient: RecipientOption = None,
    since: Annotated[
        str | None, Option(metavar="DATE", help=f"Only mail since then; by default of the last {TRACED_DAYS} days.")
    ] = None,
    tenant: MailOwnerOption = None,
    limit: Annotated[int, Option(least=1, most=100, help="Maximum number of messages, the newest.")] = 20,
    place: Deployment,
    output: Output,
) -> None:
    """Print where a message is: its way over all nodes, to the next hop, the quarantine and mailboxes.

    One Message-ID can have many ways: several recipients, nodes and attempts. The oldest comes first.
    """
    begin = parse_moment(since, "--since") or now() - TRACED_DAYS * DAY
    owner, ggrid = parse_tenant_uid(tenant), canonical(wanted)

    async def find(store: "Store") -> "tuple[list[Timeline], bool]":
        from gatepost.abby.messages import describe_timeline
        from gatepost.store.search_conditions import MessageFilter

        ggrids, cursor = [ggrid] if ggrid else list[str](), None if ggrid else ""
        asked = MessageFilter(owner, anywhere=wanted, recipient=recipient, since=begin)
        while cursor is not None and len(ggrids) < limit:
            page = await store.messages.search(asked, cursor or None, limit)
            ggrids, cursor = ggrids + [row.ggrid for row in page.rows], page.next
        ways = [await store.messages.timeline(each, owner) for each in reversed(ggrids[:limit])]
        return [describe_timeline(way) for way in ways if way], cursor is not None or len(ggrids) > limit

    found, is_cut = place.with_store(find, any_node=True)
    if output.json:
        _print_answer(found)
    else:
        _print_ways(found)
        if is_cut:
            print(f"The newest {limit:,} are shown; use --limit for more.")
        if not found:
            print(f"No node knows this message{'' if ggrid else f' since {render_time(begin)}'}. {ASK_BEFORE}")
    if not found:
        raise SystemExit(1)


def _print_ways(found: "Sequence[Timeline]") -> None:
    shown = {each.ggrid for each in found}
    for each in found:
        sender, people = escape(each.envelope_from), escape(render_people(each.envelope_recipients))
        print(f"{each.ggrid}  {escape(each.subject) or '(no subject)'}")
        print(f"  from {sender or '(empty: a bounce)'} to {people}")
        lines = [
            (step.time, step.node, step.event, f"{step.text} ({step.ggrid})" if step.ggrid else step.text)
            for step in each.steps
            if step.ggrid not in shown  # an attempt that has a table of its own
        ]
        print_table(("time", "node", "event", "what happened"), lines, indent="  ")
        if each.is_cut:
            print("  There may be more attempts or actions than these.")
        print()


@group.command("text")
def text(ggrid: GgridArgument, *, service: MessageService, output: Output) -> None:
    """Print a held message as plain text in which nothing acts. The token needs the permission messages.read."""
    with service.connect() as client:
        found = client.message_text(ggrid)
    output.show(found, "\n".join(_render_text(found)))


def _render_text(found: "MessageText") -> list[str]:
    lines = [f"{escape(field.name)}: {escape(field.value)}" for field in found.headers]
    for passage in found.passages:
        lines += ["", f"-- part {escape(passage.where)}", escape(passage.visible, lines=True)]
        if passage.hidden:
            lines += ["-- not visible to the reader", escape(passage.hidden, lines=True)]
    if found.links:
        lines += ["", "-- links", *(f"{escape(link.shown)} -> {escape(link.target)}" for link in found.links)]
    if found.left_out:
        lines += ["", "-- not shown", *(escape(note) for note in found.left_out)]
    return lines


@group.command("release")
def release(ggrids: GgridsArgument, *, tenant: MailOwnerOption = None, service: MessageService, output: Output) -> None:
    """Send held messages to the next hop, each once. The token needs the permission messages.release."""
    _act("release", ggrids, tenant, service, output)


@group.command("delete")
def delete(
    ggrids: GgridsArgument,
    *,
    tenant: MailOwnerOption = None,
    yes: YesOption = False,
    service: MessageService,
    output: Output,
) -> None:
    """Delete held messages permanently; results stay on record. The token needs the permission messages.delete."""
    _act("delete", ggrids, tenant, service, output, yes=yes)


@group.command("report")
def report(
    ggrid: GgridArgument,
    *,
    should_have_been: Annotated[
        Literal["delivered", "held"], Option("--should-have-been", help="What the decision should have been.")
    ],
    message: Annotated[
        Path | None,
        Option(metavar="FILE", help="Send this file, the message, with the report, so that models learn from it."),
    ] = None,
    tenant: MailOwnerOption = None,
    service: MessageService,
    output: Output,
) -> None:
    """Report that a decision was wrong: near-copies are judged by it on all nodes within seconds, and models learn it.

    With --tenant it counts for mail of that tenant, else for all. The token needs the permission messages.report.
    """
    (wanted,) = _read_ggrids([ggrid])
    with service.connect() as client:
        raw = message.read_bytes() if message else None
        done = client.report(wanted, should_have_been, tenant=parse_tenant_uid(tenant), message=raw)
    learns = "models learn from it" if done.learns else "models do not learn from it"
    output.show(done, f"{done.ggrid}: reported; it should have been {done.should_have_been}; {learns}")


def _act(
    action: str, ggrids: list[str], tenant: str | None, service: MessageService, output: Output, *, yes: bool = True
) -> None:
    """Release or delete messages in calls of 100, with a progress bar; exit with 1 if one failed."""
    from gatepost.api.messages import MAX_ACTIONS

    wanted = _read_ggrids(ggrids)
    owner, results = parse_tenant_uid(tenant), list["ActionResult"]()
    if action == "delete":
        service.announce(
            f"Deletes {render_count(len(wanted), 'held message', 'held messages')} for good at",
            yes=yes or "-" in ggrids,
        )
    with service.connect() as client, ProgressBar(action) as progress:
        call = client.release_messages if action == "release" else client.delete_messages
        for at in range(0, len(wanted), MAX_ACTIONS):
            done = call(wanted[at : at + MAX_ACTIONS], tenant=owner)
            progress.hide()
            results += done
            for each in () if output.json else done:
                print(f"{each.ggrid}: {each.outcome}" + (f": {escape(each.message)}" if each.message else ""))
            progress.update(at + len(done), len(wanted))
    if output.json:
        print_json(results)
    if any(each.outcome == "failed" for each in results):
        raise SystemExit(1)


def _read_ggrids(stated: list[str]) -> list[str]:
    """Return the ids in lower case, each once; `-` stands for those on standard input, one on a line."""
    words = [word for each in stated for word in (sys.stdin.read().split() if each == "-" else [each])]
    for word in words:
        if canonical(word) is None:
            raise BadParameter(f"{word[:100]!r} is not the id of a message", "GGRID")
    return list(dict.fromkeys(word.lower() for word in words))
