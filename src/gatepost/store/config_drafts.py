"""The draft of the next published version, one for all administrators, and dismissed items of the checklist.

A draft is a row that is replaced as a whole. `revision` counts its changes: a change that was made from an older
revision is refused, so that of two administrators who edit at once nobody overwrites the other unseen.
"""

import msgspec

from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Read, Work, Write, change, now, query, storable

MAX_DRAFT = 4 << 20

_FIND = "SELECT revision, base, content, modified, modified_by FROM config_draft WHERE id = 1"
# The change begins with a write of the row, so that two that come at once follow each other on either engine.
_INSERT = """INSERT INTO config_draft (id, revision, base, content, modified, modified_by)
VALUES (1, 1, $1, $2, $3, $4) ON CONFLICT (id) DO NOTHING"""
_UPDATE = """UPDATE config_draft SET revision = revision + 1, base = $2, content = $3, modified = $4, modified_by = $5
WHERE id = 1 AND revision = $1"""
_DELETE = "DELETE FROM config_draft WHERE id = 1 AND revision = $1"
_DISMISSED = "SELECT name FROM dismissed_items ORDER BY name"
_DISMISS = "INSERT INTO dismissed_items (name, time) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING"


class DraftContent(msgspec.Struct, frozen=True):
    """What was typed: values of settings by file and key, and policies by the tenant's uid, "" for the deployment."""

    settings: dict[str, str] = {}
    policies: dict[str, str] = {}


class ConfigDraft(msgspec.Struct, frozen=True):
    """A draft with who last changed it. `base` is the version that it was begun from."""

    revision: int
    base: int
    content: DraftContent
    modified: int
    modified_by: str


_content = msgspec.msgpack.Decoder(DraftContent)


class ConfigDraftStore(Operations):
    """The draft, and what was dismissed."""

    @query
    def config_draft(self) -> Work[ConfigDraft | None]:
        """The draft; None where there is none."""
        rows = yield Read(_FIND)
        if not rows:
            return None
        revision, base, content, modified, by = rows[0]
        return ConfigDraft(revision, base, _content.decode(content), modified, by)

    @change
    def put_config_draft(self, content: DraftContent, base: int, revision: int, by: Actor) -> Work[bool]:
        """Store a draft that was made from a revision, 0 for none; False where somebody else was faster."""
        moment, packed = now(), msgspec.msgpack.encode(content)
        if revision:
            done = yield Write(_UPDATE, (revision, base, packed, moment, storable(by.label)))
        else:
            done = yield Write(_INSERT, (base, packed, moment, storable(by.label)))
        if done:
            yield from write_audit(moment, by, "config.draft", None, "", 1, [f"from version {base}"])
        return bool(done)

    @change
    def discard_config_draft(self, revision: int, by: Actor) -> Work[bool]:
        """Delete a draft; False where it was changed meanwhile."""
        done = bool((yield Write(_DELETE, (revision,))))
        if done:
            yield from write_audit(now(), by, "config.discard", None, "", 1, [])
        return done

    @query
    def dismissed_items(self) -> Work[frozenset[str]]:
        """The items of the checklist that were dismissed."""
        return frozenset(row[0] for row in (yield Read(_DISMISSED)))

    @change
    def dismiss_item(self, name: str, by: Actor) -> Work[None]:
        """Dismiss an item of the checklist for all administrators."""
        if (yield Write(_DISMISS, (storable(name), now()))):
            yield from write_audit(now(), by, "checklist.dismiss", None, "", 1, [name])
