-- Additive: programs that know the schema before can go on with it.

-- Mail to recipients about messages that somebody found, one for each recipient of a step. `items` are the ggrids, as a
-- JSON array; `number` counts those that are not listed too. A notice waits while `sent` is NULL.
CREATE TABLE recipient_notices (
    id TEXT PRIMARY KEY,
    work TEXT NOT NULL,
    scope TEXT NOT NULL,
    address TEXT NOT NULL,
    items TEXT NOT NULL,
    number INTEGER NOT NULL,
    said TEXT NOT NULL,
    by_name TEXT NOT NULL,
    created INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    next_try INTEGER NOT NULL,
    fault TEXT NOT NULL,
    sent INTEGER
) STRICT;
CREATE INDEX recipient_notices_due ON recipient_notices (next_try) WHERE sent IS NULL;
CREATE INDEX recipient_notices_by_work ON recipient_notices (work);
CREATE INDEX recipient_notices_by_scope ON recipient_notices (scope, id);
CREATE INDEX recipient_notices_by_address ON recipient_notices (address);
CREATE INDEX recipient_notices_by_time ON recipient_notices (created);
