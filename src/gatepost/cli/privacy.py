"""`gatepost privacy`: export or erase everything that is stored about one address, while the service runs."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from gatepost.cli.commands import Argument, BadParameter, Group, Option
from gatepost.cli.deployment import Deployment, YesOption
from gatepost.cli.printing import Output, ProgressBar, print_json, print_table
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.cli.privacy_steps import Choices, Show, Tally
    from gatepost.store.privacy import Person
    from gatepost.store.store import Store

group = Group("Export or erase what is stored about one address.")

AddressArgument = Annotated[str, Argument(metavar="ADDRESS", help="The address of the person.")]


@group.command("export")
def export(
    address: AddressArgument,
    *,
    file: Annotated[
        Path | None, Option("--output", metavar="FILE", help="Write everything to this file, one JSON per line.")
    ] = None,
    place: Deployment,
    output: Output,
) -> None:
    """Find everything that is stored about an address; print how much it is, or all of it with --json or --output."""
    from gatepost.api.scanning import encode_scanning
    from gatepost.cli.privacy_steps import Choices

    person = _parse_person(address)
    items: list[dict[str, Any]] = []
    if file is None:
        show: Show = (lambda kind, item: items.append({"kind": kind, "data": item})) if output.json else _show_nothing
        tallies = _go_through(person, Choices(), show, place)
    else:
        try:
            descriptor = os.open(file.expanduser(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as fault:
            raise StartError(f"{file} cannot be written: {fault.strerror}.") from None
        with os.fdopen(descriptor, "wb") as stream:
            tallies = _go_through(
                person,
                Choices(),
                lambda kind, item: stream.write(encode_scanning({"kind": kind, "data": item}) + b"\n"),
                place,
            )
    if output.json:
        report = {"address": person.address, "found": {kind: tally.found for kind, tally in tallies.items()}}
        print(encode_scanning({**report, "items": items} if file is None else report).decode())
        return
    _print_tallies(tallies, ("found",))
    _say_unreadable(tallies)
    print("Nothing else was found." if file else "Use --output FILE or --json to get the data themselves.")


@group.command("erase")
def erase(
    address: AddressArgument,
    *,
    dry_run: Annotated[bool, Option("--dry-run", help="Change nothing; print what would be found.")] = False,
    lists: Annotated[
        bool, Option("--lists", help="Delete list entries too; without it they stay, since they protect others.")
    ] = False,
    users: Annotated[
        bool, Option("--users", help="Delete the user of this name too, with sessions and sign-in attempts.")
    ] = False,
    held: Annotated[
        bool, Option("--held", help="Delete held mail too in which the address is not the only recipient.")
    ] = False,
    yes: YesOption = False,
    place: Deployment,
    output: Output,
) -> None:
    """Delete every record that names an address; what must stay gets a pseudonym in its place.

    Asks for confirmation on a terminal unless --yes is given. An erasure that was interrupted is resumed by starting it
    again.
    """
    from gatepost.cli.privacy_steps import Choices
    from gatepost.store.privacy import new_pseudonym

    person = _parse_person(address)
    if not dry_run and not yes and not sys.stdin.isatty():
        raise StartError("Erasing cannot be undone: say --yes, or --dry-run to see what would be erased.")
    if not dry_run:
        place.announce(f"Erases {person.address} for good from everything that is stored in", yes=yes)
    pseudonym = "" if dry_run else new_pseudonym()
    choices = Choices(pseudonym, lists=lists, users=users, held=held)
    tallies = _go_through(person, choices, _show_nothing, place)
    if output.json:
        print_json({"dryRun": dry_run, "pseudonym": pseudonym or None, "kinds": msgspec.to_builtins(tallies)})
        return
    _print_tallies(tallies, ("found",) if dry_run else ("found", "deleted", "changed", "kept"))
    _say_unreadable(tallies)
    if dry_run:
        print("Nothing was changed.")
        return
    print(f"The pseudonym is {pseudonym}.")
    _explain_kept(tallies, lists=lists, users=users)


def _say_unreadable(tallies: "dict[str, Tally]") -> None:
    """Say how many records could not be looked through."""
    from gatepost.cli.privacy_steps import KINDS

    for kind, tally in tallies.items():
        if tally.unreadable:
            print(
                f"{KINDS[kind]}: {tally.unreadable:,} cannot be read. Their sender, recipients and subject do not have"
                " the address, and they are left as they are; they go with their retention."
            )


def _explain_kept(tallies: "dict[str, Tally]", *, lists: bool, users: bool) -> None:
    if tallies["lists"].kept and not lists:
        print("List entries were kept, since they protect others; --lists deletes them.")
    if tallies["users"].kept:
        print("The user is the last administrator." if users else "The user was kept; --users deletes it.")
    if tallies["held"].kept:
        print("Mail that is still held was kept until it is decided; --held deletes it.")
    if tallies["held"].changed:
        print("The bytes of mail that is still held for others can have the address until it is decided.")


def _parse_person(address: str) -> "Person":
    from gatepost.store.privacy import Person

    try:
        return Person(address)
    except ValueError as fault:
        raise BadParameter(str(fault), "ADDRESS") from None


def _show_nothing(_kind: str, _item: object) -> None:
    """Show nothing of what was found."""


def _go_through(person: "Person", choices: "Choices", show: "Show", place: Deployment) -> "dict[str, Tally]":
    """Go through everything, with a line of progress on a terminal; returns the counts."""
    from gatepost.cli.privacy_steps import PersonalData

    folder = place.data_folder.path

    async def run(store: "Store") -> "dict[str, Tally]":
        whole = PersonalData(store, folder, person, choices, show)
        # Before anything is changed, so that an erasure which is killed is on the trail too.
        if choices.pseudonym:
            await store.privacy.note("erase", place.actor, choices.pseudonym)
        await whole.go_through()
        count = sum(tally.found for tally in whole.tallies.values())
        if choices.pseudonym:
            await store.privacy.note("erased", place.actor, choices.pseudonym, count)
        else:
            await store.privacy.note("export", place.actor, count=count)
        return whole.tallies

    with ProgressBar("Looking through everything that is stored"):
        return place.with_store(run)


def _print_tallies(tallies: "dict[str, Tally]", columns: tuple[str, ...]) -> None:
    from gatepost.cli.privacy_steps import KINDS

    lines = [(KINDS[kind], *(f"{getattr(tally, each):,}" for each in columns)) for kind, tally in tallies.items()]
    print_table(("kind", *columns), lines)
