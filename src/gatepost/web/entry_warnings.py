"""Entries that need a second look before they are saved: domains of one's own, and free-mail providers.

Blocking a free-mail provider holds the mail of everybody there, and allowing it lets anybody in who opens an account.
Addresses, hashes and hosts by number are about somebody in particular and need none.
"""

from collections.abc import Iterable, Mapping

from gatepost.checks.known_names import is_freemail
from gatepost.lists.addresses import DOMAIN, SENDER
from gatepost.lists.catalogue import ListDefinition
from gatepost.lists.links import URL
from gatepost.web.context import Scopes, WebContext
from gatepost.web.list_access import split_calls

_KINDS = frozenset({SENDER.name, URL.name, DOMAIN.name})


async def find_warnings(
    context: WebContext, scopes: Scopes, scope: str | None, definition: ListDefinition, keys: Iterable[str]
) -> Mapping[str, str]:
    """Return why entries of a list need a second look, each as a sentence, by their keys; others are left out."""
    if definition.category not in ("block", "allow"):
        return {}
    names = {key: names_above(definition, key) for key in keys}
    wanted = dict.fromkeys(name for each in names.values() for name in each)
    own = {domain for tenant in scopes.tenants for domain in tenant.domains}
    for some in split_calls(tuple(wanted)):
        for owner in {None, scope}:
            own |= {entry.key for entry in await context.store.entries(owner, "own-domains", some)}
    found = {key: _warn(definition, each, own) for key, each in names.items()}
    return {key: said for key, said in found.items() if said}


def names_above(definition: ListDefinition, key: str) -> tuple[str, ...]:
    """Return the domain that an entry is about with all the domains above it; nothing for addresses and hashes."""
    if definition.kind not in _KINDS or "@" in key or not any(sign.isalpha() for sign in key):
        return ()
    labels = key.removeprefix("*.").partition("/")[0].split(".")
    return tuple(".".join(labels[cut:]) for cut in range(len(labels) - 1))


def _warn(definition: ListDefinition, names: tuple[str, ...], own: set[str]) -> str:
    if ours := own & set(names):
        return f"{min(ours)} is one of your own domains."
    if names and is_freemail(names[0]):
        is_block = definition.category == "block"
        what = "This holds the mail of everybody there." if is_block else "Anybody can get an address there."
        return f"{names[0]} is a free-mail provider. {what}"
    return ""
