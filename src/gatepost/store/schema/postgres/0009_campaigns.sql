-- Near-duplicate signatures of messages that people reported, or that were held as an attack. `scope` is a tenant's uid,
-- or empty for the deployment. A row is never changed: what is said anew of a message is a new row with a higher `id`, so
-- that every node learns of it by asking for rows after the last one that it knows. `signature` has four bytes for each hash.
CREATE TABLE campaign_marks (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope TEXT COLLATE "C" NOT NULL,
    ggrid TEXT COLLATE "C" NOT NULL,
    says TEXT COLLATE "C" NOT NULL,
    signature BYTEA NOT NULL,
    created BIGINT NOT NULL
);
CREATE UNIQUE INDEX campaign_marks_by_message ON campaign_marks (scope, ggrid);
CREATE INDEX campaign_marks_by_age ON campaign_marks (created);

-- Texts of which one process has seen several near-duplicates lately, so that all processes can add them up.
CREATE TABLE campaign_bursts (
    process TEXT COLLATE "C" NOT NULL,
    campaign BIGINT NOT NULL,
    signature BYTEA NOT NULL,
    copies BIGINT NOT NULL,
    recipients BIGINT NOT NULL,
    updated BIGINT NOT NULL,
    PRIMARY KEY (process, campaign)
);
CREATE INDEX campaign_bursts_by_age ON campaign_bursts (updated);
