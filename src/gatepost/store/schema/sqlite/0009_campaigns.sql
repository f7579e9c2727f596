-- Near-duplicate signatures of messages that people reported, or that were held as an attack. `scope` is a tenant's uid,
-- or empty for the deployment. A row is never changed: what is said anew of a message is a new row with a higher `id`, so
-- that every node learns of it by asking for rows after the last one that it knows. `signature` has four bytes for each hash.
CREATE TABLE campaign_marks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    scope TEXT NOT NULL,
    ggrid TEXT NOT NULL,
    says TEXT NOT NULL,
    signature BLOB NOT NULL,
    created INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX campaign_marks_by_message ON campaign_marks (scope, ggrid);
CREATE INDEX campaign_marks_by_age ON campaign_marks (created);

-- Texts of which one process has seen several near-duplicates lately, so that all processes can add them up.
CREATE TABLE campaign_bursts (
    process TEXT NOT NULL,
    campaign INTEGER NOT NULL,
    signature BLOB NOT NULL,
    copies INTEGER NOT NULL,
    recipients INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    PRIMARY KEY (process, campaign)
) STRICT, WITHOUT ROWID;
CREATE INDEX campaign_bursts_by_age ON campaign_bursts (updated);
