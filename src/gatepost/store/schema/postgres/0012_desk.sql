-- The time zone in which a user reads times: a name of the IANA database, or empty for UTC.
ALTER TABLE users ADD COLUMN zone TEXT NOT NULL DEFAULT '';

-- Deleted mail stays for some days, so that a deletion can be taken back; its state is then `deleted` and `gone` is 2.
ALTER TABLE held ADD COLUMN deleted BIGINT;
ALTER TABLE held ADD COLUMN deleted_by TEXT;
CREATE INDEX held_deleted ON held (deleted) WHERE deleted IS NOT NULL;

-- Searches that a user has given a name. `query` is the query of the page's address.
CREATE TABLE saved_searches (
    id TEXT COLLATE "C" PRIMARY KEY,
    user_uid TEXT COLLATE "C" NOT NULL,
    page TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    query TEXT NOT NULL,
    created BIGINT NOT NULL
);
CREATE INDEX saved_searches_by_user ON saved_searches (user_uid, page, name);

-- An action on many held messages. `items` is a JSON array of their ids in the order of the work, `results` one of the
-- same order with "" for each that succeeded and the reason for each that failed. Whoever works has it until `lease`.
CREATE TABLE bulk_actions (
    id TEXT COLLATE "C" PRIMARY KEY,
    user_uid TEXT COLLATE "C" NOT NULL,
    action TEXT NOT NULL,
    items TEXT NOT NULL,
    results TEXT NOT NULL,
    created BIGINT NOT NULL,
    finished BIGINT,
    lease BIGINT NOT NULL
);
CREATE INDEX bulk_actions_by_user ON bulk_actions (user_uid, created);
CREATE INDEX bulk_actions_by_age ON bulk_actions (created);
