"""`gatepost lists`: a client of the List API, and the creation of custom lists, which needs access to storage."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatepost.cli.api_client import CaOption, KeyFileOption, ListService, NoVerifyOption, UrlOption
from gatepost.cli.options import (
    ConfigOption,
    DataOption,
    JsonOption,
    TenantOption,
    parse_moment,
    parse_tenant_uid,
    render_time,
    require_found,
    with_store,
)
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.api.lists import ListFileFormat

app = typer.Typer(help="Lists of senders, networks, links, files, phrases and names.", no_args_is_help=True)

ListArgument = Annotated[str, typer.Argument(metavar="LIST", help="The list's name.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Change nothing; print which of the last messages would be affected.")
]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", metavar="FORMAT", help="plain, csv or ndjson; by default from the name of the file."),
]


@app.command("list")
def show_lists(
    tenant: TenantOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    cacert: CaOption = None,
    no_verify: NoVerifyOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print the lists of a scope."""
    from gatepost.cli.printing import console, print_json, rows, table

    uid = parse_tenant_uid(tenant)
    with ListService(url, key_file, cacert, no_verify, config, data).connect() as client:
        infos = client.get_lists(tenant=uid)
    if json:
        print_json(infos)
        return
    lines = [
        (info.list_name, info.list_info.category, f"{info.list_info.max_size:,}", info.list_info.description)
        for info in infos
    ]
    console().print(rows(table("list", "category", "max size", "description"), lines))


@app.command("add")
def add(
    name: ListArgument,
    entries: Annotated[list[str], typer.Argument(metavar="ENTRY...", help="Entries, or - for standard input.")],
    comment: Annotated[str, typer.Option(metavar="TEXT", help="A comment for people.")] = "",
    expires: Annotated[
        str | None, typer.Option(metavar="DATE", help="The last day on which the entry counts (UTC), or a date-time.")
    ] = None,
    dry_run: DryRunOption = False,
    look_back: Annotated[
        int | None,
        typer.Option(
            "--look-back",
            metavar="DAYS",
            min=1,
            max=365,
            help="List the mail delivered in these days that the entries would have held; needs access to storage.",
        ),
    ] = None,
    tenant: TenantOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    cacert: CaOption = None,
    no_verify: NoVerifyOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Add entries, or update existing ones."""
    from functools import partial

    from gatepost.api.lists import NewListEntry
    from gatepost.cli.list_changes import Target, change_entries
    from gatepost.cli.look_back import find_delivered, require_look_back

    until = render_time(parse_moment(expires, "--expires", end=True)) or None
    stated = [NewListEntry(entry, comment or None, until) for entry in _read_entries(entries, name)]
    uid = parse_tenant_uid(tenant)
    service = ListService(url, key_file, cacert, no_verify, config, data)
    find = None
    if look_back:
        require_look_back(name, uid, config, data)
        find = partial(find_delivered, name, uid, days=look_back, config=config, data=data, keep=not dry_run)
    change_entries(service, Target(name, uid, delete=False, dry_run=dry_run, json=json), stated, find)


@app.command("look-back")
def look_back_now(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Look back at once for entries that came through the List API and wait; the service does so by itself.

    How many days are looked at says `lists.lookBack` in abby.yml. What is found is shown on the page of its list.
    """
    from gatepost.cli.look_back import run_waiting_look_backs
    from gatepost.cli.printing import console, print_json, safe

    found = run_waiting_look_backs(config, data)
    if json:
        print_json(found)
        return
    if not found:
        console().print("Nothing waits for a look back.")
    for each in found:
        looked = f"{each['found']:,} of {each['considered']:,} delivered messages"
        console().print(safe(f"{each['list']}: {each['entries']:,} new entries would have held {looked}."))


@app.command("delete")
def delete(
    name: ListArgument,
    entries: Annotated[list[str], typer.Argument(metavar="ENTRY...", help="Entries, or - for standard input.")],
    dry_run: DryRunOption = False,
    tenant: TenantOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    cacert: CaOption = None,
    no_verify: NoVerifyOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Delete entries; entries that are not in the list are ignored."""
    from gatepost.api.lists import NewListEntry
    from gatepost.cli.list_changes import Target, change_entries

    service = ListService(url, key_file, cacert, no_verify, config, data)
    target = Target(name, parse_tenant_uid(tenant), delete=True, dry_run=dry_run, json=json)
    change_entries(service, target, [NewListEntry(entry) for entry in _read_entries(entries, name)])


@app.command("import")
def import_file(
    name: ListArgument,
    file: Annotated[Path, typer.Argument(help="One entry per line, CSV or lines of JSON; - for standard input.")],
    kind: FormatOption = None,
    remove: Annotated[bool, typer.Option("--delete", help="Delete the entries instead of adding them.")] = False,
    skip_invalid: Annotated[bool, typer.Option("--skip-invalid", help="Skip lines that the list refuses.")] = False,
    from_line: Annotated[int, typer.Option(metavar="N", min=1, help="Start at this line.")] = 1,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save the position in this file, and resume from it the next time."),
    ] = None,
    dry_run: DryRunOption = False,
    tenant: TenantOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    cacert: CaOption = None,
    no_verify: NoVerifyOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Add the entries of a file of any length, in calls of 500.

    In a plain file, empty lines and lines that start with # are skipped. CSV has the columns entry, comment and
    expires, in this order or as its first row names them; lines of JSON have fields of these names.
    """
    from gatepost.cli.list_changes import ChangePlan, Source, Target, import_file

    target = Target(name, parse_tenant_uid(tenant), delete=remove, dry_run=dry_run, json=json)
    plan = ChangePlan(
        file, _parse_format(kind, file), from_line, state, skip_invalid, Source(name, target.tenant, str(file))
    )
    import_file(ListService(url, key_file, cacert, no_verify, config, data), target, plan)


@app.command("show")
def show_entries(
    name: ListArgument,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Maximum number of entries; use export for all.")
    ] = 1_000,
    contains: Annotated[
        str, typer.Option(metavar="TEXT", help="Only entries with this text in entry or comment, ignoring case.")
    ] = "",
    tenant: TenantOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    cacert: CaOption = None,
    no_verify: NoVerifyOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print entries of a list; with --json one per line."""
    from gatepost.cli.list_files import show_entries

    service = ListService(url, key_file, cacert, no_verify, config, data)
    show_entries(service, name, parse_tenant_uid(tenant), contains, limit, json)


@app.command("export")
def export(
    name: ListArgument,
    file: Annotated[Path, typer.Argument(help="The file to write; - for standard output.")] = Path("-"),
    kind: FormatOption = None,
    tenant: TenantOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    cacert: CaOption = None,
    no_verify: NoVerifyOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format ndjson.")] = False,
) -> None:
    """Write all entries of a list, by default as lines of JSON. A file is written completely or not at all."""
    from gatepost.cli.list_files import write_entries

    wanted = _parse_format(kind, file) if (kind or file.suffix) and not json else "ndjson"
    write_entries(
        ListService(url, key_file, cacert, no_verify, config, data), name, parse_tenant_uid(tenant), file, wanted
    )


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and hyphens.")],
    kind: Annotated[str, typer.Option(metavar="KIND", help="The kind of its entries, such as sender, url or sha256.")],
    category: Annotated[
        str,
        typer.Option(
            metavar="CATEGORY", help="The effect: block, allow, policy, trust or protect, depending on the kind."
        ),
    ],
    display_name: Annotated[str, typer.Option(metavar="TEXT", help="A display name.")] = "",
    description: Annotated[str, typer.Option(metavar="TEXT", help="The purpose of the list.")] = "",
    max_size: Annotated[int | None, typer.Option(metavar="N", min=1, help="Maximum number of entries.")] = None,
    tenant: TenantOption = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Create a custom list, directly in the storage of the configuration."""
    from gatepost.cli.list_files import define_list, describe_list
    from gatepost.cli.printing import print_json
    from gatepost.lists.entries import ListRefusal
    from gatepost.store.audit import CLI
    from gatepost.store.errors import NameTaken, TooManyLists

    definition = define_list(name, kind, category, display_name, description, max_size)
    uid = parse_tenant_uid(tenant)
    made = with_store(config, data, lambda store: store.lists.create(uid, definition, CLI))
    if isinstance(made, NameTaken):
        raise StartError(f"A list named {name} already exists in this scope.")
    if isinstance(made, TooManyLists):
        raise StartError(f"The scope has {made.limit:,} custom lists, and may have no more; delete one first.")
    if isinstance(made, ListRefusal):
        raise StartError(f"The category {made.reason}.")
    made = require_found(made, uid or "")
    if json:
        print_json(describe_list(made, uid))
    else:
        print(made.name)


@app.command("drop")
def drop(
    name: ListArgument,
    tenant: TenantOption = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Delete a custom list with its entries, directly in the storage of the configuration."""
    from gatepost.cli.printing import print_json
    from gatepost.store.audit import CLI

    uid = parse_tenant_uid(tenant)
    count = require_found(
        with_store(config, data, lambda store: store.lists.delete(uid, name, CLI)), f"of your own named {name}"
    )
    if json:
        print_json({"listName": name, "tenantUid": uid, "deletedEntries": count})
    else:
        print(f"Deleted {name} with {count:,} entries.")


def _read_entries(entries: list[str], name: str) -> list[str]:
    """Return the entries of the command line, or those of standard input."""
    if entries != ["-"]:
        return entries
    from gatepost.cli.list_files import STANDARD_INPUT, open_file, read_records

    with open_file(STANDARD_INPUT) as stream:
        records = read_records(stream, "plain", "standard input", lambda _: None, name)
        return [record.entry.entry for record in records]


def _parse_format(kind: str | None, file: Path) -> "ListFileFormat":
    from gatepost.api.lists import FORMATS
    from gatepost.cli.list_files import format_of

    if kind is None:
        return format_of(file)
    for known in FORMATS:
        if kind == known:
            return known
    raise typer.BadParameter(f"must be one of {', '.join(FORMATS)}", param_hint="--format")
