-- Training pools: reports on mail, one for each tenant (`scope` is its uid) and one for the deployment (empty). Of a message
-- there is its feature row (two bytes for each number), of mailbox and sender's domain a digest. What one reporter says anew
-- of a message replaces what the same reporter said before.
CREATE TABLE training_reports (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope TEXT COLLATE "C" NOT NULL,
    reporter TEXT COLLATE "C" NOT NULL,
    message TEXT COLLATE "C" NOT NULL,
    unwanted BIGINT NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    mailbox TEXT COLLATE "C" NOT NULL,
    domain TEXT COLLATE "C" NOT NULL,
    features BYTEA NOT NULL,
    created BIGINT NOT NULL
);
CREATE UNIQUE INDEX training_reports_by_message ON training_reports (scope, reporter, message);
CREATE INDEX training_reports_by_scope ON training_reports (scope, id);
CREATE INDEX training_reports_by_reporter ON training_reports (scope, reporter, created);
CREATE INDEX training_reports_by_age ON training_reports (created);

-- Models that pools have taught, with the figures of their training and what looking back has found, both JSON. At most one
-- of a scope is `current`.
CREATE TABLE learnt_models (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    figures TEXT COLLATE "C" NOT NULL,
    look_back TEXT COLLATE "C" NOT NULL,
    data BYTEA NOT NULL
);
CREATE UNIQUE INDEX learnt_models_current ON learnt_models (scope) WHERE state = 'current';
CREATE INDEX learnt_models_by_scope ON learnt_models (scope, id);

-- When a pool was trained, when it is due again, and who trains it at this moment: `holder` until `locked_until`.
CREATE TABLE learning_runs (
    scope TEXT COLLATE "C" PRIMARY KEY,
    holder TEXT COLLATE "C" NOT NULL,
    locked_until BIGINT NOT NULL,
    next_run BIGINT NOT NULL,
    finished BIGINT NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL
);
