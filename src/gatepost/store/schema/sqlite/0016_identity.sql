-- `must_change` is 1 where somebody else chose the password, and 2 for the one that the first start printed. `external`
-- is the issuer and the subject of a user who signs in through OpenID Connect, and has no password here.
ALTER TABLE users ADD COLUMN must_change INTEGER NOT NULL DEFAULT 0;
ALTER TABLE users ADD COLUMN external TEXT;
CREATE UNIQUE INDEX users_by_external ON users (external) WHERE external IS NOT NULL;

-- The session at the OpenID provider (`sid`) that a session began with, by which the provider ends it.
ALTER TABLE sessions ADD COLUMN provider_session TEXT NOT NULL DEFAULT '';

-- Recovery codes that are not used yet. `digest` is the SHA-256 of the user's uid and the code, in hex.
CREATE TABLE recovery_codes (
    user_uid TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (user_uid, digest)
) STRICT, WITHOUT ROWID;

-- The draft of the next published version: one for all administrators. `revision` counts its changes, `base` is the
-- version that it was made from.
CREATE TABLE config_draft (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    revision INTEGER NOT NULL,
    base INTEGER NOT NULL,
    content BLOB NOT NULL,
    modified INTEGER NOT NULL,
    modified_by TEXT NOT NULL
) STRICT;

-- Items of the checklist of the first days that administrators have dismissed.
CREATE TABLE dismissed_items (
    name TEXT PRIMARY KEY,
    time INTEGER NOT NULL
) STRICT;
