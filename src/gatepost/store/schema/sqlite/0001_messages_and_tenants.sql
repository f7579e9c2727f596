-- Facts about this database itself. `schema` is the number of the last file applied.
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tenants (
    uid TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for each analysis. The columns serve searching; `detail` holds envelope and report whole.
-- Times are Unix milliseconds; `recipients` and `tags` are JSON arrays.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    ggrid TEXT NOT NULL UNIQUE,
    created INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    tenant TEXT,
    verdict TEXT NOT NULL,
    decision TEXT NOT NULL,
    score INTEGER NOT NULL,
    tags TEXT NOT NULL,
    sender TEXT NOT NULL,
    recipients TEXT NOT NULL,
    subject TEXT NOT NULL,
    size INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    detail BLOB NOT NULL
) STRICT;

CREATE INDEX messages_by_time ON messages (completed);
CREATE INDEX messages_by_tenant ON messages (tenant, completed);
CREATE INDEX messages_by_sender ON messages (sender, completed);
CREATE INDEX messages_by_verdict ON messages (verdict, completed);
