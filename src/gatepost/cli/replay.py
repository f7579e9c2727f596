"""`gatepost replay` and `gatepost policy try`: what was decided, judged again.

Of a message that is on record, the findings are kept and the text is not: they are judged with the lists of today and
the policy that holds today for the message's tenant. A message in a file is analysed anew. A changed policy is tried on
the history before it is used: what lists said then stands, so that only the policy differs.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatepost.cli.options import ConfigOption, DataOption, JsonOption, config_folder, data_folder, with_store
from gatepost.cli.policy_files import in_force, own_uid, with_file
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.mail.message import Envelope
    from gatepost.policy.layers import Policies
    from gatepost.policy.rules import Policy
    from gatepost.questions import Answer, Question
    from gatepost.rejudge.replay import Comparison
    from gatepost.store.messages import MessageRecord
    from gatepost.store.store import Store


PolicyOption = Annotated[
    Path | None,
    typer.Option("--policy", metavar="FILE", help="A policy file to judge with, in the place of the deployment's."),
]


def replay(
    what: Annotated[str, typer.Argument(metavar="GGRID|FILE", help="A message on record, or one in a file.")],
    policy: PolicyOption = None,
    json: JsonOption = False,
    sender: Annotated[str, typer.Option("--from", metavar="ADDRESS", help="Envelope sender of a file.")] = "",
    remote_address: Annotated[str | None, typer.Option(metavar="IP", help="Address of the host that sent it.")] = None,
    tenant: Annotated[str | None, typer.Option(metavar="UID", help="Whose lists and policy hold for a file.")] = None,
    config: ConfigOption = None,
    data: DataOption = None,
) -> None:
    """Judge a message again with the policy and the lists of today, and show what changed.

    A message on record is judged by its stored findings; one in a file is analysed anew, without asking DNS or whom
    the tenant knows.
    """
    from gatepost.ids import canonical
    from gatepost.mail.message import Envelope

    chosen = with_file(policy, None, config, data) if policy else in_force(config, data)
    if ggrid := canonical(what):
        _show_replay(with_store(config, data, lambda store: _replayed(store, ggrid, chosen)), json)
    elif Path(what).is_file():
        envelope = Envelope(sender, (), remote_address, None, own_uid(tenant))
        _analyse_anew(Path(what), envelope, chosen.of(envelope.tenant).policy, json, (config, data))
    else:
        raise StartError(f"{what} is neither the id of a message nor a file.")


def try_policy(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A policy file.")],
    last: Annotated[int, typer.Option(metavar="COUNT", min=1, help="How many messages back.")] = 10_000,
    tenant: Annotated[
        str | None, typer.Option(metavar="UID", help="As this tenant's policy, on the messages of this tenant.")
    ] = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Show which decisions on the messages on record a changed policy would flip.

    Nothing is changed: the stored findings are judged with the policies of today, and with the file in the place of the
    deployment's policy, or of the tenant's.
    """
    from gatepost.cli.printing import console, print_json, rows, table
    from gatepost.rejudge.dry_run import try_policy

    uid = own_uid(tenant)
    both = in_force(config, data), with_file(file, uid, config, data)
    considered, flips = with_store(config, data, lambda store: try_policy(store, *both, uid, last))
    if json:
        print_json({"considered": considered, "flipped": len(flips), "flips": flips})
        return
    out = console()
    if flips:
        lines = [
            (flip.ggrid, _arrow(flip.before.verdict, flip.now.verdict), _arrow(flip.before.decision, flip.now.decision),
             _arrow(f"{flip.before.score:g}", f"{flip.now.score:g}"), flip.subject)
            for flip in flips
        ]  # fmt: skip
        out.print(rows(table("message", "verdict", "decision", "score", "subject"), lines))
    print(f"{len(flips)} of {considered} decisions would be others.")


async def _replayed(store: "Store", ggrid: str, policies: "Policies") -> "Comparison":
    from gatepost.rejudge.dry_run import replay_record

    record = await store.message(ggrid)
    if record is None:
        raise StartError(f"There is no message {ggrid} on record.")
    return await replay_record(store, record, policies)


def _show_replay(comparison: "Comparison", json: bool) -> None:
    from gatepost.cli.printing import console, print_json, rows, safe, table

    if json:
        print_json(comparison)
        return
    out = console()
    before, now = comparison.before, comparison.now
    out.print(safe(f"{comparison.ggrid}: {comparison.subject or '(no subject)'}"))
    facts = [
        ("verdict", before.verdict, now.verdict),
        ("decision", before.decision, now.decision),
        ("score", f"{before.score:g}", f"{now.score:g}"),
        ("reason", before.reason, now.reason),
    ]
    out.print(rows(table("", "then", "now"), facts), "")
    changed = [line for line in comparison.lines if not line.is_same]
    if changed:
        lines = [(line.tag, _pair(line.weight), _pair(line.counted), line.where, line.note) for line in changed]
        out.print(rows(table("finding", "weight", "counted", "where", "note"), lines))
    same = len(comparison.lines) - len(changed)
    print(f"{len(changed)} lines of the ledger changed, {same} are the same.")


def _analyse_anew(
    file: Path, envelope: "Envelope", policy: "Policy", json: bool, places: tuple[Path | None, Path | None]
) -> None:
    from gatepost.abby.messages import describe_message
    from gatepost.cli.ledger import show_ledger
    from gatepost.cli.printing import console, print_json

    config, data = places
    place = data_folder(data)
    raw = file.read_bytes()
    if (config_folder(config, place) / "abby").is_dir():
        record = with_store(config, data, lambda store: _analysed(raw, envelope, policy, store))
    else:
        import asyncio

        record = asyncio.run(_analysed(raw, envelope, policy, None))
    if json:
        print_json(describe_message(record))
    else:
        show_ledger(console(), str(file), describe_message(record))


async def _analysed(raw: bytes, envelope: "Envelope", policy: "Policy", store: "Store | None") -> "MessageRecord":
    """Analysed in this process; lists are those of the store, where there is one, and DNS is not asked."""
    import hashlib

    from gatepost.analysis import Context, analyse
    from gatepost.ids import new_id
    from gatepost.lists.unkeyed import NO_LISTS, Compiled
    from gatepost.store.messages import MessageRecord
    from gatepost.times import now

    created = now()
    lists = Compiled(await store.unkeyed(envelope.tenant)) if store else NO_LISTS
    asking = analyse(raw, envelope, Context(now=created / 1000, policy=policy, lists=lists))
    try:
        questions = next(asking)
        while True:
            answers = [await _answer(question, envelope.tenant, store) for question in questions]
            questions = asking.send(tuple(answers))
    except StopIteration as stop:
        report = stop.value
    return MessageRecord(new_id(), created, now(), envelope, len(raw), hashlib.sha256(raw).hexdigest(), report)


async def _answer(question: "Question", tenant: str | None, store: "Store | None") -> "Answer":
    from gatepost.questions import Antivirus, Dns, DnsAnswer, Lookup, LookupAnswer

    if isinstance(question, Lookup):
        return LookupAnswer(await store.lookup(tenant, question.keys) if store else ())
    return DnsAnswer("failed") if isinstance(question, Dns) else Antivirus()


def _arrow(before: str, now: str) -> str:
    return before if before == now else f"{before} → {now}"


def _pair(values: tuple[float | None, float | None]) -> str:
    return _arrow(*("–" if value is None else f"{value:g}" for value in values))
