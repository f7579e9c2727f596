"""How many bytes the lists of a scope that are handed out whole have together, and what they may have.

The sum stands with the scope and is changed with the entries: so a call costs what its own entries cost, however long
the lists are. A program of a version before this one changes entries without it, but raises the version of the lists
(`scopes.unkeyed`) as every change does: a sum that is of another version is not believed, and all entries are counted.
Expired entries are part of the sum until they are purged; where they would keep a call from its place, they are left
out.
"""

from collections.abc import Iterable, Mapping, Sequence

from gatepost.lists.catalogue import MAX_UNKEYED_BYTES, UNKEYED_ENTRY_BYTES
from gatepost.store.engine import Many, Read, Work, Write
from gatepost.store.errors import ListFull

# Of one row of `entries`.
ENTRY_BYTES = f"{UNKEYED_ENTRY_BYTES} + octet_length(key) + COALESCE(octet_length(shown), 0)"
_SUM = f"SELECT CAST(COALESCE(sum({ENTRY_BYTES}), 0) AS BIGINT) FROM entries WHERE "  # noqa: S608
_ALL = _SUM + "list_id = ANY($1)"
_OF_KEYS = _SUM + "list_id = $1 AND key = ANY($2)"
_EXPIRED = _SUM + "list_id = ANY($1) AND expires <= $2 AND NOT (list_id = $3 AND key = ANY($4))"
_COUNTED = "SELECT unkeyed_bytes FROM scopes WHERE scope = $1 AND counted_version = unkeyed"
_LOCK_SCOPE = "SELECT unkeyed FROM scopes WHERE scope = $1 FOR UPDATE"
_SET = "UPDATE scopes SET unkeyed_bytes = $2, counted_version = unkeyed WHERE scope = $1"
_SUBTRACT = "UPDATE scopes SET unkeyed_bytes = unkeyed_bytes - $2 WHERE scope = $1 AND counted_version = unkeyed"
_FORGET = "UPDATE scopes SET counted_version = 0"


def count_bytes(key: str, shown: str | None) -> int:
    """How many bytes an entry has for a worker, from its columns; `ENTRY_BYTES` says the same of its row."""
    size = UNKEYED_ENTRY_BYTES + len(key.encode())
    return size if shown is None else size + len(shown.encode())


def find_excess(
    scope: str, lists: Sequence[int], own: int, sizes: Mapping[str, int], now: int, *, count: bool = False
) -> Work[ListFull | None]:
    """`ListFull` where these entries of the list `own`, of which `sizes` has the bytes by key, would take the scope,
    whose unkeyed lists are `lists`, past its bytes. With `count` they are counted if they would not, and
    `take_turn` goes before."""
    ids, keys, added = Many(tuple(lists)), Many(tuple(sizes)), sum(sizes.values())
    total = others = 0
    if lists and sizes:
        counted = (yield Read(_COUNTED, (scope,))) or (yield Read(_ALL, (ids,)))
        replaced = yield Read(_OF_KEYS, (own, keys))
        total = others = counted[0][0] - replaced[0][0]
        if others + added > MAX_UNKEYED_BYTES:
            others -= (yield Read(_EXPIRED, (ids, now, own, keys)))[0][0]
    if others + added > MAX_UNKEYED_BYTES:
        return ListFull(others, MAX_UNKEYED_BYTES, "bytes")
    if count:
        yield Write(_SET, (scope, total + added))
    return None


def take_turn(scope: str) -> Work[None]:
    """Let calls on several lists of a scope count one after the other."""
    yield Read(_LOCK_SCOPE, (scope,))


def subtract_bytes(scope: str, sizes: Iterable[int]) -> Work[None]:
    """Count out entries that were deleted; the version of the scope is raised after this."""
    yield Write(_SUBTRACT, (scope, sum(sizes)))


def subtract_list(scope: str, list_id: int) -> Work[None]:
    """Count out all entries of a list that is about to be deleted."""
    ((total,),) = yield Read(_ALL, (Many((list_id,)),))
    yield Write(_SUBTRACT, (scope, total))


def forget_sums() -> Work[None]:
    """Have the entries of all scopes counted anew: their normal forms have changed."""
    yield Write(_FORGET)
