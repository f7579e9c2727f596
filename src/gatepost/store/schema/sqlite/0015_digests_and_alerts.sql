-- Recipients of held mail who have got their copy while it is held for others.
CREATE TABLE recipient_releases (
    ggrid TEXT NOT NULL,
    address TEXT NOT NULL,
    released INTEGER NOT NULL,
    released_by TEXT NOT NULL,
    PRIMARY KEY (ggrid, address)
) STRICT, WITHOUT ROWID;

-- What a tenant, or '' for mail without one, wants of digests, as a JSON object.
CREATE TABLE digest_settings (
    scope TEXT PRIMARY KEY,
    settings TEXT NOT NULL,
    modified INTEGER NOT NULL,
    modified_by TEXT NOT NULL
) STRICT;

-- Who works on the digests of a scope, when they are due, and up to which message digests were planned.
CREATE TABLE digest_runs (
    scope TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    locked_until INTEGER NOT NULL,
    next_run INTEGER NOT NULL,
    planned_until INTEGER NOT NULL,
    after_kept INTEGER NOT NULL,
    after_ggrid TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;

-- A digest lists what was held after `since`, up to `until`. It waits while `sent` is NULL; a recipient has at most one
-- that waits.
CREATE TABLE digests (
    id TEXT PRIMARY KEY,
    scope TEXT NOT NULL,
    address TEXT NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    next_try INTEGER NOT NULL,
    fault TEXT NOT NULL,
    sent INTEGER,
    expires INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX digests_waiting ON digests (scope, address) WHERE sent IS NULL;
CREATE INDEX digests_due ON digests (scope, next_try) WHERE sent IS NULL;
CREATE INDEX digests_by_end ON digests (expires);
CREATE INDEX digests_by_address ON digests (address);

-- Links of digests that were used; `item` is a ggrid, or '' for the page of the recipient's own entries.
CREATE TABLE digest_uses (
    digest TEXT NOT NULL,
    item TEXT NOT NULL,
    used INTEGER NOT NULL,
    PRIMARY KEY (digest, item)
) STRICT, WITHOUT ROWID;

-- Keys that links are signed with, as hex digits.
CREATE TABLE digest_keys (
    number INTEGER PRIMARY KEY,
    secret TEXT NOT NULL,
    created INTEGER NOT NULL
) STRICT;

-- What recipients ask for (`release`), and what users report by mail (`report`), until somebody decides.
CREATE TABLE recipient_requests (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    ggrid TEXT NOT NULL,
    scope TEXT NOT NULL,
    address TEXT NOT NULL,
    said TEXT NOT NULL,
    created INTEGER NOT NULL,
    state TEXT NOT NULL,
    decided INTEGER,
    decided_by TEXT NOT NULL,
    note TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX recipient_requests_once ON recipient_requests (ggrid, address, kind);
CREATE INDEX recipient_requests_by_state ON recipient_requests (state, id);
CREATE INDEX recipient_requests_by_scope ON recipient_requests (scope, state, id);
CREATE INDEX recipient_requests_by_address ON recipient_requests (address, state);

-- Senders that a recipient allows or blocks for mail that is addressed to nobody else.
CREATE TABLE recipient_entries (
    scope TEXT NOT NULL,
    address TEXT NOT NULL,
    sender TEXT NOT NULL,
    says TEXT NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (scope, address, sender)
) STRICT, WITHOUT ROWID;
CREATE INDEX recipient_entries_by_address ON recipient_entries (address);

-- Alerts that were defined in the web interface. `settings` is a JSON object.
CREATE TABLE alert_definitions (
    name TEXT PRIMARY KEY,
    settings TEXT NOT NULL,
    modified INTEGER NOT NULL,
    modified_by TEXT NOT NULL
) STRICT;
