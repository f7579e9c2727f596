-- Training pools: reports on mail, one for each tenant (`scope` is its uid) and one for the deployment (empty). Of a message
-- there is its feature row (two bytes for each number), of mailbox and sender's domain a digest. What one reporter says anew
-- of a message replaces what the same reporter said before.
CREATE TABLE training_reports (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    scope TEXT NOT NULL,
    reporter TEXT NOT NULL,
    message TEXT NOT NULL,
    unwanted INTEGER NOT NULL,
    source TEXT NOT NULL,
    mailbox TEXT NOT NULL,
    domain TEXT NOT NULL,
    features BLOB NOT NULL,
    created INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX training_reports_by_message ON training_reports (scope, reporter, message);
CREATE INDEX training_reports_by_scope ON training_reports (scope, id);
CREATE INDEX training_reports_by_reporter ON training_reports (scope, reporter, created);
CREATE INDEX training_reports_by_age ON training_reports (created);

-- Models that pools have taught, with the figures of their training and what looking back has found, both JSON. At most one
-- of a scope is `current`.
CREATE TABLE learnt_models (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    scope TEXT NOT NULL,
    state TEXT NOT NULL,
    created INTEGER NOT NULL,
    figures TEXT NOT NULL,
    look_back TEXT NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX learnt_models_current ON learnt_models (scope) WHERE state = 'current';
CREATE INDEX learnt_models_by_scope ON learnt_models (scope, id);

-- When a pool was trained, when it is due again, and who trains it at this moment: `holder` until `locked_until`.
CREATE TABLE learning_runs (
    scope TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    locked_until INTEGER NOT NULL,
    next_run INTEGER NOT NULL,
    finished INTEGER NOT NULL,
    outcome TEXT NOT NULL
) STRICT, WITHOUT ROWID;
