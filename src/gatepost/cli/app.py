"""The tree of commands; each one is a line here."""

import typer

from gatepost import __version__
from gatepost.cli import (
    api_keys,
    audit,
    config,
    digest,
    dkim,
    doctor,
    events,
    feeds,
    flow,
    learn,
    lists,
    messages,
    model,
    nodes,
    plugins,
    policy,
    privacy,
    quarantine,
    replay,
    scan,
    storage,
    tenants,
    upgrade,
    users,
)
from gatepost.cli.serve import abby, guard, serve

app = typer.Typer(
    name="gatepost",
    help="Gatepost, an e-mail security service.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gatepost {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Gatepost, an e-mail security service."""


app.command("serve")(serve)
app.command("guard")(guard)
app.command("abby")(abby)
app.command("scan")(scan.scan)
app.command("replay")(replay.replay)
app.command("doctor")(doctor.doctor)
app.command("nodes")(nodes.nodes)
app.command("flow")(flow.flow)
app.command("restart")(nodes.restart)
app.add_typer(config.app, name="config")
app.add_typer(lists.app, name="lists")
app.add_typer(feeds.app, name="feeds")
app.add_typer(tenants.app, name="tenant")
app.add_typer(users.app, name="user")
app.add_typer(api_keys.app, name="apikey")
app.command("audit")(audit.audit)
app.add_typer(events.app, name="events")
app.add_typer(policy.app, name="policy")
app.add_typer(plugins.app, name="plugins")
app.add_typer(dkim.app, name="dkim")
app.add_typer(model.app, name="model")
app.add_typer(learn.app, name="learn")
app.add_typer(messages.app, name="messages")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(digest.app, name="digest")
app.add_typer(privacy.app, name="privacy")
app.add_typer(storage.app, name="storage")
app.add_typer(upgrade.app, name="upgrade")
app.command("backup")(storage.backup)
app.command("restore")(storage.restore)
