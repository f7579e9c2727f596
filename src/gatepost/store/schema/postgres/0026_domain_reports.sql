-- Additive: programs that know the schema before can go on with it.

-- What others report about mail of a domain: DMARC (`dmarc`), TLS (`tls`) and single failures (`failure`). A day is the
-- number of days since 1970. `domain_reports` knows which reports were read, so that none counts twice.
CREATE TABLE domain_reports (
    scope TEXT NOT NULL,
    domain TEXT NOT NULL,
    kind TEXT NOT NULL,
    reporter TEXT NOT NULL,
    report_id TEXT NOT NULL,
    received BIGINT NOT NULL,
    day BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    PRIMARY KEY (scope, domain, kind, reporter, report_id)
);

CREATE INDEX domain_reports_by_day ON domain_reports (day);
CREATE INDEX domain_reports_by_receipt ON domain_reports (scope, domain, received);

-- The domains, with the policy that the newest report saw.
CREATE TABLE reported_domains (
    scope TEXT NOT NULL,
    domain TEXT NOT NULL,
    kind TEXT NOT NULL,
    policy TEXT NOT NULL,
    published TEXT NOT NULL,
    day BIGINT NOT NULL,
    seen BIGINT NOT NULL,
    PRIMARY KEY (scope, domain, kind)
);

CREATE TABLE reported_days (
    scope TEXT NOT NULL,
    kind TEXT NOT NULL,
    day BIGINT NOT NULL,
    domain TEXT NOT NULL,
    messages BIGINT NOT NULL,
    passed BIGINT NOT NULL,
    dkim BIGINT NOT NULL,
    spf BIGINT NOT NULL,
    quarantined BIGINT NOT NULL,
    rejected BIGINT NOT NULL,
    PRIMARY KEY (scope, kind, day, domain)
);

CREATE INDEX reported_days_by_day ON reported_days (day);
CREATE INDEX reported_days_by_domain ON reported_days (scope, domain, kind, day);

-- Messages that are alike, on one day. `details` is a JSON list of names.
CREATE TABLE reported_sources (
    scope TEXT NOT NULL,
    domain TEXT NOT NULL,
    kind TEXT NOT NULL,
    day BIGINT NOT NULL,
    source TEXT NOT NULL,
    dkim BIGINT NOT NULL,
    spf BIGINT NOT NULL,
    result TEXT NOT NULL,
    details TEXT NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (scope, domain, kind, day, source, dkim, spf, result, details)
);

CREATE INDEX reported_sources_by_day ON reported_sources (day);
