-- Who may sign in to the web interface. `folded` is the name as it is compared; `password` is an argon2 hash.
CREATE TABLE users (
    uid TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    folded TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL,
    tenant TEXT,
    created INTEGER NOT NULL,
    disabled INTEGER NOT NULL,
    password TEXT NOT NULL,
    totp_secret TEXT,
    totp_step INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    locked_until INTEGER NOT NULL,
    last_sign_in INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX users_by_tenant ON users (tenant);

-- Who is signed in. `digest` is the SHA-256 of the cookie's secret, in hex.
CREATE TABLE sessions (
    digest TEXT PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    user_uid TEXT NOT NULL,
    created INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    address TEXT NOT NULL,
    agent TEXT NOT NULL,
    csrf TEXT NOT NULL,
    strong INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_user ON sessions (user_uid, seen);

-- What messages are searched by, apart from the long rows that are shown: folded, cut, and in the order of time.
-- `recipients` and `tags` have a line for each, and a line end at both ends.
CREATE TABLE message_search (
    completed INTEGER NOT NULL,
    id INTEGER NOT NULL,
    tenant TEXT,
    verdict TEXT NOT NULL,
    decision TEXT NOT NULL,
    sender_domain TEXT NOT NULL,
    sender TEXT NOT NULL,
    subject TEXT NOT NULL,
    recipients TEXT NOT NULL,
    tags TEXT NOT NULL,
    PRIMARY KEY (completed, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_search_by_tenant ON message_search (tenant, completed, id, verdict, decision);
CREATE INDEX message_search_by_verdict ON message_search (verdict, completed, id);
CREATE INDEX message_search_by_sender ON message_search (sender_domain, completed, id);

CREATE TABLE message_recipients (
    address TEXT NOT NULL,
    completed INTEGER NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (address, completed, id)
) STRICT, WITHOUT ROWID;

-- Nobody searches the long rows themselves any more.
DROP INDEX messages_by_time;
DROP INDEX messages_by_tenant;
DROP INDEX messages_by_sender;
DROP INDEX messages_by_verdict;

-- Messages up to this id were kept before there was a search, and are still to be entered, from the newest on.
CREATE TABLE unsearched (
    upto INTEGER NOT NULL
) STRICT;
INSERT INTO unsearched SELECT max(id) FROM messages HAVING count(*) > 0;

-- Traffic in buckets of five minutes; the tenant '' is everybody. `l0` and on count latencies in bins that double.
-- Whoever writes at the same time writes another `part`.
CREATE TABLE traffic (
    tenant TEXT NOT NULL,
    bucket INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    decision TEXT NOT NULL,
    part INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    duration INTEGER NOT NULL,
    longest INTEGER NOT NULL,
    l0 INTEGER NOT NULL,
    l1 INTEGER NOT NULL,
    l2 INTEGER NOT NULL,
    l3 INTEGER NOT NULL,
    l4 INTEGER NOT NULL,
    l5 INTEGER NOT NULL,
    l6 INTEGER NOT NULL,
    l7 INTEGER NOT NULL,
    l8 INTEGER NOT NULL,
    l9 INTEGER NOT NULL,
    l10 INTEGER NOT NULL,
    l11 INTEGER NOT NULL,
    l12 INTEGER NOT NULL,
    l13 INTEGER NOT NULL,
    l14 INTEGER NOT NULL,
    l15 INTEGER NOT NULL,
    l16 INTEGER NOT NULL,
    l17 INTEGER NOT NULL,
    PRIMARY KEY (tenant, bucket, verdict, decision, part)
) STRICT, WITHOUT ROWID;
CREATE INDEX traffic_by_time ON traffic (bucket);
CREATE INDEX traffic_by_part ON traffic (bucket) WHERE part <> 0;

-- Held mail in the order in which it came, with what it is looked through for: nobody has to read the long rows.
-- `subject` is folded and cut; of what is held already, it is as good as the database folds. `gone` is 1 for what was
-- released.
ALTER TABLE held ADD COLUMN subject TEXT NOT NULL DEFAULT '';
ALTER TABLE held ADD COLUMN score INTEGER NOT NULL DEFAULT 0;
ALTER TABLE held ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;
UPDATE held SET
    gone = CASE state WHEN 'released' THEN 1 ELSE 0 END,
    subject = COALESCE((SELECT lower(substr(subject, 1, 200)) FROM messages WHERE messages.ggrid = held.ggrid), ''),
    score = COALESCE((SELECT score FROM messages WHERE messages.ggrid = held.ggrid), 0);
CREATE INDEX held_in_order ON held (gone, kept, ggrid, tenant, verdict, score, subject);
CREATE INDEX held_in_order_by_tenant ON held (gone, tenant, kept, ggrid, verdict, score, subject);

-- The audit trail in the order of time.
CREATE INDEX audit_in_order ON audit (time, id);
CREATE INDEX audit_in_order_by_scope ON audit (scope, time, id);
DROP INDEX audit_by_time;
