"""Published versions, the rollout of the one that is wanted, and the nodes that run one.

A version is a row that is never changed. The rollout is one row: which version all nodes shall run. Whose turn it is to
take it over is a job (`jobs`) that a node holds, also while it starts again. There is no other coordination between
nodes.

There is one draft of the next version, for all administrators. It is a row that is replaced as a whole. `revision`
counts its changes: a change that was made from an older revision is refused, so that of two administrators who edit at
once nobody overwrites the other unseen.
"""

import hashlib
from collections.abc import Callable

import msgspec

from gatepost.process.health import WELL, Health
from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Read, Rollback, Work, Write, change, now, query, storable
from gatepost.store.jobs import hold_job, read_job, release_job
from gatepost.store.sql import Row, sql

MAX_HISTORY = 200
ROLLOUT = "rollout"
# A node says every two seconds how it is.
SILENT_MILLISECONDS = 15_000

_INSERT = sql("""INSERT INTO config_versions (number, time, actor, reason, origin, digest, content)
VALUES ($1, $2, $3, $4, $5, $6, $7)""")
_COLUMNS = "number, time, actor, reason, origin, digest"
_HISTORY = sql(f"SELECT {_COLUMNS} FROM config_versions ORDER BY number DESC LIMIT $1")  # noqa: S608
_LAST = sql(f"SELECT {_COLUMNS} FROM config_versions ORDER BY number DESC LIMIT 1")  # noqa: S608
_FIND = sql(f"SELECT {_COLUMNS}, content FROM config_versions WHERE number = $1")  # noqa: S608
_ROLLOUT = sql("""SELECT wanted, restart, failed, failed_node, failed_reason, failed_time
FROM rollout WHERE id = 1""")
# Such a change begins with a write of the row, so that two that come at once follow each other on either engine.
_LOCK = sql("""INSERT INTO rollout
(id, wanted, restart, failed, failed_node, failed_reason, failed_time)
VALUES (1, 0, 0, 0, '', '', 0) ON CONFLICT (id) DO UPDATE SET id = 1""")
_WANT = sql(
    "UPDATE rollout SET wanted = $1, failed = 0, failed_node = '', failed_reason = '', failed_time = 0 WHERE id = 1"
)
_RESTART = sql("UPDATE rollout SET restart = restart + 1 WHERE id = 1")
_FAIL = sql("""UPDATE rollout SET wanted = $1, failed = $2, failed_node = $3, failed_reason = $4, failed_time = $5
WHERE id = 1 AND wanted = $2""")
_PUT_NODE = sql("""INSERT INTO nodes (id, name, seen, detail) VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, seen = excluded.seen, detail = excluded.detail""")
_NODES = sql("SELECT id, name, seen, detail FROM nodes ORDER BY name, id")
_FORGET_NODE = sql("DELETE FROM nodes WHERE id = $1")


class VersionInfo(msgspec.Struct, frozen=True):
    """A published version without its content: who, when, why. `origin` is the version that a rollback brought back."""

    number: int
    time: int
    actor: str
    reason: str
    origin: int
    digest: str


class VersionContent(msgspec.Struct, frozen=True):
    """What a version holds: the two files as data without local keys, with references instead of secrets; and the
    bytes of policies, rules and models by their names."""

    documents: dict[str, dict[str, object]]
    files: dict[str, bytes]


class Version(msgspec.Struct, frozen=True):
    """A published version with its content."""

    info: VersionInfo
    content: VersionContent


class Rollout(msgspec.Struct, frozen=True):
    """What all nodes shall run, whose turn it is, and what failed last. Version 0 is the files of each node."""

    wanted: int = 0
    restart: int = 0
    failed: int = 0
    failed_node: str = ""
    failed_reason: str = ""
    failed_time: int = 0
    holder: str = ""


class NodeDetail(msgspec.Struct, frozen=True, rename="camel"):
    """What a node says of itself. `version` is what it runs, `error` what last went wrong."""

    services: tuple[str, ...] = ()
    program: str = ""
    version: int = 0
    health: Health = WELL
    in_processing: int = 0
    slots: int = 0
    started: int = 0
    since: int = 0
    error: str = ""


class NodeRecord(msgspec.Struct, frozen=True):
    """A node with what it last said, and when."""

    id: str
    name: str
    seen: int
    detail: NodeDetail

    def state(self, moment: int) -> str:
        """Return its state, or `silent` for a node that has said nothing for longer than it should."""
        return "silent" if moment - self.seen > SILENT_MILLISECONDS else self.detail.health.state


_content = msgspec.msgpack.Decoder(VersionContent)
_details = msgspec.json.Decoder(NodeDetail)


def _read_node(row: Row) -> NodeRecord:
    node, name, seen, detail = row
    try:
        found = _details.decode(detail)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = NodeDetail()
    return NodeRecord(node, name, seen, found)


_FIND_DRAFT = sql("SELECT revision, base, content, modified, modified_by FROM config_draft WHERE id = 1")
# The change begins with a write of the row, so that two that come at once follow each other on either engine.
_INSERT_DRAFT = sql("""INSERT INTO config_draft (id, revision, base, content, modified, modified_by)
VALUES (1, 1, $1, $2, $3, $4) ON CONFLICT (id) DO NOTHING""")
_UPDATE = sql("""UPDATE config_draft
SET revision = revision + 1, base = $2, content = $3, modified = $4, modified_by = $5 WHERE id = 1 AND revision = $1""")
_DELETE = sql("DELETE FROM config_draft WHERE id = 1 AND revision = $1")
_DISMISSED = sql("SELECT name FROM dismissed_items ORDER BY name")
_DISMISS = sql("INSERT INTO dismissed_items (name, time) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING")


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


_drafts = msgspec.msgpack.Decoder(DraftContent)


class Publishing(Operations):
    """Versions, the rollout, the nodes, and the draft of the next version."""

    @change
    def publish(
        self, running: int, content: VersionContent, reason: str, by: Actor, origin: int = 0
    ) -> Work[VersionInfo | None]:
        """Store the next version and have all nodes take it over. None where they run another one by now than
        `running`, from which the content was made, so that nobody takes back unseen what somebody else has
        published."""
        yield Write(_LOCK)
        if (yield Read(_ROLLOUT))[0][0] != running:
            raise Rollback(None)
        last, moment = (yield Read(_LAST)), now()
        number = (last[0][0] if last else 0) + 1
        info = VersionInfo(number, moment, by.label, storable(reason), origin, digest_content(content))
        packed = msgspec.msgpack.encode(content)
        yield Write(_INSERT, (number, moment, info.actor, info.reason, origin, info.digest, packed))
        yield Write(_WANT, (number,))
        action = "config.rollback" if origin else "config.publish"
        yield from write_audit(moment, by, action, None, "", number, [str(number), reason[:200]])
        return info

    @query
    def history(self, limit: int = MAX_HISTORY) -> Work[tuple[VersionInfo, ...]]:
        """The last versions, newest first."""
        return tuple(VersionInfo(*row) for row in (yield Read(_HISTORY, (limit,))))

    @query
    def find(self, number: int) -> Work[Version | None]:
        """One version with its content; None where there is none of this number."""
        rows = yield Read(_FIND, (number,))
        if not rows:
            return None
        *info, content = rows[0]
        return Version(VersionInfo(*info), _content.decode(content))

    @query
    def rollout(self) -> Work[Rollout]:
        """What all nodes shall run."""
        rows = yield Read(_ROLLOUT)
        turn = yield from read_job(ROLLOUT, None)
        return msgspec.structs.replace(Rollout(*rows[0]) if rows else Rollout(), holder=turn.holder)

    @change
    def restart_all(self, by: Actor) -> Work[int]:
        """Have all nodes restart, one after the other; returns the number of this restart."""
        yield Write(_LOCK)
        yield Write(_RESTART)
        number = int((yield Read(_ROLLOUT))[0][1])
        yield from write_audit(now(), by, "node.restartAll", None, "", 1, [str(number)])
        return number

    @change
    def take_turn(self, node: str, until: int) -> Work[bool]:
        """Take the turn for a node, or keep it; False where another one has it."""
        return (yield from hold_job(ROLLOUT, None, node, until)) is not None

    @change
    def end_turn(self, node: str, name: str, version: int, said: str) -> Work[None]:
        """Give the turn back: the node runs a version and is healthy, or has restarted."""
        if (yield from release_job(ROLLOUT, "", node)):
            # Nodes that listen learn that it is their turn.
            yield Write(_LOCK)
            yield from write_audit(now(), Actor("system", name), "config.takeOver", None, "", version, [name, said])

    @change
    def fail_rollout(self, node: str, name: str, version: int, back_to: int, reason: str) -> Work[None]:
        """Stop a version that a node could not run: all nodes go back to the one before."""
        moment, said = now(), storable(reason[:2_000])
        yield Write(_FAIL, (back_to, version, storable(name), said, moment))
        yield from release_job(ROLLOUT, "", node)
        yield from write_audit(moment, Actor("system", name), "config.fail", None, "", version, [name, said[:200]])

    @change
    def put_node(self, node: str, name: str, detail: NodeDetail) -> Work[None]:
        """Note what a node says of itself."""
        yield Write(_PUT_NODE, (node, storable(name), now(), storable(msgspec.json.encode(detail).decode())))

    @query
    def nodes(self) -> Work[tuple[NodeRecord, ...]]:
        """Every node by name."""
        return tuple(map(_read_node, (yield Read(_NODES))))

    @change
    def forget_node(self, node: str, by: Actor) -> Work[bool]:
        """Forget a node that is gone for good."""
        gone = bool((yield Write(_FORGET_NODE, (node,))))
        if gone:
            yield from write_audit(now(), by, "node.forget", None, "", 1, [node])
        return gone

    async def watch_rollout(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever the rollout changes. It ends where the engine cannot tell, or not any more."""
        await self._engine.listen("rollout", wake)

    @query
    def draft(self) -> Work[ConfigDraft | None]:
        """The draft; None where there is none."""
        rows = yield Read(_FIND_DRAFT)
        if not rows:
            return None
        revision, base, content, modified, by = rows[0]
        return ConfigDraft(revision, base, _drafts.decode(content), modified, by)

    @change
    def put_draft(self, content: DraftContent, base: int, revision: int, by: Actor) -> Work[bool]:
        """Store a draft that was made from a revision, 0 for none; False where somebody else was faster."""
        moment, packed = now(), msgspec.msgpack.encode(content)
        if revision:
            done = yield Write(_UPDATE, (revision, base, packed, moment, storable(by.label)))
        else:
            done = yield Write(_INSERT_DRAFT, (base, packed, moment, storable(by.label)))
        if done:
            yield from write_audit(moment, by, "config.draft", None, "", 1, [f"from version {base}"])
        return bool(done)

    @change
    def discard_draft(self, revision: int, by: Actor) -> Work[bool]:
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


def digest_content(content: VersionContent) -> str:
    """Return what tells one content from another."""
    return hashlib.sha256(msgspec.msgpack.encode(content, order="deterministic")).hexdigest()
