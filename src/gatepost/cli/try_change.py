"""`gatepost try`: what would change if lists or policies were others, or what is in force now; nothing is changed.

A message on record is judged by its stored findings, and a file is analysed anew with the lists of the deployment,
without DNS and without sender history. The table and the JSON are the same whatever is tried.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import to_builtins

from gatepost.cli.commands import Argument, BadParameter, Option, Options
from gatepost.cli.deployment import Deployment, parse_tenant_uid, render_time
from gatepost.cli.printing import Output, print_json, print_table, print_text, render_people
from gatepost.ids import canonical, new_id
from gatepost.service.data_folder import StartError
from gatepost.times import DAY, now

if TYPE_CHECKING:
    from gatepost.policy.layers import Policies
    from gatepost.rejudge.try_change import Change, ListEdit, Messages, Trial, TriedMessage
    from gatepost.store.message_records import MessageRecord
    from gatepost.store.store import Store

MAX_LISTED = 1_000


class ChangeOptions(Options, frozen=True, kw_only=True):
    """The change that is tried; without any, messages are judged again by what is in force."""

    policy: Annotated[
        Path | None,
        Option("--policy", metavar="FILE", help="Have this file in place of the policy of the deployment or tenant."),
    ] = None
    rules: Annotated[
        Path | None,
        Option("--rules", metavar="FILE", help="Lay this policy file, such as one of rules, over what is in force."),
    ] = None
    list_name: Annotated[str, Option("--list", metavar="NAME", help="The list of --add and --remove.")] = ""
    add: Annotated[list[str] | None, Option("--add", metavar="ENTRY", help="Add this entry; repeatable.")] = None
    remove: Annotated[list[str] | None, Option("--remove", metavar="ENTRY", help="Remove this entry; repeatable.")] = (
        None
    )


class MessageOptions(Options, frozen=True, kw_only=True):
    """The messages that are judged; without any, the last ones."""

    ggrids: Annotated[
        list[str] | None, Option("--message", metavar="GGRID", help="This message on record; repeatable.")
    ] = None
    search: Annotated[
        str,
        Option("--search", metavar="QUERY", help="What a search of the web interface finds, 1,000 messages at most."),
    ] = ""
    days: Annotated[int | None, Option(metavar="DAYS", least=1, most=3650, help="Only mail of these days.")] = None
    last: Annotated[int, Option(metavar="COUNT", least=1, help="Count of messages, back from the newest.")] = 10_000
    sender: Annotated[str, Option("--from", metavar="ADDRESS", help="Envelope sender of a file.")] = ""
    remote_address: Annotated[str | None, Option(metavar="IP", help="Address of the host that sent a file.")] = None


def try_change(
    files: Annotated[list[Path] | None, Argument(metavar="FILE", help="Messages in files, analysed anew.")] = None,
    *,
    changed: ChangeOptions,
    chosen: MessageOptions,
    tenant: Annotated[
        str | None, Option(metavar="UID", help="Use the lists, the policy and the messages of this tenant.")
    ] = None,
    waiting: Annotated[
        bool,
        Option("--waiting", help="Look back for new entries that wait, and keep what is found, as the service does."),
    ] = False,
    place: Deployment,
    output: Output,
) -> None:
    """Show what would change if lists or the policy were others, or are what they are now; nothing is changed.

    Without a change, messages are judged again by the policy and the lists in force. Of messages on record the stored
    findings are judged.
    """
    if waiting:
        done = run_waiting_look_backs(place)
        columns = ("list", "tenant", "new entries", "delivered messages", "would have been held")
        output.show_table(done, columns, [tuple(str(value or "") for value in each.values()) for each in done])
        return
    uid = parse_tenant_uid(tenant)
    for file in files or ():
        if not file.is_file():
            raise StartError(f"{file} is not a file; a message on record is named by --message.")
    mails = [file.read_bytes() for file in files or ()]
    if bool(changed.list_name) != bool(changed.add or changed.remove):
        raise BadParameter("and at least one --add or --remove belong together", "--list")
    policies, other = place.load_policies(), place.load_policies_with(changed.policy, uid) if changed.policy else None
    analysed = _analyse(mails, chosen, uid, policies, place) if mails else []

    async def work(store: "Store") -> "tuple[Trial, bool]":
        from gatepost.rejudge.policies_in_force import with_stored_rules
        from gatepost.rejudge.try_change import LOOK_BACK_EFFORT, LOOK_BACK_SECONDS, NOTHING, Change, try_change

        today = await with_stored_rules(policies, store.own_rules)
        change = await _read_change(store, changed, other, today, uid)
        if analysed and change == NOTHING:
            change = Change(policies=today)  # nothing was decided on them yet
        messages = await _choose_messages(store, chosen, analysed, uid)
        # What rules take too long for is a fault of other policies; else fewer messages count.
        seconds: Mapping[str, float] = {} if change.policies else {"seconds": LOOK_BACK_SECONDS}
        trial = await try_change(store, today, change, messages, effort=LOOK_BACK_EFFORT, shown=MAX_LISTED, **seconds)
        return trial, messages.are_named and trial.considered == 1

    trial, is_one = place.with_store(work)
    if trial.mistakes:
        raise StartError("\n".join(trial.mistakes))
    if output.json:
        print_json(_describe_trial(trial))
    elif is_one:
        _print_message(trial.messages[0])
    else:
        _print_trial(trial)


async def _read_change(
    store: "Store", changed: ChangeOptions, files: "Policies | None", today: "Policies", uid: str | None
) -> "Change":
    from gatepost.policy.rules import PolicyError
    from gatepost.rejudge.policies_in_force import with_layer, with_stored_rules
    from gatepost.rejudge.try_change import Change

    other = await with_stored_rules(files, store.own_rules) if files else None
    if changed.rules:
        try:
            text = changed.rules.read_text("utf-8")
            other = with_layer(other or today, uid, str(changed.rules), text)
        except (OSError, UnicodeDecodeError, PolicyError) as fault:
            raise StartError(str(fault)) from None
    return Change(await _read_list(store, changed, uid) if changed.list_name else (), other)


async def _read_list(store: "Store", changed: ChangeOptions, uid: str | None) -> "tuple[ListEdit, ...]":
    from gatepost.lists.entries import ListRefusal
    from gatepost.rejudge.try_change import edit_list

    definition = await store.lists.definition(uid, changed.list_name)
    if definition is None or not definition.is_countable:
        why = "is not there" if definition is None else "depends on what is not stored of messages"
        raise StartError(f"The list {changed.list_name} {why}, so no change of it can be tried.")
    edits = list["ListEdit"]()
    for texts, adding in ((changed.add, True), (changed.remove, False)):
        forms = [(text, definition.normalise(text)) for text in texts or ()]
        for text, form in forms:
            if isinstance(form, ListRefusal):
                raise StartError(f"The entry {text} {form.reason}.")
        keys = [form.key for _, form in forms if not isinstance(form, ListRefusal)]
        edits += edit_list(uid, definition, keys, adding=adding).lists
    return tuple(edits)


async def _choose_messages(
    store: "Store", chosen: MessageOptions, analysed: "Sequence[MessageRecord]", uid: str | None
) -> "Messages":
    from gatepost.rejudge.try_change import Messages

    since, records = now() - chosen.days * DAY if chosen.days else 0, list(analysed)
    for text in chosen.ggrids or ():
        record = await store.messages.find(canonical(text) or "", uid)
        if record is None:
            raise StartError(f"There is no message {text} on record{' of this tenant' if uid else ''}.")
        records.append(record)
    if chosen.search:
        found = await _search(store, chosen.search, uid, since, min(chosen.last, MAX_LISTED))
        records += [record for ggrid in found if (record := await store.messages.find(ggrid))]
    if records or chosen.search:
        return Messages(records=tuple(records))
    return Messages(uid, chosen.last, since)


async def _search(store: "Store", query: str, uid: str | None, since: int, most: int) -> list[str]:
    from gatepost.store.search_conditions import MessageFilter
    from gatepost.store.search_language import SearchFault, SearchPlace, by_name_and_id

    tenants = by_name_and_id((each.uid, each.name) for each in await store.tenants.all())
    asked = await store.messages.read_search(query, SearchPlace(now(), tenants=tenants), uid)
    if isinstance(asked, SearchFault):
        raise BadParameter(f"{asked.message} (characters {asked.start + 1} to {asked.end})", "--search")
    page = await store.messages.search(MessageFilter(tenant=uid, since=since or None, query=asked), None, most)
    return [row.ggrid for row in page.rows]


def _analyse(
    mails: Sequence[bytes], chosen: MessageOptions, uid: str | None, policies: "Policies", place: Deployment
) -> "list[MessageRecord]":
    """Analyse messages in a sealed worker, without DNS and with the phrases of the deployment."""
    import asyncio

    from gatepost.cli.sealed_analysis import answer_offline, open_analyser
    from gatepost.guard.answers.lists import ListAnswers
    from gatepost.mail.message import Envelope
    from gatepost.store.message_records import MessageRecord

    phrases = place.with_store(lambda store: ListAnswers(store).snapshot(uid))
    envelope, settings = Envelope(chosen.sender, (), chosen.remote_address, None, uid), place.load_guard_if_any()
    found = []
    with (
        asyncio.Runner() as runner,
        open_analyser(runner, settings, policies.of(uid).policy, answer_offline) as analyser,
    ):
        for raw in mails:
            ggrid, created = new_id(), now()
            report = analyser.analyse(raw, ggrid, envelope, created / 1000, phrases)
            found.append(MessageRecord(ggrid, created, now(), envelope, len(raw), sha256(raw).hexdigest(), report))
    return found


def _describe_trial(trial: "Trial") -> dict[str, Any]:
    entries = [
        {"listName": place[0], "entry": place[2], "hit": hit, "flipped": trial.entry_flips.get(place, 0)}
        for place, hit in trial.hits.items()
    ]
    messages = [{**to_builtins(each), "completed": render_time(each.completed)} for each in trial.messages]
    counts = {"considered": trial.considered, "hit": trial.hit, "flipped": trial.flipped}
    return {**counts, "reached": render_time(trial.reached) or None, "entries": entries, "messages": messages}


def _print_trial(trial: "Trial") -> None:
    shown = trial.flips or trial.messages
    if shown:
        lines = [
            (each.ggrid, render_time(each.completed)[:19], each.sender.address, render_people(each.recipients),
             each.subject[:80], _arrow(each.before.decision, each.now.decision),
             _arrow(each.before.verdict, each.now.verdict), _arrow(f"{each.before.score:g}", f"{each.now.score:g}"))
            for each in shown
        ]  # fmt: skip
        print_table(("message", "completed", "from", "to", "subject", "decision", "verdict", "score"), lines)
    if len(shown) < trial.flipped:
        print(f"And {trial.flipped - len(shown):,} more.")
    if trial.hits:
        counts = [(place[2], f"{hit:,}", f"{trial.entry_flips.get(place, 0):,}") for place, hit in trial.hits.items()]
        print_table(("entry", "matches", "decisions that would change"), counts)
    if trial.reached is not None:
        print(f"Only messages since {render_time(trial.reached)[:19]} were judged: more would have taken too long.")
    print(f"{trial.flipped} of {trial.considered} decisions would change.")


def _print_message(tried: "TriedMessage") -> None:
    """Print one message with its whole ledger, what changes first."""
    before, after = tried.before, tried.now
    print_text(f"{tried.ggrid}: {tried.subject or '(no subject)'}")
    facts = [
        ("verdict", before.verdict, after.verdict),
        ("decision", before.decision, after.decision),
        ("score", f"{before.score:g}", f"{after.score:g}"),
        ("reason", before.reason, after.reason),
    ]
    print_table(("", "before", "now"), facts)
    print()
    if tried.lines:
        ordered = sorted(tried.lines, key=lambda line: line.is_same)
        lines = [(line.tag, _pair(line.weight), _pair(line.counted), line.where, line.note) for line in ordered]
        print_table(("finding", "weight", "counted", "where", "note"), lines)
    changed = len(tried.changed_lines)
    print(f"{changed} lines of the ledger changed, {len(tried.lines) - changed} are the same.")


def run_waiting_look_backs(place: Deployment) -> list[dict[str, Any]]:
    """Look back for all entries that came through the List API and wait; return what was found, list by list."""
    policies, days = place.load_policies(), place.load_abby().lists.look_back

    async def work(store: "Store") -> list[dict[str, Any]]:
        from gatepost.rejudge.policies_in_force import with_stored_rules
        from gatepost.rejudge.try_change import run_waiting

        in_force = await with_stored_rules(policies, store.own_rules)
        return [
            {"list": each.list_name, "tenantUid": each.scope, "entries": found.entries,
             "considered": found.considered, "found": found.found}
            async for each, found in run_waiting(store, in_force, days)
        ]  # fmt: skip

    return place.with_store(work)


def _arrow(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _pair(values: tuple[float | None, float | None]) -> str:
    return _arrow(*("–" if value is None else f"{value:g}" for value in values))
