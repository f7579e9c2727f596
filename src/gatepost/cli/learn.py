"""`gatepost learn`: report mail from files, train pools, and show, list and roll back what they have taught."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatepost.cli.options import (
    ConfigOption,
    DataOption,
    JsonOption,
    config_folder,
    data_folder,
    parse_tenant_uid,
    render_time,
    with_store,
)
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.learning.run import LearningOutcome
    from gatepost.settings.keys import LearningSettings
    from gatepost.store.learning import StoredModel, TaughtMessage
    from gatepost.store.store import Store

app = typer.Typer(help="Learning from reports: pools, and the models that they teach.", no_args_is_help=True)

TenantOption = Annotated[
    str | None,
    typer.Option("--tenant", metavar="UID", help="The pool of this tenant; without it, that of the deployment."),
]
VersionArgument = Annotated[int, typer.Argument(metavar="VERSION", help="The number of a model.", min=1)]

# Messages that are handed to the workers at a time.
BATCH = 64
REFUSED, BUSY = 2, 3


@app.command("mail")
def report_mail(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Messages, mailboxes (mbox) or folders; - for standard input."),
    ],
    unwanted: Annotated[bool, typer.Option("--unwanted", help="The mail should have been held.")] = False,
    wanted: Annotated[bool, typer.Option("--wanted", help="The mail should have been delivered.")] = False,
    tenant: TenantOption = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Report the mail of files. It is read in sealed workers, and the pool keeps feature rows, not the mail."""
    from gatepost.cli.printing import print_result

    if unwanted == wanted:
        raise typer.BadParameter("give either --unwanted or --wanted")
    uid = parse_tenant_uid(tenant)
    read, taken, unread = _teach(files, uid, config, data, unwanted=unwanted)
    what = "unwanted" if unwanted else "wanted"
    whose = f"the pool of tenant {uid}" if uid else "the pool of the deployment"
    text = f"{taken:,} of {read:,} messages reported as {what} to {whose}."
    if unread:
        text += f"\n{unread:,} could not be read."
    print_result(json, {"read": read, "taken": taken, "unread": unread, "tenantUid": uid}, text)


def _teach(
    files: list[Path], tenant: str | None, config: Path | None, data: Path | None, *, unwanted: bool
) -> tuple[int, int, int]:
    """Report the messages of files; returns how many were read, how many taken, and how many could not be read."""
    import hashlib
    from itertools import islice

    from gatepost.cli.scanners import messages_in
    from gatepost.cli.sealed_analysis import open_extractor
    from gatepost.store.learning import TaughtMessage

    async def check_tenant(store: "Store") -> bool:
        return tenant is None or await store.tenants.find(tenant) is not None

    if not with_store(config, data, check_tenant):
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
            taken += with_store(config, data, partial(_add_reports, tenant, rows, unwanted))
    return read, taken, unread


async def _add_reports(tenant: str | None, rows: list["TaughtMessage"], unwanted: bool, store: "Store") -> int:
    from gatepost.store.audit import CLI

    return await store.learning.add_reports(tenant, CLI, rows, unwanted=unwanted)


@app.command("now")
def learn_now(
    tenant: TenantOption = None,
    scheduled: Annotated[
        bool, typer.Option("--scheduled", help="Do nothing if the pool is not due, or if another process trains it.")
    ] = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Train the model of a pool now, in a sealed process. It takes part only if it proves better than the present one.

    The exit code is 0 if the model takes part, 2 if not, 3 if another process trains the pool.
    """
    import sys

    from gatepost.cli.options import load_policies
    from gatepost.cli.printing import print_json
    from gatepost.learning.run import PoolBusy, learn_pool
    from gatepost.rejudge.policies_in_force import with_stored_rules

    uid, settings, policies = parse_tenant_uid(tenant), _load_settings(config, data), load_policies(config, data)

    async def work(store: "Store") -> "LearningOutcome | PoolBusy":
        in_force = await with_stored_rules(policies, store.own_rules)
        return await learn_pool(store, in_force, settings, uid, only_due=scheduled)

    outcome = with_store(config, data, work)
    if isinstance(outcome, PoolBusy):
        if scheduled:
            return
        print("Another process trains this pool.", file=sys.stderr)
        raise typer.Exit(BUSY)
    if json:
        print_json(outcome)
    else:
        _print_outcome(outcome)
    if outcome.result != "taken":
        raise typer.Exit(REFUSED)


def _print_outcome(outcome: "LearningOutcome") -> None:
    verb = {"taken": "takes part from now on", "refused": "does not take part"}.get(outcome.result, "was not trained")
    named = f"Model {outcome.version}" if outcome.version else "The model"
    print(f"{named} {verb}: {outcome.reason}.")
    if found := outcome.look_back:
        print(f"It would have held {found.found:,} of {found.considered:,} messages delivered in {found.days} days.")
        if found.found:
            print(f"They are listed by: gatepost learn show {outcome.version}")


@app.command("list")
def list_models(
    tenant: TenantOption = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print the pools with how much they hold, and the last models. With --tenant, those of one tenant alone."""
    from gatepost.cli.printing import console, print_json, rows, table

    uid = parse_tenant_uid(tenant)

    async def work(store: "Store") -> Any:
        pools = await store.learning.pools()
        models = await store.learning.models(uid, every=uid is None)
        return [pool for pool in pools if uid in (None, pool.tenant)], models

    pools, models = with_store(config, data, work)
    if json:
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
    console().print(rows(table("POOL", "UNWANTED", "WANTED", "REPORTERS", "NEWEST"), lines))
    shown = [
        (str(model.version), model.tenant or "deployment", model.state, render_time(model.created), _reason(model))
        for model in models
    ]
    console().print(rows(table("MODEL", "POOL", "STATE", "TRAINED", "WHY"), shown))


@app.command("show")
def show_model(
    version: VersionArgument, config: ConfigOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Print one model: the figures of its training, and the delivered mail that it would have held."""
    from gatepost.cli.printing import console, print_json, rows, table

    async def work(store: "Store") -> Any:
        model = await store.learning.find_model(version)
        hits = model.look_back.hits if model and model.look_back else ()
        return model, await store.messages.lines(hits)

    model, lines = with_store(config, data, work)
    if model is None:
        raise StartError(f"There is no model {version}.")
    described = describe_model(model)
    if json:
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
        console().print(rows(table("DELIVERED", "SENDER", "RECIPIENTS", "SUBJECT"), cells))


@app.command("rollback")
def roll_back(
    tenant: TenantOption = None, config: ConfigOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Withdraw the model of a pool that takes part; the one before it takes part again, on all nodes within seconds."""
    from gatepost.cli.printing import print_result
    from gatepost.store.audit import CLI

    uid = parse_tenant_uid(tenant)
    withdrawn, restored = with_store(config, data, lambda store: store.learning.roll_back(uid, CLI))
    if withdrawn is None:
        raise StartError("No learnt model of this pool takes part.")
    then = f"model {restored} takes part again" if restored else "no learnt model of this pool takes part"
    value = {"withdrawn": withdrawn, "restored": restored, "tenantUid": uid}
    print_result(json, value, f"Model {withdrawn} is withdrawn; {then}.")


def describe_model(model: "StoredModel") -> dict[str, Any]:
    """Return a model as JSON shows it."""
    import msgspec

    return {
        "version": model.version,
        "tenantUid": model.tenant,
        "state": model.state,
        "trained": render_time(model.created),
        "figures": msgspec.json.decode(model.figures),
        "lookBack": _plain(model.look_back) if model.look_back else None,
    }


def _reason(model: "StoredModel") -> str:
    return str(describe_model(model)["figures"].get("reason", ""))


def _plain(value: Any) -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(value)
    return found


def _load_settings(config: Path | None, data: Path | None) -> "LearningSettings":
    from gatepost.settings.files import GUARD_FILE, load_guard
    from gatepost.settings.keys import LearningSettings

    folder = config_folder(config, data_folder(data))
    return load_guard(folder).learning if (folder / GUARD_FILE).exists() else LearningSettings()
