"""The definition of a custom list, from what an administrator types."""

import typer

from gatepost.lists.catalogue import KINDS, LARGE, SMALL, Definition, is_custom_name
from gatepost.lists.entry import Category

CATEGORIES: tuple[Category, ...] = ("block", "allow", "policy", "trust", "protect")


def defined(
    name: str, kind: str, category: str, display_name: str, description: str, max_size: int | None
) -> Definition:
    """What the list is, or a sentence about what is wrong with it."""
    if not is_custom_name(name):
        raise typer.BadParameter(
            "must be 1 to 63 lower-case letters, digits and hyphens, and no name of a usual list", param_hint="NAME"
        )
    if kind not in KINDS:
        raise typer.BadParameter(f"must be one of {', '.join(KINDS)}", param_hint="--kind")
    stated = next((each for each in CATEGORIES if each == category), None)
    if stated is None:
        raise typer.BadParameter(f"must be one of {', '.join(CATEGORIES)}", param_hint="--category")
    size = max_size or (LARGE if stated in ("block", "allow") else SMALL)
    return Definition(name, kind, stated, display_name or name, description, size, custom=True)
