-- Attempts to sign in that did not succeed, for each user: from one address, from one browser, in one session, and in
-- all ('account'). Until `locked_until` no further attempt is taken there.
CREATE TABLE sign_in_attempts (
    user_uid TEXT NOT NULL,
    source TEXT NOT NULL,
    failures INTEGER NOT NULL,
    last INTEGER NOT NULL,
    locked_until INTEGER NOT NULL,
    PRIMARY KEY (user_uid, source)
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_in_attempts_by_last ON sign_in_attempts (last);

-- Browsers in which a user has signed in before. `digest` is the SHA-256 of the cookie's secret, in hex.
CREATE TABLE known_browsers (
    user_uid TEXT NOT NULL,
    digest TEXT NOT NULL,
    seen INTEGER NOT NULL,
    PRIMARY KEY (user_uid, digest)
) STRICT, WITHOUT ROWID;

ALTER TABLE users DROP COLUMN failures;
ALTER TABLE users DROP COLUMN locked_until;
