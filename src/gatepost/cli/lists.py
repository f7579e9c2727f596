"""`gatepost lists`: a client of the List API, and the creation of custom lists, which needs access to storage."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gatepost.cli.api_client import ListService
from gatepost.cli.commands import Argument, BadParameter, Group, Option
from gatepost.cli.deployment import (
    Deployment,
    TenantOption,
    YesOption,
    parse_moment,
    parse_tenant_uid,
    render_time,
    require_found,
)
from gatepost.cli.printing import Output, render_count
from gatepost.service.data_folder import StartError
from gatepost.store.errors import NameTaken, TooManyLists

if TYPE_CHECKING:
    from gatepost.api.lists import ListFileFormat
    from gatepost.lists.catalogue import ListDefinition

group = Group("Read and change lists of senders, networks, links, files, phrases and names.")

ListArgument = Annotated[str, Argument(metavar="LIST", help="The list's name.")]
EntriesArgument = Annotated[list[str], Argument(metavar="ENTRY", help="Entries, or - for standard input.")]
DryRunOption = Annotated[
    bool, Option("--dry-run", help="Change nothing; print which of the last messages would be affected.")
]
FormatOption = Annotated[
    str | None, Option("--format", metavar="FORMAT", help="plain, csv or ndjson; by default from the name of the file.")
]


@group.command("list")
def show_lists(*, tenant: TenantOption = None, service: ListService, output: Output) -> None:
    """Print the lists of a scope."""
    uid = parse_tenant_uid(tenant)
    with service.connect() as client:
        infos = client.get_lists(tenant=uid)
    lines = [
        (info.list_name, info.list_info.category, f"{info.list_info.max_size:,}", info.list_info.description)
        for info in infos
    ]
    output.show_table(infos, ("list", "category", "max size", "description"), lines)


@group.command("add")
def add(
    name: ListArgument,
    entries: EntriesArgument,
    *,
    comment: Annotated[str, Option(metavar="TEXT", help="A comment for people.")] = "",
    expires: Annotated[
        str | None, Option(metavar="DATE", help="The last day on which the entry counts (UTC), or a date-time.")
    ] = None,
    dry_run: DryRunOption = False,
    tenant: TenantOption = None,
    service: ListService,
    output: Output,
) -> None:
    """Add entries, or update existing ones."""
    from gatepost.api.lists import NewListEntry
    from gatepost.cli.list_changes import Changing, Source, change_entries

    until = render_time(parse_moment(expires, "--expires", end=True)) or None
    stated = [NewListEntry(entry, comment or None, until) for entry in _read_entries(entries, name)]
    change_entries(service, Changing(Source(name, parse_tenant_uid(tenant)), output, dry_run=dry_run), stated)


@group.command("delete")
def delete(
    name: ListArgument,
    entries: EntriesArgument,
    *,
    dry_run: DryRunOption = False,
    tenant: TenantOption = None,
    yes: YesOption = False,
    service: ListService,
    output: Output,
) -> None:
    """Delete entries; entries that are not in the list are ignored."""
    from gatepost.api.lists import NewListEntry
    from gatepost.cli.list_changes import Changing, Source, change_entries

    changing = Changing(Source(name, parse_tenant_uid(tenant)), output, delete=True, dry_run=dry_run)
    given = _read_entries(entries, name)
    if not dry_run:
        service.announce(
            f"Deletes up to {render_count(len(given), 'entry', 'entries')} of {name} at", yes=yes or entries == ["-"]
        )
    change_entries(service, changing, [NewListEntry(entry) for entry in given])


@group.command("import")
def import_file(
    name: ListArgument,
    file: Annotated[Path, Argument(help="One entry per line, CSV or lines of JSON; - for standard input.")],
    *,
    kind: FormatOption = None,
    remove: Annotated[bool, Option("--delete", help="Delete the entries instead of adding them.")] = False,
    skip_invalid: Annotated[bool, Option("--skip-invalid", help="Skip lines that the list refuses.")] = False,
    from_line: Annotated[int, Option(metavar="N", least=1, help="Start at this line.")] = 1,
    state: Annotated[
        Path | None, Option(metavar="FILE", help="Save the position in this file, and resume from it the next time.")
    ] = None,
    dry_run: DryRunOption = False,
    tenant: TenantOption = None,
    service: ListService,
    output: Output,
) -> None:
    """Add the entries of a file of any length, in calls of 500.

    In a plain file, empty lines and lines that start with # are skipped. CSV has the columns entry, comment and
    expires, in this order or as its first row names them; lines of JSON have fields of these names.
    """
    from gatepost.cli.list_changes import Changing, Source, import_file

    source = Source(name, parse_tenant_uid(tenant), str(file))
    changing = Changing(source, output, delete=remove, dry_run=dry_run, skip=skip_invalid)
    import_file(service, changing, file, _parse_format(kind, file), from_line, state)


@group.command("show")
def show_entries(
    name: ListArgument,
    *,
    limit: Annotated[int, Option(metavar="N", least=1, help="Maximum number of entries; use export for all.")] = 1_000,
    contains: Annotated[
        str, Option(metavar="TEXT", help="Only entries with this text in entry or comment, ignoring case.")
    ] = "",
    tenant: TenantOption = None,
    service: ListService,
    output: Output,
) -> None:
    """Print entries of a list; with --json one per line."""
    from gatepost.cli.list_changes import show_entries

    show_entries(service, name, parse_tenant_uid(tenant), contains, limit, output)


@group.command("export")
def export(
    name: ListArgument,
    file: Annotated[Path, Argument(help="The file to write; - for standard output.")] = Path("-"),
    *,
    kind: FormatOption = None,
    tenant: TenantOption = None,
    service: ListService,
    json: Annotated[bool, Option("--json", help="The same as --format ndjson.")] = False,
) -> None:
    """Write all entries of a list, by default as lines of JSON. A file is written completely or not at all."""
    from gatepost.cli.list_changes import write_entries

    wanted = _parse_format(kind, file) if (kind or file.suffix) and not json else "ndjson"
    write_entries(service, name, parse_tenant_uid(tenant), file, wanted)


@group.command("create")
def create(
    name: Annotated[str, Argument(help="Lower-case letters, digits and hyphens.")],
    *,
    kind: Annotated[str, Option(metavar="KIND", help="The kind of its entries, such as sender, url or sha256.")],
    category: Annotated[
        str,
        Option(metavar="CATEGORY", help="The effect: block, allow, policy, trust or protect, depending on the kind."),
    ],
    display_name: Annotated[str, Option(metavar="TEXT", help="A display name.")] = "",
    description: Annotated[str, Option(metavar="TEXT", help="The purpose of the list.")] = "",
    max_size: Annotated[int | None, Option(metavar="N", least=1, help="Maximum number of entries.")] = None,
    tenant: TenantOption = None,
    place: Deployment,
    output: Output,
) -> None:
    """Create a custom list, directly in the storage of the configuration."""
    from gatepost.lists.catalogue import define_custom_list
    from gatepost.lists.entries import ListRefusal

    definition = define_custom_list(name, kind, category, display_name, description, max_size)
    if isinstance(definition, ListRefusal):
        option = "NAME" if definition.field == "name" else f"--{definition.field.replace('_', '-')}"
        raise BadParameter(definition.reason, option)
    uid = parse_tenant_uid(tenant)
    made = place.with_store(lambda store: store.lists.create(uid, definition, place.actor))
    if isinstance(made, NameTaken):
        raise StartError(f"A list named {name} already exists in this scope.")
    if isinstance(made, TooManyLists):
        raise StartError(f"The scope has {made.limit:,} custom lists, and may have no more; delete one first.")
    if isinstance(made, ListRefusal):
        raise StartError(f"The category {made.reason}.")
    made = require_found(made, uid or "")
    output.show(_describe_list(made, uid), made.name)


def _describe_list(made: "ListDefinition", tenant: str | None) -> dict[str, object]:
    """Return a list as `getLists` answers it, with its kind and scope."""
    about = {
        "displayName": made.display_name,
        "category": made.category,
        "description": made.description,
        "maxSize": made.max_size,
    }
    return {"listName": made.name, "tenantUid": tenant, "kind": made.kind, "listInfo": about}


@group.command("drop")
def drop(
    name: ListArgument, *, tenant: TenantOption = None, yes: YesOption = False, place: Deployment, output: Output
) -> None:
    """Delete a custom list with its entries, directly in the storage of the configuration."""
    uid = parse_tenant_uid(tenant)
    place.announce(f"Deletes the list {name} of {uid or 'all tenants'} with its entries from", yes=yes)
    found = place.with_store(lambda store: store.lists.delete(uid, name, place.actor))
    count = require_found(found, f"of your own named {name}")
    described = {"listName": name, "tenantUid": uid, "deletedEntries": count}
    output.show(described, f"Deleted {name} with {render_count(count, 'entry', 'entries')}.")


def _read_entries(entries: list[str], name: str) -> list[str]:
    """Return the entries of the command line, or those of standard input."""
    if entries != ["-"]:
        return entries
    from gatepost.cli.list_changes import STANDARD_INPUT, open_file, read_records

    with open_file(STANDARD_INPUT) as stream:
        records = read_records(stream, "plain", "standard input", name)
        return [record.entry.entry for record in records]


def _parse_format(kind: str | None, file: Path) -> "ListFileFormat":
    from gatepost.api.lists import FORMATS, format_of

    if kind is None:
        return format_of(file.name)
    for known in FORMATS:
        if kind == known:
            return known
    raise BadParameter(f"must be one of {', '.join(FORMATS)}", "--format")
