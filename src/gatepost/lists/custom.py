"""Lists of an operator's own: what one may be, whoever makes it."""

from typing import get_args

import msgspec

from gatepost.lists.catalogue import KINDS, LARGE, SMALL, Definition, categories_of, counts_as, is_custom_name
from gatepost.lists.entry import Category

CATEGORIES: tuple[Category, ...] = get_args(Category)
MAX_SIZE = 100_000_000
MAX_DISPLAY_NAME = 100
MAX_DESCRIPTION = 1_000

_SITES = "; to {0} mail or links from domains, make one of kind sender or url with entries such as *.example.com"
_INSTEAD = {
    ("domain", "block"): _SITES.format("block"),
    ("domain", "policy"): _SITES.format("block"),
    ("domain", "allow"): _SITES.format("allow"),
}


class Unfit(msgspec.Struct, frozen=True):
    """The field that is wrong, by its name in `Definition`, and why."""

    field: str
    reason: str


def defined(
    name: str, kind: str, category: str, display_name: str, description: str, max_size: int | None
) -> Definition | Unfit:
    """What the list is; without a size it is as large as the usual ones of its category."""
    if not is_custom_name(name):
        return Unfit("name", "must be 1 to 63 lower-case letters, digits and hyphens, and no name of a usual list")
    if kind not in KINDS:
        return Unfit("kind", f"must be one of {', '.join(KINDS)}")
    stated = next((each for each in CATEGORIES if each == category), None)
    if stated is None:
        return Unfit("category", f"must be one of {', '.join(CATEGORIES)}")
    if not counts_as(kind, stated):
        return Unfit("category", unused(kind, stated))
    if max_size is not None and not 1 <= max_size <= MAX_SIZE:
        return Unfit("max_size", f"must be 1 to {MAX_SIZE:,}")
    if len(display_name) > MAX_DISPLAY_NAME:
        return Unfit("display_name", f"must have at most {MAX_DISPLAY_NAME} characters")
    if len(description) > MAX_DESCRIPTION:
        return Unfit("description", f"must have at most {MAX_DESCRIPTION:,} characters")
    size = max_size or (LARGE if stated in ("block", "allow") else SMALL)
    return Definition(name, kind, stated, display_name or name, description, size, custom=True)


def unused(kind: str, category: str) -> str:
    """Why there is no list of this kind and category: nothing would ever ask it."""
    fitting = " or ".join(categories_of(kind))
    advice = _INSTEAD.get((kind, category), "")
    return f"must be {fitting} for entries of kind {kind}: {category} would do nothing" + advice
