"""`gatepost learn`: report mail from files, train pools, and show, list and roll back what they have taught."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from gatepost.cli.commands import Argument, BadParameter, Group, Option
from gatepost.cli.deployment import Deployment, parse_tenant_uid, render_time
from gatepost.cli.printing import Output, print_json, print_table
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.learning.run import LearningOutcome
    from gatepost.store.learning import StoredModel, TaughtMessage
    from gatepost.store.store import Store

group = Group("Report mail, train models from reports, and show or withdraw them.")

TenantOption = Annotated[
    str | None, Option("--tenant", metavar="UID", help="The pool of this tenant; without it, that of the deployment.")
]
VersionArgument = Annotated[int, Argument(metavar="VERSION", help="The number of a model.", least=1)]

# Messages that are handed to the workers at a time.
BATCH = 64
REFUSED, BUSY = 2, 3


@group.command("mail")
def report_mail(
    files: Annotated[
        list[Path], Argument(metavar="FILE", help="Messages, mailboxes (mbox) or folders; - for standard input.")
    ],
    *,
    unwanted: Annotated[bool, Option("--unwanted", help="The mail should have been held.")] = False,
    wanted: Annotated[bool, Option("--wanted", help="The mail should have been delivered.")] = False,
    tenant: TenantOption = None,
    place: Deployment,
    output: Output,
) -> None:
    """Report the mail of files. It is read in sealed workers, and the pool keeps feature rows, not the mail."""
    if unwanted == wanted:
        raise BadParameter("give either --unwanted or --wanted")
    uid = parse_tenant_uid(tenant)
    read, taken, unread = _teach(files, uid, place, unwanted=unwanted)
    what = "unwanted" if unwanted else "wanted"
    whose = f"the pool of tenant {uid}" if uid else "the pool of the deployment"
    text = f"{taken:,} of {read:,} messages reported as {what} to {whose}."
    if unread:
        text += f"\n{unread:,} could not be read."
    output.show({"read": read, "taken": taken, "unread": unread, "tenantUid": uid}, text)


def _teach(files: list[Path], tenant: str | None, place: Deployment, *, unwanted: bool) -> tuple[int, int, int]:
    """Report the messages of files; returns how many were read, how many taken, and how many could not be read."""
    import hashlib
    from itertools import islice

    from gatepost.cli.scanners import messages_in
    from gatepost.cli.sealed_analysis import open_extractor
    from gatepost.store.learning import TaughtMessage

    async def check_tenant(store: "Store") -> bool:
        return tenant is None or await store.tenants.find(tenant) is not None

    async def add_reports(rows: list["TaughtMessage"], store: "Store") -> int:
        return await store.learning.add_reports(tenant, place.actor, rows, unwanted=unwanted)

    if not place.with_store(check_tenant):
        raise StartError(f"There is no tenant {tenant}.")
    read = taken = unread = 0
    waiting = messages_in(files)
    with open_extractor() as extractor:
        while batch := list(islice(waiting, BATCH)):
            found = extractor.extract_rows([mail.raw for mail in batch])
            rows = [
                TaughtMessage(hashlib.sha256(mail.raw).hexdigest(), each.row, sender=each.sender)
                for mail, each in zip(batch, found, strict=True)
                if each
            ]
            read, unread = read + len(batch), unread + len(batch) - len(rows)
            taken += place.with_store(partial(add_reports, rows))
    return read, taken, unread


@group.command("now")
def learn_now(
    *,
    tenant: TenantOption = None,
    scheduled: Annotated[
        bool, Option("--scheduled", help="Do nothing if the pool is not due, or if another process trains it.")
    ] = False,
    place: Deployment,
    output: Output,
) -> None:
    """Train the model of a pool now, in a sealed process. It takes part only if it proves better than the present one.

    The exit code is 0 if the model takes part, 2 if not, 3 if another process trains the pool.
    """
    from gatepost.learning.run import learn_pool
    from gatepost.rejudge.policies_in_force import with_stored_rules

    uid, settings, policies = parse_tenant_uid(tenant), place.load_guard_if_any().learning, place.load_policies()

    async def work(store: "Store") -> "LearningOutcome | None":
        in_force = await with_stored_rules(policies, store.own_rules)
        return await learn_pool(store, in_force, settings, uid, only_due=scheduled)

    outcome = place.with_store(work)
    if outcome is None:
        if scheduled:
            return
        print("Another process trains this pool.", file=sys.stderr)
        raise SystemExit(BUSY)
    if output.json:
        print_json(outcome)
    else:
        _print_outcome(outcome)
    if outcome.result != "taken":
        raise SystemExit(REFUSED)


def _print_outcome(outcome: "LearningOutcome") -> None:
    verb = {"taken": "takes part from now on", "refused": "does not take part"}.get(outcome.result, "was not trained")
    named = f"Model {outcome.version}" if outcome.version else "The model"
    print(f"{named} {verb}: {outcome.reason}.")
    if found := outcome.look_back:
        print(f"It would have held {found.found:,} of {found.considered:,} messages delivered in {found.days} days.")
        if found.found:
            print(f"They are listed by: gatepost learn show {outcome.version}")


@group.command("list")
def list_models(*, tenant: TenantOption = None, place: Deployment, output: Output) -> None:
    """Print the pools with how much they hold, and the last models. With --tenant, those of one tenant alone."""
    uid = parse_tenant_uid(tenant)

    async def work(store: "Store") -> Any:
        pools = await store.learning.pools()
        models = await store.learning.models(uid, every=uid is None)
        return [pool for pool in pools if uid in (None, pool.tenant)], models

    pools, models = place.with_store(work)
    if output.json:
        described = [{**_plain(pool), "newest": render_time(pool.newest)} for pool in pools]
        print_json({"pools": described, "models": [describe_model(model) for model in models]})
        return
    lines = [
        (
            pool.tenant or "deployment",
            f"{pool.unwanted:,}",
            f"{pool.wanted:,}",
            str(pool.reporters),
            render_time(pool.newest),
        )
        for pool in pools
    ]
    print_table(("POOL", "UNWANTED", "WANTED", "REPORTERS", "NEWEST"), lines)
    shown = [
        (
            str(model.version),
            model.tenant or "deployment",
            model.state,
            render_time(model.created),
            describe_model(model)["figures"].get("reason", ""),
        )
        for model in models
    ]
    print_table(("MODEL", "POOL", "STATE", "TRAINED", "WHY"), shown)


@group.command("show")
def show_model(version: VersionArgument, *, place: Deployment, output: Output) -> None:
    """Print one model: the figures of its training, and the delivered mail that it would have held."""

    async def work(store: "Store") -> Any:
        model = await store.learning.find_model(version)
        hits = model.look_back.hits if model and model.look_back else ()
        return model, await store.messages.lines(hits)

    model, lines = place.with_store(work)
    if model is None:
        raise StartError(f"There is no model {version}.")
    described = describe_model(model)
    if output.json:
        found = [
            {"ggrid": line.ggrid, "sender": line.sender, "recipients": line.recipients, "subject": line.subject}
            for line in lines
        ]
        print_json({**described, "messages": found})
        return
    figures = described["figures"]
    print(f"Model {version} of {model.tenant or 'the deployment'}: {model.state}, trained {render_time(model.created)}")
    print(f"{figures['reports']:,} reports, {figures['unwanted']:,} of unwanted mail; {figures['reason']}")
    for name, side in (("new", figures["new"]), ("present", figures["present"])):
        print(
            f"  {name:8} held-back mail: names {side['named']} of {side['unwanted']} unwanted, "
            f"{side['falseAlarms']} of {side['wanted']} wanted; loss {side['loss']:.3f}"
        )
    print(
        f"  reference set of {figures['reference']}: {figures['harmedByNew']} harmed, "
        f"{figures['harmedByPresent']} by the present one"
    )
    if seen := model.look_back:
        print(f"Of {seen.considered:,} messages delivered in {seen.days} days it would have held {seen.found:,}:")
        cells = [(render_time(line.completed), line.sender, ", ".join(line.recipients), line.subject) for line in lines]
        print_table(("DELIVERED", "SENDER", "RECIPIENTS", "SUBJECT"), cells)


@group.command("rollback")
def roll_back(*, tenant: TenantOption = None, place: Deployment, output: Output) -> None:
    """Withdraw the model of a pool that takes part; the one before it takes part again, on all nodes within seconds."""
    uid = parse_tenant_uid(tenant)
    withdrawn, restored = place.with_store(lambda store: store.learning.roll_back(uid, place.actor))
    if withdrawn is None:
        raise StartError("No learnt model of this pool takes part.")
    then = f"model {restored} takes part again" if restored else "no learnt model of this pool takes part"
    value = {"withdrawn": withdrawn, "restored": restored, "tenantUid": uid}
    output.show(value, f"Model {withdrawn} is withdrawn; {then}.")


def describe_model(model: "StoredModel") -> dict[str, Any]:
    return {
        "version": model.version,
        "tenantUid": model.tenant,
        "state": model.state,
        "trained": render_time(model.created),
        "figures": msgspec.json.decode(model.figures),
        "lookBack": _plain(model.look_back) if model.look_back else None,
    }


def _plain(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(value)
    return found
