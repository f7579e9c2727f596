-- Names of tenants are unique from here on; of those that share one, the oldest keeps it.
UPDATE tenants SET name = name || ' (' || uid || ')'
WHERE EXISTS (SELECT 1 FROM tenants AS older WHERE older.name = tenants.name AND older.uid < tenants.uid);
CREATE UNIQUE INDEX tenants_by_name ON tenants (name);

-- Whose mail is whose, by the domain of the recipient.
CREATE TABLE tenant_domains (
    domain TEXT PRIMARY KEY,
    tenant TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tenant_domains_by_tenant ON tenant_domains (tenant);

-- Tenants that are deleted, but whose results are still being deleted.
CREATE TABLE departed (
    tenant TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- What a scope's readers may remember, and until when: `directory` changes with the lists that have entries (and the
-- prefix lengths in them), `unkeyed` with anything in lists that are handed out whole. The global scope is ''.
CREATE TABLE scopes (
    scope TEXT PRIMARY KEY,
    directory INTEGER NOT NULL,
    unkeyed INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A list in one scope. The usual ones get a row with their first entry; what they are is in the program.
-- A list that is being deleted has the scope '-' and its id for a name.
CREATE TABLE lists (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    category TEXT NOT NULL,
    display_name TEXT NOT NULL,
    description TEXT NOT NULL,
    max_size INTEGER NOT NULL,
    custom INTEGER NOT NULL,
    size INTEGER NOT NULL,
    UNIQUE (scope, name)
) STRICT;

-- How many entries of a list of networks have a prefix length: '4/24', '6/128'.
CREATE TABLE list_prefixes (
    list_id INTEGER NOT NULL,
    prefix TEXT NOT NULL,
    entries INTEGER NOT NULL,
    PRIMARY KEY (list_id, prefix)
) STRICT, WITHOUT ROWID;

-- All entries of all lists. `shown` is null where it is the same as the key.
CREATE TABLE entries (
    list_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    shown TEXT,
    comment TEXT NOT NULL,
    created INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    modified_by TEXT NOT NULL,
    expires INTEGER,
    hits INTEGER NOT NULL DEFAULT 0,
    last_hit INTEGER,
    PRIMARY KEY (list_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX entries_by_expiry ON entries (list_id, expires) WHERE expires IS NOT NULL;

-- `hash` is the SHA-256 of the secret, in hex.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    tenant TEXT,
    read_only INTEGER NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER,
    revoked INTEGER,
    last_used INTEGER
) STRICT, WITHOUT ROWID;

-- Who changed what. Rows are only ever added; `sample` is a JSON array.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time INTEGER NOT NULL,
    actor_kind TEXT NOT NULL,
    actor_name TEXT NOT NULL,
    actor_id TEXT NOT NULL,
    action TEXT NOT NULL,
    scope TEXT NOT NULL,
    list TEXT NOT NULL,
    count INTEGER NOT NULL,
    sample TEXT NOT NULL
) STRICT;
CREATE INDEX audit_by_time ON audit (time);
CREATE INDEX audit_by_scope ON audit (scope, id);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit trail only grows'); END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit trail only grows'); END;
