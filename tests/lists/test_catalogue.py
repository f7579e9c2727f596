"""Lists of one's own: each kind has the categories in which a list does something, and no others."""

from typing import get_args

import pytest

from gatepost.lists.catalogue import (
    BY_NAME,
    KINDS,
    LARGE,
    LISTS,
    MAX_SIZE,
    SMALL,
    ListDefinition,
    define_custom_list,
    find_usual_list,
    list_categories,
)
from gatepost.lists.entries import Category, ListRefusal

MEANINGS = {
    "sender": {"block": "blocked-senders", "allow": "allowed-senders", "policy": "blocked-senders"},
    "network": {"block": "blocked-ips", "allow": "allowed-ips", "policy": "blocked-ips", "trust": "trusted-relays"},
    "url": {"block": "blocked-urls", "allow": "allowed-urls", "policy": "blocked-urls"},
    "sha256": {"block": "blocked-files", "allow": "allowed-files", "policy": "blocked-files"},
    "file-type": {"block": "blocked-file-types", "policy": "blocked-file-types"},
    "file-name": {"block": "blocked-file-names", "policy": "blocked-file-names"},
    "phrase": {"block": "blocked-phrases", "policy": "blocked-phrases"},
    "domain": {"protect": "partner-domains"},
    "person": {"protect": "protected-people"},
    "name": {"protect": "protected-names"},
    "recipient": {"allow": "known-recipients"},
}


def make(
    kind: str = "url", category: str = "block", name: str = "mine", size: int | None = None, shown: str = ""
) -> ListDefinition | ListRefusal:
    return define_custom_list(name, kind, category, shown, "", size)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("category", get_args(Category))
def test_what_can_be_made_does_something(kind: str, category: str) -> None:
    made = make(kind, category)
    meaning = MEANINGS[kind].get(category, "")
    assert find_usual_list(kind, category) == meaning
    if meaning:
        assert isinstance(made, ListDefinition)
        assert made.counts_as == meaning
        assert BY_NAME[meaning].kind == kind
        is_large = category in ("block", "allow") and made.keyed
        assert made.max_size == (LARGE if is_large else min(SMALL, BY_NAME[meaning].max_size))
    else:
        assert isinstance(made, ListRefusal)
        assert made.field == "category"
        assert made.reason.startswith(f"must be {' or '.join(MEANINGS[kind])} for entries of kind {kind}: {category} ")


def test_categories_of_a_kind() -> None:
    assert {kind: set(list_categories(kind)) for kind in KINDS} == {kind: set(what) for kind, what in MEANINGS.items()}
    assert all(definition.counts_as == definition.name for definition in LISTS)


def test_domains_to_block_are_told_where_they_belong() -> None:
    made = make("domain", "block")
    assert isinstance(made, ListRefusal)
    assert "to block mail or links from domains, make one of kind sender or url" in made.reason


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (make(name="Bad Name"), "name"),
        (make(name="blocked-urls"), "name"),
        (make("links"), "kind"),
        (make(category="deny"), "category"),
        (make(size=0), "max_size"),
        (make(size=MAX_SIZE + 1), "max_size"),
        (make(shown="x" * 101), "display_name"),
    ],
)
def test_what_is_no_list(made: ListDefinition | ListRefusal, field: str) -> None:
    assert isinstance(made, ListRefusal)
    assert made.field == field
