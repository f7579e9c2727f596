-- Additive: programs that know the schema before can go on with it.

-- What is to be reported to others: results of DMARC (`dmarc`) and of TLS towards their mail servers (`tls`), added up by
-- day (days since 1970), policy domain and `detail`, a JSON list; '' stands for all that were too many to tell apart.
CREATE TABLE report_counts (
    kind TEXT COLLATE "C" NOT NULL,
    day BIGINT NOT NULL,
    domain TEXT COLLATE "C" NOT NULL,
    detail TEXT COLLATE "C" NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (kind, day, domain, detail)
);

-- Reports that were sent, are tried again or were given up. `state` is sent, unwanted, waiting or failed.
CREATE TABLE sent_reports (
    kind TEXT COLLATE "C" NOT NULL,
    day BIGINT NOT NULL,
    domain TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    attempts BIGINT NOT NULL,
    next_try BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    destinations TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    modified BIGINT NOT NULL,
    PRIMARY KEY (kind, day, domain)
);
CREATE INDEX sent_reports_by_time ON sent_reports (modified);
CREATE INDEX sent_reports_by_day ON sent_reports (day);

-- The one process that sends.
CREATE TABLE report_runs (
    kind TEXT COLLATE "C" PRIMARY KEY,
    holder TEXT COLLATE "C" NOT NULL,
    locked_until BIGINT NOT NULL
);

-- Policies of other domains for TLS towards their mail servers (RFC 8461). `policy` is JSON.
CREATE TABLE transport_policies (
    domain TEXT COLLATE "C" PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL,
    policy TEXT COLLATE "C" NOT NULL,
    fetched BIGINT NOT NULL,
    expires BIGINT NOT NULL
);
CREATE INDEX transport_policies_by_end ON transport_policies (expires);
