-- Who may sign in to the web interface. `folded` is the name as it is compared; `password` is an argon2 hash.
CREATE TABLE users (
    uid TEXT COLLATE "C" PRIMARY KEY,
    name TEXT NOT NULL,
    folded TEXT COLLATE "C" NOT NULL UNIQUE,
    role TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C",
    created BIGINT NOT NULL,
    disabled BIGINT NOT NULL,
    password TEXT NOT NULL,
    totp_secret TEXT,
    totp_step BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    locked_until BIGINT NOT NULL,
    last_sign_in BIGINT
);
CREATE INDEX users_by_tenant ON users (tenant);

-- Who is signed in. `digest` is the SHA-256 of the cookie's secret, in hex.
CREATE TABLE sessions (
    digest TEXT COLLATE "C" PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    user_uid TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    seen BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    address TEXT NOT NULL,
    agent TEXT NOT NULL,
    csrf TEXT NOT NULL,
    strong BIGINT NOT NULL
);
CREATE INDEX sessions_by_user ON sessions (user_uid, seen);

-- What messages are searched by, apart from the long rows that are shown: folded, cut, and in the order of time.
-- `recipients` and `tags` have a line for each, and a line end at both ends.
CREATE TABLE message_search (
    completed BIGINT NOT NULL,
    id BIGINT NOT NULL,
    tenant TEXT COLLATE "C",
    verdict TEXT COLLATE "C" NOT NULL,
    decision TEXT COLLATE "C" NOT NULL,
    sender_domain TEXT COLLATE "C" NOT NULL,
    sender TEXT COLLATE "C" NOT NULL,
    subject TEXT NOT NULL,
    recipients TEXT NOT NULL,
    tags TEXT NOT NULL,
    PRIMARY KEY (completed, id)
);
CREATE INDEX message_search_by_tenant ON message_search (tenant, completed, id, verdict, decision);
CREATE INDEX message_search_by_verdict ON message_search (verdict, completed, id);
CREATE INDEX message_search_by_sender ON message_search (sender_domain, completed, id);

CREATE TABLE message_recipients (
    address TEXT COLLATE "C" NOT NULL,
    completed BIGINT NOT NULL,
    id BIGINT NOT NULL,
    PRIMARY KEY (address, completed, id)
);

-- Nobody searches the long rows themselves any more.
DROP INDEX messages_by_time;
DROP INDEX messages_by_tenant;
DROP INDEX messages_by_sender;
DROP INDEX messages_by_verdict;

-- Messages up to this id were kept before there was a search, and are still to be entered, from the newest on.
CREATE TABLE unsearched (
    upto BIGINT NOT NULL
);
INSERT INTO unsearched SELECT max(id) FROM messages HAVING count(*) > 0;

-- Traffic in buckets of five minutes; the tenant '' is everybody. `l0` and on count latencies in bins that double.
-- Whoever writes at the same time writes another `part`.
CREATE TABLE traffic (
    tenant TEXT COLLATE "C" NOT NULL,
    bucket BIGINT NOT NULL,
    verdict TEXT COLLATE "C" NOT NULL,
    decision TEXT COLLATE "C" NOT NULL,
    part BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    duration BIGINT NOT NULL,
    longest BIGINT NOT NULL,
    l0 BIGINT NOT NULL,
    l1 BIGINT NOT NULL,
    l2 BIGINT NOT NULL,
    l3 BIGINT NOT NULL,
    l4 BIGINT NOT NULL,
    l5 BIGINT NOT NULL,
    l6 BIGINT NOT NULL,
    l7 BIGINT NOT NULL,
    l8 BIGINT NOT NULL,
    l9 BIGINT NOT NULL,
    l10 BIGINT NOT NULL,
    l11 BIGINT NOT NULL,
    l12 BIGINT NOT NULL,
    l13 BIGINT NOT NULL,
    l14 BIGINT NOT NULL,
    l15 BIGINT NOT NULL,
    l16 BIGINT NOT NULL,
    l17 BIGINT NOT NULL,
    PRIMARY KEY (tenant, bucket, verdict, decision, part)
);
CREATE INDEX traffic_by_time ON traffic (bucket);
CREATE INDEX traffic_by_part ON traffic (bucket) WHERE part <> 0;

-- Held mail in the order in which it came, with what it is looked through for: nobody has to read the long rows.
-- `subject` is folded and cut; of what is held already, it is as good as the database folds. `gone` is 1 for what was
-- released.
ALTER TABLE held ADD COLUMN subject TEXT NOT NULL DEFAULT '';
ALTER TABLE held ADD COLUMN score BIGINT NOT NULL DEFAULT 0;
ALTER TABLE held ADD COLUMN gone BIGINT NOT NULL DEFAULT 0;
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
