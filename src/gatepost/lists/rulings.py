"""The values of a message that list entries can cover, and what the hits on them mean for the message.

A subject is such a value. It has a key for every entry that would cover it, so that one exact look-up finds them all.
Subjects are stored with the result, so that "what would this entry have hit" can be answered later without the message.

A ruling says who is blocked, who is allowed, and what an allow may not do. Precedence holds within a pair (senders,
networks, links, files): a block beats an allow of the same scope, and the tenant's allow beats a global block for
senders and networks only. A block of another pair stands. An allowed sender must have proven that it is the sender;
otherwise the allow is refused, and the ledger says so. What each list does stands in the `catalogue`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from gatepost.lists.catalogue import BY_NAME, KIND_OF_ROLE, LISTS, ListDefinition
from gatepost.lists.entries import Role
from gatepost.questions import Hit, ReputationValue


class Subject(msgspec.Struct, frozen=True, array_like=True):
    """One thing that is looked up: what it is to the message, its value, and where it was found."""

    role: Role
    value: str
    where: str

    @property
    def kind(self) -> str:
        """The kind of list entry that can cover it."""
        return KIND_OF_ROLE[self.role].name

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that an entry covering it would have."""
        return KIND_OF_ROLE[self.role].list_keys(self.value)


def collect_keys(asked: Iterable[Subject], kinds: Collection[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the keys of all subjects of these kinds, each once: one question to the lists."""
    if not kinds:
        return ()
    by_kind: dict[str, dict[str, None]] = {}
    for subject in asked:
        if subject.kind not in kinds:
            continue
        by_kind.setdefault(subject.kind, {}).update(dict.fromkeys(subject.keys))
    return tuple((kind, tuple(keys)) for kind, keys in by_kind.items())


def make_subject(value: ReputationValue) -> Subject:
    """Return what reputation zones are asked about as a subject of lists: an entry that allows it keeps it private."""
    match value.subject:
        case "host" | "file":
            return Subject(value.subject, value.value, "")
        case "link":
            return Subject("link", f"https://{value.value}/", "")
        case "sender":
            # Any mailbox will do: only entries for the domain are meant.
            return Subject("from", f"-@{value.value}", "")
        case "address":
            return Subject("from", value.value, "")


class Match(msgspec.Struct, frozen=True):
    """A hit on one subject."""

    hit: Hit
    subject: Subject


class Ruling(msgspec.Struct, frozen=True):
    """`blocks` say no. `allows` lift what an allow may lift from the whole message; `cleared` links and files are those
    on which findings do not count. `refused` are allows or blocks that had no effect, each with the reason."""

    blocks: tuple[Match, ...] = ()
    allows: tuple[Match, ...] = ()
    cleared: tuple[Match, ...] = ()
    refused: tuple[tuple[Match, str], ...] = ()

    @property
    def clear(self) -> dict[str, Match]:
        """The cleared links (by URL) and files (by hash)."""
        return {match.subject.value: match for match in self.cleared}


NO_RULING = Ruling()
# The lists that are matched against values of a message, in the order in which a ruling names them.
_MATCHED = tuple(definition for definition in LISTS if definition.subjects)
_BLOCKS = tuple(definition for definition in _MATCHED if definition.effect == "block")
_ALLOWS = tuple(definition for definition in _MATCHED if definition.effect == "lift")
_CLEARS = tuple(definition for definition in _MATCHED if definition.effect in ("clear", "clear-attacks"))
# The roles of what may be cleared of conclusive findings of an attack too.
CLEARED_OF_ATTACKS = frozenset(role for each in _CLEARS if each.effect == "clear-attacks" for role in each.subjects)

_Standing = dict[str, list[Match]]
_Refused = list[tuple[Match, str]]


def rule_on(
    hits: Iterable[Hit],
    asked: Iterable[Subject],
    *,
    authenticated: bool,
    custom: Mapping[str, str] | None = None,
    found: Iterable[Match] = (),
) -> Ruling:
    """Apply the precedence of the lists to the hits on the subjects that were asked about, and to what was found by the
    lists that are handed out whole. `custom` says which usual list each of the operator's own counts for, by its
    `scoped_name`."""
    hits, found = tuple(hits), tuple(found)
    if not hits and not found:
        return NO_RULING
    standing: _Standing = {definition.name: [] for definition in _MATCHED}
    for match in (*_match_subjects(hits, asked), *found):
        name = (custom or {}).get(scoped_name(match.hit.scope, match.hit.list), match.hit.list)
        # `a.example` as a link is not `a.example` as a sender: what a list is for decides, not what the key looks like.
        if name in standing and match.subject.role in BY_NAME[name].subjects:
            standing[name].append(match)
    refused = _refuse_unproven(standing, authenticated=authenticated)
    for definition in _BLOCKS:
        if definition.pair:
            refused += _settle_pair(definition, standing)
    return Ruling(_join(standing, _BLOCKS), _join(standing, _ALLOWS), _join(standing, _CLEARS), tuple(refused))


def scoped_name(scope: str, name: str) -> str:
    """Return what a custom list is known by: a tenant's list and a global one of the same name may differ in kind."""
    return f"{scope}:{name}"


def _match_subjects(hits: tuple[Hit, ...], asked: Iterable[Subject]) -> Iterator[Match]:
    """Yield each hit with every subject that its key covers."""
    if not hits:
        return
    by_key: dict[str, list[Subject]] = {}
    for subject in asked:
        for key in subject.keys:
            by_key.setdefault(key, []).append(subject)
    for hit in hits:
        for subject in by_key.get(hit.key, ()):
            yield Match(hit, subject)


def _join(standing: _Standing, definitions: Iterable[ListDefinition]) -> tuple[Match, ...]:
    return tuple(match for definition in definitions for match in standing[definition.name])


def _refuse_unproven(standing: _Standing, *, authenticated: bool) -> _Refused:
    """Take out the allows of senders that have not proven themselves, unless their host is allowed; return those."""
    if authenticated or any(standing[each.name] for each in _ALLOWS if not each.needs_proof):
        return []
    reason = "its domain is not authenticated, nor is the host allowed"
    refused = [(match, reason) for each in _ALLOWS if each.needs_proof for match in standing[each.name]]
    standing.update({each.name: [] for each in _ALLOWS if each.needs_proof})
    return refused


def _settle_pair(block_list: ListDefinition, standing: _Standing) -> _Refused:
    """Take out the blocks that an allow of the same pair beats, then the allows that a block beats; return both."""
    allow_list = BY_NAME[block_list.pair]
    # Links and files are judged one by one, senders and hosts for the whole message.
    is_whole = allow_list.effect == "lift"
    blocks, allows = standing[block_list.name], standing[allow_list.name]
    stronger = [each for each in allows if each.hit.scope == "tenant"] if block_list.tenant_allow_wins else []
    refused: _Refused = []
    for block in blocks:
        rescuer = _find_about(block, stronger, is_whole) if block.hit.scope == "global" else None
        if rescuer:
            refused.append((block, f"the tenant allows {rescuer.hit.key}"))
    beaten = {block for block, _ in refused}
    kept = standing[block_list.name] = [block for block in blocks if block not in beaten]
    standing[allow_list.name] = []
    for allow in allows:
        winner = _find_about(allow, kept, is_whole)
        if winner:
            refused.append((allow, f"{winner.hit.list} has {winner.hit.key}"))
        else:
            standing[allow_list.name].append(allow)
    return refused


def _find_about(match: Match, others: Iterable[Match], is_whole: bool) -> Match | None:
    """Return the first of the others that concerns the same thing."""
    return next((each for each in others if is_whole or each.subject.value == match.subject.value), None)
