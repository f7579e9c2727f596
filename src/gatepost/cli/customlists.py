"""The definition of a custom list, from what an administrator types."""

import typer

from gatepost.lists import custom
from gatepost.lists.catalogue import Definition
from gatepost.lists.custom import Unfit


def defined(
    name: str, kind: str, category: str, display_name: str, description: str, max_size: int | None
) -> Definition:
    """What the list is, or a sentence about what is wrong with it."""
    made = custom.defined(name, kind, category, display_name, description, max_size)
    if isinstance(made, Unfit):
        place = "NAME" if made.field == "name" else f"--{made.field.replace('_', '-')}"
        raise typer.BadParameter(made.reason, param_hint=place)
    return made


def described(made: Definition, tenant: str | None) -> dict[str, object]:
    """A list as `getLists` has it, with its kind and its scope."""
    about = {
        "displayName": made.display_name,
        "category": made.category,
        "description": made.description,
        "maxSize": made.max_size,
    }
    return {"listName": made.name, "tenantUid": tenant, "kind": made.kind, "listInfo": about}
