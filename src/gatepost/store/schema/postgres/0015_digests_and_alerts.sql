-- Recipients of held mail who have got their copy while it is held for others.
CREATE TABLE recipient_releases (
    ggrid TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    released BIGINT NOT NULL,
    released_by TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (ggrid, address)
);

-- What a tenant, or '' for mail without one, wants of digests, as a JSON object.
CREATE TABLE digest_settings (
    scope TEXT COLLATE "C" PRIMARY KEY,
    settings TEXT NOT NULL,
    modified BIGINT NOT NULL,
    modified_by TEXT NOT NULL
);

-- Who works on the digests of a scope, when they are due, and up to which message digests were planned.
CREATE TABLE digest_runs (
    scope TEXT COLLATE "C" PRIMARY KEY,
    holder TEXT COLLATE "C" NOT NULL,
    locked_until BIGINT NOT NULL,
    next_run BIGINT NOT NULL,
    planned_until BIGINT NOT NULL,
    after_kept BIGINT NOT NULL,
    after_ggrid TEXT COLLATE "C" NOT NULL,
    detail TEXT NOT NULL
);

-- A digest lists what was held after `since`, up to `until`. It waits while `sent` is NULL; a recipient has at most one
-- that waits.
CREATE TABLE digests (
    id TEXT COLLATE "C" PRIMARY KEY,
    scope TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    since BIGINT NOT NULL,
    until BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    next_try BIGINT NOT NULL,
    fault TEXT NOT NULL,
    sent BIGINT,
    expires BIGINT NOT NULL
);
CREATE UNIQUE INDEX digests_waiting ON digests (scope, address) WHERE sent IS NULL;
CREATE INDEX digests_due ON digests (scope, next_try) WHERE sent IS NULL;
CREATE INDEX digests_by_end ON digests (expires);
CREATE INDEX digests_by_address ON digests (address);

-- Links of digests that were used; `item` is a ggrid, or '' for the page of the recipient's own entries.
CREATE TABLE digest_uses (
    digest TEXT COLLATE "C" NOT NULL,
    item TEXT COLLATE "C" NOT NULL,
    used BIGINT NOT NULL,
    PRIMARY KEY (digest, item)
);

-- Keys that links are signed with, as hex digits.
CREATE TABLE digest_keys (
    number BIGINT PRIMARY KEY,
    secret TEXT NOT NULL,
    created BIGINT NOT NULL
);

-- What recipients ask for (`release`), and what users report by mail (`report`), until somebody decides.
CREATE TABLE recipient_requests (
    id TEXT COLLATE "C" PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    ggrid TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    said TEXT NOT NULL,
    created BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    decided BIGINT,
    decided_by TEXT NOT NULL,
    note TEXT NOT NULL
);
CREATE UNIQUE INDEX recipient_requests_once ON recipient_requests (ggrid, address, kind);
CREATE INDEX recipient_requests_by_state ON recipient_requests (state, id);
CREATE INDEX recipient_requests_by_scope ON recipient_requests (scope, state, id);
CREATE INDEX recipient_requests_by_address ON recipient_requests (address, state);

-- Senders that a recipient allows or blocks for mail that is addressed to nobody else.
CREATE TABLE recipient_entries (
    scope TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    sender TEXT COLLATE "C" NOT NULL,
    says TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    PRIMARY KEY (scope, address, sender)
);
CREATE INDEX recipient_entries_by_address ON recipient_entries (address);

-- Alerts that were defined in the web interface. `settings` is a JSON object.
CREATE TABLE alert_definitions (
    name TEXT COLLATE "C" PRIMARY KEY,
    settings TEXT NOT NULL,
    modified BIGINT NOT NULL,
    modified_by TEXT NOT NULL
);
