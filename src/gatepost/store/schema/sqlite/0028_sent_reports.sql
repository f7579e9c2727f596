-- Additive: programs that know the schema before can go on with it.

-- What is to be reported to others: results of DMARC (`dmarc`) and of TLS towards their mail servers (`tls`), added up by
-- day (days since 1970), policy domain and `detail`, a JSON list; '' stands for all that were too many to tell apart.
CREATE TABLE report_counts (
    kind TEXT NOT NULL,
    day INTEGER NOT NULL,
    domain TEXT NOT NULL,
    detail TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (kind, day, domain, detail)
) STRICT, WITHOUT ROWID;

-- Reports that were sent, are tried again or were given up. `state` is sent, unwanted, waiting or failed.
CREATE TABLE sent_reports (
    kind TEXT NOT NULL,
    day INTEGER NOT NULL,
    domain TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_try INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    destinations TEXT NOT NULL,
    reason TEXT NOT NULL,
    modified INTEGER NOT NULL,
    PRIMARY KEY (kind, day, domain)
) STRICT, WITHOUT ROWID;
CREATE INDEX sent_reports_by_time ON sent_reports (modified);
CREATE INDEX sent_reports_by_day ON sent_reports (day);

-- The one process that sends.
CREATE TABLE report_runs (
    kind TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    locked_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Policies of other domains for TLS towards their mail servers (RFC 8461). `policy` is JSON.
CREATE TABLE transport_policies (
    domain TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    policy TEXT NOT NULL,
    fetched INTEGER NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX transport_policies_by_end ON transport_policies (expires);
