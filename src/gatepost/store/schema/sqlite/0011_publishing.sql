-- Published versions of the configuration, never changed. `content` is packed: the two files without local keys and
-- without secrets, policies, rules and models. `origin` is the version that a rollback brought back, else 0.
CREATE TABLE config_versions (
    number INTEGER PRIMARY KEY,
    time INTEGER NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    origin INTEGER NOT NULL,
    digest TEXT NOT NULL,
    content BLOB NOT NULL
) STRICT;

-- One row: the version that all nodes shall run, the number of the last restart of all, the node whose turn it is, and
-- the last version that a node could not run.
CREATE TABLE rollout (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    wanted INTEGER NOT NULL,
    restart INTEGER NOT NULL,
    holder TEXT NOT NULL,
    held_until INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    failed_node TEXT NOT NULL,
    failed_reason TEXT NOT NULL,
    failed_time INTEGER NOT NULL
) STRICT;

-- One row that every process writes now and then, to know that storage keeps changes.
CREATE TABLE probe (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    time INTEGER NOT NULL
) STRICT;

-- Every node, as it has last said itself. `detail` is JSON.
CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    seen INTEGER NOT NULL,
    detail TEXT NOT NULL
) STRICT, WITHOUT ROWID;
