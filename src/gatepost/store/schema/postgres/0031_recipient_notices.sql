-- Additive: programs that know the schema before can go on with it.

-- Mail to recipients about messages that somebody found, one for each recipient of a step. `items` are the ggrids, as a
-- JSON array; `number` counts those that are not listed too. A notice waits while `sent` is NULL.
CREATE TABLE recipient_notices (
    id TEXT COLLATE "C" PRIMARY KEY,
    work TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    items TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    said TEXT COLLATE "C" NOT NULL,
    by_name TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    next_try BIGINT NOT NULL,
    fault TEXT COLLATE "C" NOT NULL,
    sent BIGINT
);
CREATE INDEX recipient_notices_due ON recipient_notices (next_try) WHERE sent IS NULL;
CREATE INDEX recipient_notices_by_work ON recipient_notices (work);
CREATE INDEX recipient_notices_by_scope ON recipient_notices (scope, id);
CREATE INDEX recipient_notices_by_address ON recipient_notices (address);
CREATE INDEX recipient_notices_by_time ON recipient_notices (created);
