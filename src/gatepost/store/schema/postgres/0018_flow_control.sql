-- What flow control has counted of hosts, senders and recipients in a window that begins at `start`. `key` is a digest;
-- `label` says what it is once a limit was reached.
CREATE TABLE flow_counts (
    key BIGINT NOT NULL,
    start BIGINT NOT NULL,
    count BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    label TEXT NOT NULL,
    PRIMARY KEY (key, start)
);

CREATE INDEX flow_counts_by_expiry ON flow_counts (expires);
CREATE INDEX flow_counts_limited ON flow_counts (expires, label) WHERE label <> '';

-- Greylisting: senders that wait or have passed, and networks. `key` is a digest.
CREATE TABLE greylist (
    key BIGINT PRIMARY KEY,
    first BIGINT NOT NULL,
    passed BIGINT NOT NULL,
    expires BIGINT NOT NULL
);

CREATE INDEX greylist_by_expiry ON greylist (expires);
