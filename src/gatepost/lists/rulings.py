"""What the hits on lists mean for one message: who is blocked, who is allowed, and what an allow may not do.

Precedence holds within a pair (senders, networks, links, files): a block beats an allow of the same scope, and the
tenant's allow beats a global block for senders and networks only. A block of another pair stands. An allowed sender
must have proven that it is the sender; otherwise the allow is refused, and the ledger says so.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gatepost.lists.subjects import Role, Subject
from gatepost.questions import Hit

_MAIL_LISTS: dict[str, frozenset[Role]] = {
    "blocked-senders": frozenset({"envelope", "from", "sender"}),
    "allowed-senders": frozenset({"from"}),
    "blocked-ips": frozenset({"host"}),
    "allowed-ips": frozenset({"host"}),
    "blocked-urls": frozenset({"link"}),
    "allowed-urls": frozenset({"link"}),
    "blocked-files": frozenset({"file"}),
    "allowed-files": frozenset({"file"}),
    "blocked-file-types": frozenset({"type"}),
    "blocked-phrases": frozenset({"text"}),
}
_PAIRS = {
    "blocked-senders": "allowed-senders",
    "blocked-ips": "allowed-ips",
    "blocked-urls": "allowed-urls",
    "blocked-files": "allowed-files",
}
_TENANT_ALLOW_WINS = frozenset({"blocked-senders", "blocked-ips"})


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


def rule_on(
    hits: Iterable[Hit], asked: Iterable[Subject], *, authenticated: bool, custom: Mapping[str, str] | None = None
) -> Ruling:
    """Apply the precedence of the lists. `custom` says which usual list each of the operator's own counts for, by its
    `scoped_name`."""
    hits = tuple(hits)
    if not hits:
        return NO_RULING
    standing: dict[str, list[Match]] = {name: [] for name in _MAIL_LISTS}
    for name, match in _match_subjects(hits, asked, custom or {}):
        standing[name].append(match)
    blocks: list[Match] = []
    refused: list[tuple[Match, str]] = []
    senders = standing["allowed-senders"]
    if senders and not (authenticated or standing["allowed-ips"]):
        refused += [(match, "its domain is not authenticated, nor is the host allowed") for match in senders]
        standing["allowed-senders"] = []
    for name, allow in _PAIRS.items():
        kept, beaten, lost = _settle_pair(standing[name], standing[allow], name in _TENANT_ALLOW_WINS)
        blocks += kept
        refused += beaten + lost
        standing[allow] = [match for match in standing[allow] if match not in {gone for gone, _ in lost}]
    blocks += standing["blocked-file-types"] + standing["blocked-phrases"]
    allows = (*standing["allowed-senders"], *standing["allowed-ips"])
    cleared = (*standing["allowed-urls"], *standing["allowed-files"])
    return Ruling(tuple(blocks), allows, cleared, tuple(refused))


def scoped_name(scope: str, name: str) -> str:
    """Return what a custom list is known by: a tenant's list and a global one of the same name may differ in kind."""
    return f"{scope}:{name}"


def _match_subjects(
    hits: Iterable[Hit], asked: Iterable[Subject], custom: Mapping[str, str]
) -> Iterator[tuple[str, Match]]:
    """Yield each hit with every subject that it covers, and the list that it counts for.

    `a.example` as a link is not `a.example` as a sender: what a list is for decides, not what the key looks like.
    """
    by_key: dict[str, list[Subject]] = {}
    for subject in asked:
        for key in subject.keys:
            by_key.setdefault(key, []).append(subject)
    for hit in hits:
        name = custom.get(scoped_name(hit.scope, hit.list), hit.list)
        for subject in by_key.get(hit.key, ()):
            if subject.role in _MAIL_LISTS.get(name, ()):
                yield name, Match(hit, subject)


def _settle_pair(
    blocks: list[Match], allows: list[Match], tenant_allow_wins: bool
) -> tuple[list[Match], list[tuple[Match, str]], list[tuple[Match, str]]]:
    """Return the blocks that stand, those that an allow beat, and the allows that a block beat."""
    kept: list[Match] = []
    beaten: list[tuple[Match, str]] = []
    for block in blocks:
        rescuer = next((a for a in allows if _beats(a, block, tenant_allow_wins)), None)
        if rescuer:
            beaten.append((block, f"the tenant allows {rescuer.hit.key}"))
        else:
            kept.append(block)
    lost = []
    for allow in allows:
        winner = next((block for block in kept if _is_same_subject(allow, block)), None)
        if winner:
            lost.append((allow, f"{winner.hit.list} has {winner.hit.key}"))
    return kept, beaten, lost


def _beats(allow: Match, block: Match, tenant_allow_wins: bool) -> bool:
    return (
        tenant_allow_wins
        and allow.hit.scope == "tenant"
        and block.hit.scope == "global"
        and _is_same_subject(allow, block)
    )


def _is_same_subject(one: Match, other: Match) -> bool:
    """Return whether two matches concern the same thing: links and files are judged one by one, senders and hosts for
    the whole message."""
    return one.subject.kind in ("sender", "network") or one.subject.value == other.subject.value
