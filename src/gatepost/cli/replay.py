"""`gatepost replay` and `gatepost policy try`: judge messages again.

Of a message on record the findings are kept and the text is not: the findings are judged with the lists and the policy
that hold today for the message's tenant. A message in a file is analysed anew. A changed policy is tried on the
messages on record before it is used; the list hits of that time stand, so that only the policy differs.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatepost.cli.options import (
    ConfigOption,
    DataOption,
    JsonOption,
    config_folder,
    data_folder,
    load_policies,
    load_policies_with,
    parse_tenant_uid,
    with_store,
)
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.mail.message import Envelope
    from gatepost.policy.layers import Policies
    from gatepost.policy.rules import Policy
    from gatepost.questions import Answers, Questions
    from gatepost.rejudge.dry_run import PolicyTrial
    from gatepost.rejudge.replay import Comparison
    from gatepost.settings.keys import GuardSettings
    from gatepost.store.message_records import MessageRecord
    from gatepost.store.store import Store


PolicyOption = Annotated[
    Path | None,
    typer.Option("--policy", metavar="FILE", help="Judge with this policy file instead of the deployment's."),
]


def replay(
    what: Annotated[str, typer.Argument(metavar="GGRID|FILE", help="The id of a message on record, or a file.")],
    policy: PolicyOption = None,
    json: JsonOption = False,
    sender: Annotated[str, typer.Option("--from", metavar="ADDRESS", help="Envelope sender of a file.")] = "",
    remote_address: Annotated[str | None, typer.Option(metavar="IP", help="Address of the host that sent it.")] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="UID", help="Use the lists and policy of this tenant for a file.")
    ] = None,
    config: ConfigOption = None,
    data: DataOption = None,
) -> None:
    """Judge a message again with the current policy and lists, and show what changed.

    A message on record is judged by its stored findings. A message in a file is analysed anew, without DNS and without
    sender history.
    """
    from gatepost.ids import canonical
    from gatepost.mail.message import Envelope

    chosen = load_policies_with(policy, None, config, data) if policy else load_policies(config, data)
    if ggrid := canonical(what):
        _show_replay(with_store(config, data, lambda store: _replay_record(store, ggrid, chosen)), json)
    elif Path(what).is_file():
        envelope = Envelope(sender, (), remote_address, None, parse_tenant_uid(tenant))
        _show_analysis(Path(what), envelope, chosen.of(envelope.tenant).policy, json, (config, data))
    else:
        raise StartError(f"{what} is neither the id of a message nor a file.")


def try_policy(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A policy file.")],
    last: Annotated[
        int, typer.Option(metavar="COUNT", min=1, help="Number of messages, counted back from the newest.")
    ] = 10_000,
    tenant: Annotated[
        str | None, typer.Option(metavar="UID", help="Try it as this tenant's policy, on this tenant's messages.")
    ] = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Show which decisions on the messages on record would change under a changed policy.

    Nothing is changed. The stored findings are judged twice: with the current policies, and with the file in place of
    the deployment's or the tenant's policy.
    """
    from gatepost.cli.printing import console, print_json, rows, table
    from gatepost.rejudge.dry_run import try_policy
    from gatepost.rejudge.policies_in_force import with_stored_rules

    uid = parse_tenant_uid(tenant)
    both = load_policies(config, data), load_policies_with(file, uid, config, data)

    async def run(store: "Store") -> "PolicyTrial":
        today, other = [await with_stored_rules(each, store.own_rules) for each in both]
        return await try_policy(store, today, other, uid, last)

    trial = with_store(config, data, run)
    considered, flips = trial.considered, trial.flips
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
    print(f"{len(flips)} of {considered} decisions would change.")


async def _replay_record(store: "Store", ggrid: str, policies: "Policies") -> "Comparison":
    from gatepost.rejudge.dry_run import replay_record
    from gatepost.rejudge.policies_in_force import with_stored_rules

    record = await store.messages.find(ggrid)
    if record is None:
        raise StartError(f"There is no message {ggrid} on record.")
    return await replay_record(store, record, await with_stored_rules(policies, store.own_rules))


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
    out.print(rows(table("", "before", "now"), facts), "")
    changed = [line for line in comparison.lines if not line.is_same]
    if changed:
        lines = [(line.tag, _pair(line.weight), _pair(line.counted), line.where, line.note) for line in changed]
        out.print(rows(table("finding", "weight", "counted", "where", "note"), lines))
    same = len(comparison.lines) - len(changed)
    print(f"{len(changed)} lines of the ledger changed, {same} are the same.")


def _show_analysis(
    file: Path, envelope: "Envelope", policy: "Policy", json: bool, places: tuple[Path | None, Path | None]
) -> None:
    from gatepost.abby.messages import describe_message
    from gatepost.cli.ledger import show_ledger
    from gatepost.cli.printing import console, print_json
    from gatepost.settings.files import GUARD_FILE, load_guard
    from gatepost.settings.keys import GuardSettings

    config, data = places
    folder = config_folder(config, data_folder(data))
    settings = load_guard(folder) if (folder / GUARD_FILE).exists() else GuardSettings()
    raw = file.read_bytes()
    if (folder / "abby").is_dir():
        record = with_store(config, data, lambda store: _analyse(raw, envelope, policy, settings, store))
    else:
        import asyncio

        record = asyncio.run(_analyse(raw, envelope, policy, settings, None))
    if json:
        print_json(describe_message(record))
    else:
        show_ledger(console(), str(file), describe_message(record))


async def _analyse(
    raw: bytes, envelope: "Envelope", policy: "Policy", settings: "GuardSettings", store: "Store | None"
) -> "MessageRecord":
    """Analyse a message in a sealed worker with the lists of the store, if there is one, and without DNS."""

    from gatepost.cli.sealed_analysis import answer_nothing, start_pool
    from gatepost.guard.answers.lists import ListAnswers
    from gatepost.ids import new_id
    from gatepost.questions import DnsAnswer, Lookup
    from gatepost.scanning.spool import BytesBody
    from gatepost.store.message_records import MessageRecord
    from gatepost.times import now
    from gatepost.workers.jobs import EMPTY, Job
    from gatepost.workers.protocol import JUDGE

    lists = ListAnswers(store) if store else None

    async def answer(job: Job[Any], questions: "Questions") -> "Answers":
        return tuple(
            [
                await lists.answer(job.envelope.tenant, question)
                if lists and isinstance(question, Lookup)
                else answer_nothing(question, DnsAnswer("failed"))
                for question in questions
            ]
        )

    created, ggrid = now(), new_id()
    snapshot = await lists.snapshot(envelope.tenant) if lists else EMPTY
    # The tenant's policy is given: for this worker it is the only one there is.
    pool = await start_pool(settings, policy, answer)
    try:
        body = BytesBody(raw)
        report = await pool.run(Job(JUDGE, ggrid, envelope, body, created / 1000, lists=snapshot))
    finally:
        await pool.stop()
    return MessageRecord(ggrid, created, now(), envelope, len(raw), body.sha256, report)


def _arrow(before: str, now: str) -> str:
    return before if before == now else f"{before} → {now}"


def _pair(values: tuple[float | None, float | None]) -> str:
    return _arrow(*("–" if value is None else f"{value:g}" for value in values))
