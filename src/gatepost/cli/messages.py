"""`gatepost messages`: search results and held mail over the API, show, read, release, delete and report them.

The commands are clients of the Email Scanning API, so they also work from another machine; `gatepost quarantine` works
on the storage of this machine and needs no token.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from gatepost.cli.api_client import CaOption, MessageService, NoVerifyOption, TokenOption, UrlOption
from gatepost.cli.options import ConfigOption, DataOption, JsonOption, parse_moment, parse_tenant_uid

if TYPE_CHECKING:
    from gatepost.api.messages import ActionResult, FoundHeldMessage, FoundMessage, MessageText, Timeline

app = typer.Typer(help="Messages on record and held mail, over the API.", no_args_is_help=True)

GgridArgument = Annotated[str, typer.Argument(metavar="GGRID", help="The id of the message.")]
GgridsArgument = Annotated[
    list[str], typer.Argument(metavar="GGRID…", help="The ids of the messages, or - for standard input.")
]
TenantOption = Annotated[str | None, typer.Option("--tenant", metavar="UID", help="Only mail of this tenant.")]


@app.command("search")
def search(
    tenant: TenantOption = None,
    since: Annotated[str | None, typer.Option(metavar="DATE", help="Only mail since then.")] = None,
    until: Annotated[str | None, typer.Option(metavar="DATE", help="Only mail up to then.")] = None,
    sender: Annotated[str | None, typer.Option(help="Envelope sender: an address or a domain.")] = None,
    recipient: Annotated[str | None, typer.Option(help="Envelope recipient: an address or a domain.")] = None,
    subject: Annotated[str | None, typer.Option(help="Words that must all occur in the subject.")] = None,
    verdict: Annotated[str | None, typer.Option(help="Only with this verdict.")] = None,
    decision: Annotated[str | None, typer.Option(help="Only with this decision.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only with this tag.")] = None,
    remote_address: Annotated[str | None, typer.Option(metavar="IP", help="Address of the sending host.")] = None,
    link_host: Annotated[str | None, typer.Option(metavar="HOST", help="Host of a link, or a name above it.")] = None,
    file_name: Annotated[str | None, typer.Option(metavar="NAME", help="Whole name of a file.")] = None,
    file_hash: Annotated[str | None, typer.Option(metavar="SHA256", help="Hash of a file.")] = None,
    message_id: Annotated[str | None, typer.Option(metavar="ID", help="The Message-ID.")] = None,
    held: Annotated[bool, typer.Option("--held", help="Search held mail.")] = False,
    released: Annotated[bool, typer.Option("--released", help="Search released mail.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Maximum number of messages.")] = 100,
    url: UrlOption = None,
    token_file: TokenOption = None,
    cacert: CaOption = None,
    no_verify: NoVerifyOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print results, or held mail with --held, newest first. The token needs the permission messages.search."""
    from itertools import islice

    from gatepost.cli.options import render_time

    stated = {
        "tenant_uid": parse_tenant_uid(tenant),
        "since": render_time(parse_moment(since, "--since")) or None,
        "until": render_time(parse_moment(until, "--until", end=True)) or None,
        "sender": sender,
        "recipient": recipient,
        "subject": subject,
        "verdict": verdict,
        "decision": decision,
        "tag": tag,
        "remote_address": remote_address,
        "link_host": link_host,
        "file_name": file_name,
        "file_hash": file_hash,
        "message_id": message_id,
        "released": released or None,
    }
    filters: Any = {name: value for name, value in stated.items() if value is not None}
    if (held or released) and (decision or tag):
        raise typer.BadParameter("--decision and --tag are not possible with --held and --released")
    with MessageService(url, token_file, cacert, no_verify, config, data).connect() as client:
        found: list[FoundMessage | FoundHeldMessage] = []
        found += islice(client.held_messages(**filters) if held or released else client.messages(**filters), limit)
    _print_found(found, json)
    if not json and len(found) == limit:
        print(f"The first {limit:,} are shown; use --limit for more.")


def _print_found(found: "Sequence[FoundMessage | FoundHeldMessage]", json: bool) -> None:
    from gatepost.api.messages import FoundMessage
    from gatepost.api.scanning import encode_scanning
    from gatepost.cli.printing import console, rows, table

    if json:
        print(msgspec.json.format(encode_scanning(found)).decode())
        return
    lines = [
        (
            each.ggrid,
            each.completed if isinstance(each, FoundMessage) else each.held_since,
            each.verdict,
            each.decision if isinstance(each, FoundMessage) else each.state,
            each.envelope_from,
            ", ".join(each.envelope_recipients[:3]) + (", …" if len(each.envelope_recipients) > 3 else ""),
            each.subject,
        )
        for each in found
    ]
    console().print(rows(table("ggrid", "time", "verdict", "state", "from", "to", "subject"), lines))


@app.command("show")
def show(
    ggrid: GgridArgument,
    url: UrlOption = None,
    token_file: TokenOption = None,
    cacert: CaOption = None,
    no_verify: NoVerifyOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print one result with its ledger. The token needs the permission messages.read."""
    from gatepost.api.scanning import encode_scanning
    from gatepost.cli import ledger
    from gatepost.cli.printing import console

    with MessageService(url, token_file, cacert, no_verify, config, data).connect() as client:
        found = client.message(ggrid)
    if json:
        print(msgspec.json.format(encode_scanning(found)).decode())
    else:
        ledger.show_ledger(console(), found.ggrid, found)


@app.command("track")
def track(
    wanted: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT", help="Whatever is known: ggrid, Message-ID, queue id here or at the next hop, an address."
        ),
    ] = None,
    message_id: Annotated[str | None, typer.Option(metavar="ID", help="The Message-ID.")] = None,
    queue_id: Annotated[str | None, typer.Option(metavar="ID", help="Queue id at the border MTA.")] = None,
    next_hop_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Id that the next hop gave it: `queued as …` in its reply.")
    ] = None,
    recipient: Annotated[str | None, typer.Option(help="Envelope recipient: an address or a domain.")] = None,
    sender: Annotated[str | None, typer.Option(help="Envelope sender: an address or a domain.")] = None,
    since: Annotated[str | None, typer.Option(metavar="DATE", help="Only mail since then.")] = None,
    tenant: TenantOption = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Maximum number of messages.")] = 5,
    url: UrlOption = None,
    token_file: TokenOption = None,
    cacert: CaOption = None,
    no_verify: NoVerifyOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print the way of messages over all nodes: received, analysed, held or delivered, with the next hop's replies.

    The newest come first. The token needs the permissions messages.search and messages.read.
    """
    from itertools import islice

    from gatepost.api.scanning import encode_scanning
    from gatepost.cli.options import render_time

    stated = {
        "anywhere": wanted,
        "message_id": message_id,
        "queue_id": queue_id,
        "next_hop_id": next_hop_id,
        "recipient": recipient,
        "sender": sender,
    }
    if not any(stated.values()):
        raise typer.BadParameter("say which message: a TEXT, or one of the options")
    stated |= {
        "since": render_time(parse_moment(since, "--since")) or None,
        "tenant_uid": parse_tenant_uid(tenant),
    }
    filters: Any = {name: value for name, value in stated.items() if value is not None}
    with MessageService(url, token_file, cacert, no_verify, config, data).connect() as client:
        found = [client.message_timeline(each.ggrid) for each in islice(client.messages(**filters), limit)]
    if json:
        print(msgspec.json.format(encode_scanning(found)).decode())
    else:
        _print_timelines(found)
    if not found:
        raise typer.Exit(1)


def _print_timelines(found: "Sequence[Timeline]") -> None:
    from gatepost.cli.printing import escape

    for each in found:
        recipients = ", ".join(each.envelope_recipients[:3]) + (", …" if len(each.envelope_recipients) > 3 else "")
        print(f"{each.ggrid}  {escape(each.subject) or '(no subject)'}")
        print(f"  from {escape(each.envelope_from) or '(empty: a bounce)'} to {escape(recipients)}")
        for step in each.steps:
            other = f" ({step.ggrid})" if step.ggrid else ""
            print(f"  {step.time}  {escape(step.text)}{other}")
        if each.is_cut:
            print("  There may be more attempts or actions than these.")
        print()
    if not found:
        print("No such message is on record.")


@app.command("text")
def text(
    ggrid: GgridArgument,
    url: UrlOption = None,
    token_file: TokenOption = None,
    cacert: CaOption = None,
    no_verify: NoVerifyOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print a held message as plain text in which nothing acts. The token needs the permission messages.read."""
    from gatepost.cli.printing import print_json

    with MessageService(url, token_file, cacert, no_verify, config, data).connect() as client:
        found = client.message_text(ggrid)
    if json:
        print_json(found)
    else:
        print("\n".join(_render_text(found)))


def _render_text(found: "MessageText") -> list[str]:
    from gatepost.cli.printing import escape

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


@app.command("release")
def release(
    ggrids: GgridsArgument,
    tenant: TenantOption = None,
    url: UrlOption = None,
    token_file: TokenOption = None,
    cacert: CaOption = None,
    no_verify: NoVerifyOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Send held messages to the next hop, each once. The token needs the permission messages.release."""
    _act("release", ggrids, tenant, MessageService(url, token_file, cacert, no_verify, config, data), json)


@app.command("delete")
def delete(
    ggrids: GgridsArgument,
    tenant: TenantOption = None,
    url: UrlOption = None,
    token_file: TokenOption = None,
    cacert: CaOption = None,
    no_verify: NoVerifyOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Delete held messages permanently; results stay on record. The token needs the permission messages.delete."""
    _act("delete", ggrids, tenant, MessageService(url, token_file, cacert, no_verify, config, data), json)


@app.command("report")
def report(
    ggrid: GgridArgument,
    should_have_been: Annotated[
        Literal["delivered", "held"], typer.Option("--should-have-been", help="What the decision should have been.")
    ],
    message: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Send this file, the message, with the report, so that models learn from it."
        ),
    ] = None,
    tenant: TenantOption = None,
    url: UrlOption = None,
    token_file: TokenOption = None,
    cacert: CaOption = None,
    no_verify: NoVerifyOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Report that a decision was wrong: near-copies are judged by it on all nodes within seconds, and models learn it.

    With --tenant it counts for mail of that tenant, else for all. The token needs the permission messages.report.
    """
    from gatepost.cli.printing import print_json

    (wanted,) = _read_ggrids([ggrid])
    service = MessageService(url, token_file, cacert, no_verify, config, data)
    with service.connect() as client:
        raw = message.read_bytes() if message else None
        done = client.report(wanted, should_have_been, tenant=parse_tenant_uid(tenant), message=raw)
    if json:
        print_json(done)
    else:
        learns = "models learn from it" if done.learns else "models do not learn from it"
        print(f"{done.ggrid}: reported; it should have been {done.should_have_been}; {learns}")


def _act(action: str, ggrids: list[str], tenant: str | None, service: MessageService, json: bool) -> None:
    """Release or delete messages in calls of 100, with a progress bar; exit with 1 if one failed."""
    from rich.console import Console
    from rich.progress import Progress

    from gatepost.api.messages import MAX_ACTIONS
    from gatepost.cli.printing import escape, print_json

    wanted = _read_ggrids(ggrids)
    owner, results = parse_tenant_uid(tenant), list["ActionResult"]()
    out = Console(stderr=True)
    with service.connect() as client, Progress(console=out, transient=True, disable=not out.is_terminal) as progress:
        call = client.release_messages if action == "release" else client.delete_messages
        for chunk in progress.track([wanted[at : at + MAX_ACTIONS] for at in range(0, len(wanted), MAX_ACTIONS)]):
            done = call(chunk, tenant=owner)
            results += done
            for each in () if json else done:
                print(f"{each.ggrid}: {each.outcome}" + (f": {escape(each.message)}" if each.message else ""))
    if json:
        print_json(results)
    if any(each.outcome == "failed" for each in results):
        raise typer.Exit(1)


def _read_ggrids(stated: list[str]) -> list[str]:
    """Return the ids in lower case, each once; `-` stands for those on standard input, one on a line."""
    from gatepost.ids import canonical

    words = [word for each in stated for word in (sys.stdin.read().split() if each == "-" else [each])]
    for word in words:
        if canonical(word) is None:
            raise typer.BadParameter(f"{word[:100]!r} is not the id of a message", param_hint="GGRID")
    return list(dict.fromkeys(word.lower() for word in words))
