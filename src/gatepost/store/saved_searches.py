"""Searches that users have saved: the query of a page's address under a name, for the user who saved it.

A name that is saved again on the same page gets the new query. The number for each user is bounded.
"""

import msgspec

from gatepost.ids import new_id
from gatepost.store.engine import Operations, Read, Work, Write, change, now, query, storable

MAX_SEARCHES = 100
MAX_NAME = 100
MAX_QUERY = 4_000

_SELECT = "SELECT id, page, name, query FROM saved_searches WHERE user_uid = $1 ORDER BY page, name, id"
_DELETE_NAME = "DELETE FROM saved_searches WHERE user_uid = $1 AND page = $2 AND name = $3"
_COUNT = "SELECT count(*) FROM saved_searches WHERE user_uid = $1"
_INSERT = "INSERT INTO saved_searches (id, user_uid, page, name, query, created) VALUES ($1, $2, $3, $4, $5, $6)"
_DELETE = "DELETE FROM saved_searches WHERE id = $1 AND user_uid = $2"


class SavedSearch(msgspec.Struct, frozen=True):
    """A search of one user: the path of its page, its name, and the query of the address."""

    id: str
    page: str
    name: str
    query: str


class SavedSearchStore(Operations):
    """Searches that users come back to."""

    @query
    def saved_searches(self, user_uid: str) -> Work[tuple[SavedSearch, ...]]:
        """All searches of a user, by page and name."""
        return tuple(SavedSearch(*row) for row in (yield Read(_SELECT, (user_uid,))))

    @change
    def save_search(self, user_uid: str, page: str, name: str, query: str) -> Work[bool]:
        """Save a search; False where the user has `MAX_SEARCHES` already."""
        wanted = (storable(name[:MAX_NAME]), storable(query[:MAX_QUERY]))
        yield Write(_DELETE_NAME, (user_uid, page, wanted[0]))
        rows = yield Read(_COUNT, (user_uid,))
        if int(rows[0][0]) >= MAX_SEARCHES:
            return False
        yield Write(_INSERT, (new_id(), user_uid, page, *wanted, now()))
        return True

    @change
    def delete_search(self, uid: str, user_uid: str) -> Work[bool]:
        """Delete a search of this user; False where there is none."""
        return bool((yield Write(_DELETE, (storable(uid), user_uid))))
