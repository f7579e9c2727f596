-- Additive: programs that know the schema before can go on with it.

-- What others report about mail of a domain: DMARC (`dmarc`), TLS (`tls`) and single failures (`failure`). A day is the
-- number of days since 1970. `domain_reports` knows which reports were read, so that none counts twice.
CREATE TABLE domain_reports (
    scope TEXT NOT NULL,
    domain TEXT NOT NULL,
    kind TEXT NOT NULL,
    reporter TEXT NOT NULL,
    report_id TEXT NOT NULL,
    received INTEGER NOT NULL,
    day INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    PRIMARY KEY (scope, domain, kind, reporter, report_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX domain_reports_by_day ON domain_reports (day);
CREATE INDEX domain_reports_by_receipt ON domain_reports (scope, domain, received);

-- The domains, with the policy that the newest report saw.
CREATE TABLE reported_domains (
    scope TEXT NOT NULL,
    domain TEXT NOT NULL,
    kind TEXT NOT NULL,
    policy TEXT NOT NULL,
    published TEXT NOT NULL,
    day INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    PRIMARY KEY (scope, domain, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE reported_days (
    scope TEXT NOT NULL,
    kind TEXT NOT NULL,
    day INTEGER NOT NULL,
    domain TEXT NOT NULL,
    messages INTEGER NOT NULL,
    passed INTEGER NOT NULL,
    dkim INTEGER NOT NULL,
    spf INTEGER NOT NULL,
    quarantined INTEGER NOT NULL,
    rejected INTEGER NOT NULL,
    PRIMARY KEY (scope, kind, day, domain)
) STRICT, WITHOUT ROWID;

CREATE INDEX reported_days_by_day ON reported_days (day);
CREATE INDEX reported_days_by_domain ON reported_days (scope, domain, kind, day);

-- Messages that are alike, on one day. `details` is a JSON list of names.
CREATE TABLE reported_sources (
    scope TEXT NOT NULL,
    domain TEXT NOT NULL,
    kind TEXT NOT NULL,
    day INTEGER NOT NULL,
    source TEXT NOT NULL,
    dkim INTEGER NOT NULL,
    spf INTEGER NOT NULL,
    result TEXT NOT NULL,
    details TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (scope, domain, kind, day, source, dkim, spf, result, details)
) STRICT, WITHOUT ROWID;

CREATE INDEX reported_sources_by_day ON reported_sources (day);
