"""The list that a URL names, checked against the user's scope, changes of many entries, and what to warn of.

Entries are saved and deleted in calls of 500. Each call is atomic and may be repeated, so what was saved before a
failure stays saved.

What a user changes in one step, such as a file that is imported, is a change set however many calls it took. It is
kept with what each entry was before and is since (`store.bulk_actions`), so that its user can take it back whole. An
entry that somebody changed meanwhile is left as it is.

Free-mail providers and domains of one's own need a second look: blocking a provider holds the mail of everybody there,
and allowing it lets anybody in who opens an account.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gatepost.api.errors import LIST_NOT_FOUND, Failure
from gatepost.api.lists import split_calls
from gatepost.lists.addresses import DOMAIN, SENDER, normalise_tenant_domain
from gatepost.lists.catalogue import KINDS, ListDefinition
from gatepost.lists.entries import Category, EntryKind, ListRefusal
from gatepost.lists.links import URL
from gatepost.process.hiding import hide_path
from gatepost.store.bulk_actions import BulkAction
from gatepost.store.errors import ListFull, NotFound
from gatepost.store.feeds import FeedDefinition, FeedState
from gatepost.store.lists import NewEntry
from gatepost.web.context import ALL_TENANTS, FeedLine, Scopes, WebContext
from gatepost.web.request import GLOBAL, NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import about

NO_LIST = Failure(LIST_NOT_FOUND, "this list does not exist here; it may have been deleted")

CATEGORIES: dict[Category, str] = {
    "block": 'Matching mail is held (verdict "policy" or worse).',
    "allow": "Matching mail is not held as spam or suspicious. Malware and spoofing are still held; files listed by "
    "hash are exempt.",
    "policy": 'Matching mail violates a rule of yours and is held (verdict "policy" or worse).',
    "trust": "Trusted relay: skipped when looking for the sending host.",
    "protect": "Protected against impersonation.",
}


class ListInScope(msgspec.Struct, frozen=True):
    """A list in one scope."""

    scope: str | None
    scope_name: str
    definition: ListDefinition
    size: int

    @property
    def path(self) -> str:
        """The URL of its pages."""
        return f"/lists/{self.scope or GLOBAL}/{self.definition.name}"

    @property
    def home(self) -> str:
        """The URL of the lists of the same scope."""
        return f"/lists?scope={self.scope or GLOBAL}"

    @property
    def kind(self) -> EntryKind:
        return KINDS[self.definition.kind]

    @property
    def effect(self) -> str:
        """What a match does, as a sentence."""
        return CATEGORIES[self.definition.category]


async def find_scope(context: WebContext, request: SignedInRequest, named: str) -> tuple[str | None, str] | Failure:
    """Return the scope that a URL names with its label, or a failure where it does not exist or is not the user's."""
    scope = request.parse_scope(named)
    if isinstance(scope, Failure):
        return scope
    if scope is None:
        return None, ALL_TENANTS
    tenant = await context.store.tenants.find(scope)
    return (scope, tenant.name) if tenant else NOT_VISIBLE


async def find_list(context: WebContext, request: SignedInRequest) -> ListInScope | Failure:
    """Return the list that the URL's `scope` and `name` stand for."""
    return await find_list_of(context, request, request.path_part("scope"), request.path_part("name"))


for_list = about(find_list)


async def find_list_of(context: WebContext, request: SignedInRequest, named: str, name: str) -> ListInScope | Failure:
    """Return the list of that name in a scope, which is named as in a URL."""
    found = await find_scope(context, request, named)
    if isinstance(found, Failure):
        return found
    scope, scope_name = found
    for state in await context.store.lists.all(scope):
        if state.definition.name == name:
            return ListInScope(scope, scope_name, state.definition, state.size)
    return NO_LIST


class FeedInScope(msgspec.Struct, frozen=True):
    """A feed of one scope, and what became of its last run."""

    line: FeedLine
    state: FeedState


async def find_feeds(context: WebContext, scope: str | None, list_name: str | None = None) -> tuple[FeedInScope, ...]:
    """Return the feeds that fill the lists of a scope, or one list of it."""
    every = await find_all_feeds(context)
    return tuple(feed for feed in every if feed.line.scope == scope and list_name in (None, feed.line.list_name))


async def find_all_feeds(context: WebContext) -> tuple[FeedInScope, ...]:
    """Return the feeds of abby.yml and those of the web interface, by name; the file wins where both have one."""
    of_web = {each.name: each for each in await context.store.feeds.definitions()}
    lines = {name: _describe_definition(each) for name, each in of_web.items()}
    lines |= {feed.name: feed for feed in context.installation.feeds}
    states = {state.name: state for state in await context.store.feeds.states()} if lines else {}
    return tuple(FeedInScope(lines[name], states.get(name, FeedState(name))) for name in sorted(lines))


def _describe_definition(definition: FeedDefinition) -> FeedLine:
    feed = definition.feed
    every = None if definition.paused else feed.every
    return FeedLine(definition.name, feed.tenant, feed.list_name, hide_path(feed.url), feed.format, every, definition)


class Applied(msgspec.Struct, frozen=True):
    """How many entries were changed; `fault` says why not all of them, "" where all were. `undo` has the id of the
    change set that can be taken back; nothing where there is none."""

    modified: int = 0
    fault: str = ""
    undo: tuple[str, ...] = ()


# Entries of a change set that can be taken back; a larger one is on record, and cannot.
MAX_TAKEN_BACK = 50_000
# How the action of a change set begins; scope and list follow.
CHANGE_SET = "lists"


class EntryState(msgspec.Struct, frozen=True, array_like=True):
    """Comment and end of an entry."""

    comment: str
    expires: int | None


class EntryChange(msgspec.Struct, frozen=True, array_like=True):
    """What a step did to one entry: what it was before, and what it is since; None where it was not, or is no more."""

    key: str
    shown: str
    before: EntryState | None
    after: EntryState | None


_entry_changes = msgspec.json.Decoder(tuple[EntryChange, ...])


class ChangeSet:
    """What one user changes in a list in one step."""

    def __init__(self, context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> None:
        self._context, self._list = context, scoped_list
        self._user, self._by = request.user, request.actor
        self._parts: list[tuple[EntryChange, ...]] = []
        self._size = 0

    async def add(self, entries: Sequence[NewEntry]) -> Applied:
        """Add or update entries, up to the first call that is refused."""
        done = 0
        for call in split_calls(entries):
            final = {entry.key: entry for entry in call}
            before = await self.find(tuple(final))
            outcome = await self._context.store.lists.add(self._list.scope, self._list.definition, call, self._by)
            if not isinstance(outcome, int):
                return Applied(done, explain_refusal(outcome))
            done += outcome
            self._note(
                EntryChange(key, each.shown, before.get(key), EntryState(each.comment, each.expires))
                for key, each in final.items()
            )
        return Applied(done)

    async def remove(self, keys: Sequence[str]) -> int:
        """Delete entries; return how many of them there were."""
        done = 0
        for call in split_calls(keys):
            store, name = self._context.store.lists, self._list.definition.name
            there = await store.find(self._list.scope, name, call)
            done += await store.remove(self._list.scope, name, call, self._by)
            self._note(
                EntryChange(each.key, each.shown, EntryState(each.comment, each.expires), None) for each in there
            )
        return done

    async def keep(self) -> tuple[str, ...]:
        """Keep what was changed, to be taken back; return the id of the set, nothing where there is nothing or too
        much."""
        if not self._size or self._size > MAX_TAKEN_BACK:
            return ()
        action = f"{set_action(self._list)}{self._size}"
        items = [msgspec.json.encode(part).decode() for part in self._parts]
        return ((await self._context.store.bulk_actions.create(self._user.uid, action, items)).id,)

    async def find(self, keys: tuple[str, ...]) -> dict[str, EntryState]:
        """Return what there is of these entries."""
        found = await self._context.store.lists.find(self._list.scope, self._list.definition.name, keys)
        return {each.key: EntryState(each.comment, each.expires) for each in found}

    def _note(self, changes: Iterable[EntryChange]) -> None:
        part = tuple(each for each in changes if each.before != each.after)
        self._size += len(part)
        if part and self._size <= MAX_TAKEN_BACK:
            self._parts.append(part)


async def add_to_list(
    context: WebContext, request: SignedInRequest, scoped_list: ListInScope, entries: Sequence[NewEntry]
) -> Applied:
    """Add or update entries in one step, which can be taken back."""
    changed = ChangeSet(context, request, scoped_list)
    applied = await changed.add(entries)
    return msgspec.structs.replace(applied, undo=await changed.keep())


def set_action(scoped_list: ListInScope) -> str:
    """Return how the action of every change set of a list begins; the number of entries follows."""
    return f"{CHANGE_SET}:{scoped_list.scope or GLOBAL}:{scoped_list.definition.name}:"


class TakenBack(msgspec.Struct, frozen=True):
    """How many entries of a set were taken back, and how many were left, since somebody changed them meanwhile."""

    done: int
    left: int


async def take_back(
    context: WebContext, request: SignedInRequest, scoped_list: ListInScope, changed: BulkAction
) -> TakenBack | str:
    """Take a change set back, or return why it cannot be. That is a change set of its own."""
    if not await context.store.bulk_actions.claim(changed.id):
        return "This change was taken back already."
    undoing, done, left = ChangeSet(context, request, scoped_list), 0, 0
    for item in changed.items:
        part = _entry_changes.decode(item)
        now = await undoing.find(tuple(each.key for each in part))
        same = [each for each in part if now.get(each.key) == each.after]
        left += len(part) - len(same)
        restored = [
            NewEntry(each.key, each.shown, each.before.comment, each.before.expires) for each in same if each.before
        ]
        applied = await undoing.add(restored)
        if applied.fault:
            await undoing.keep()
            return f"{done:,} entries were taken back, the rest was not. {applied.fault}"
        done += applied.modified + await undoing.remove(tuple(each.key for each in same if each.before is None))
        await context.store.bulk_actions.add_results(changed.id, [""])
    await undoing.keep()
    return TakenBack(done, left)


def parse_domains(typed: str) -> tuple[list[str], list[str]]:
    """Return the domains of a field that has one in each line, each once, and what is wrong with other lines."""
    keys: dict[str, None] = {}
    faults = []
    for number, line in enumerate(map(str.strip, typed.splitlines()), 1):
        found = normalise_tenant_domain(line) if line else None
        if isinstance(found, ListRefusal):
            faults.append(f"line {number}: {line[:100]} {found.reason}")
        elif found:
            keys[found.key] = None
    return list(keys), faults


def explain_refusal(outcome: ListFull | NotFound) -> str:
    """Return why a call was not applied, as a sentence."""
    if isinstance(outcome, NotFound):
        return f"The {outcome.what} was deleted in the meantime."
    full = outcome.explanation
    return f"{full[0].upper()}{full[1:]}; the new ones do not fit. Delete some first, or add fewer."


# Kinds of entries that can be about a whole domain.
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
            own |= {entry.key for entry in await context.store.lists.find(owner, "own-domains", some)}
    free = await asyncio.to_thread(_find_free_mail, [each[0] for each in names.values() if each])
    found = {key: _warn(definition, each, own, free) for key, each in names.items()}
    return {key: said for key, said in found.items() if said}


def names_above(definition: ListDefinition, key: str) -> tuple[str, ...]:
    """Return the domain that an entry is about with all the domains above it; nothing for addresses and hashes."""
    if definition.kind not in _KINDS or "@" in key or not any(sign.isalpha() for sign in key):
        return ()
    labels = key.removeprefix("*.").partition("/")[0].split(".")
    return tuple(".".join(labels[cut:]) for cut in range(len(labels) - 1))


def _find_free_mail(domains: Iterable[str]) -> set[str]:
    """Return those at which anybody gets an address."""
    # The lists of known names take three megabytes and 0.2 s to read, and only those who add entries need them.
    from gatepost.checks.known_names import is_freemail

    return set(filter(is_freemail, domains))


def _warn(definition: ListDefinition, names: tuple[str, ...], own: set[str], free: set[str]) -> str:
    if ours := own & set(names):
        return f"{min(ours)} is one of your own domains."
    if names and names[0] in free:
        is_block = definition.category == "block"
        what = "This holds the mail of everybody there." if is_block else "Anybody can get an address there."
        return f"{names[0]} is a free-mail provider. {what}"
    return ""
