-- Additive: programs that know the schema before can go on with it.

-- Security keys and passkeys of users (WebAuthn). `credential` is the id that the authenticator gave it, in Base64 without
-- padding; `rp_id` the host that it was made for; `public_key` its attested credential data with the COSE
-- key; `counter` the last signature counter.
CREATE TABLE security_keys (
    id TEXT PRIMARY KEY,
    user_uid TEXT NOT NULL,
    credential TEXT NOT NULL,
    rp_id TEXT NOT NULL,
    public_key BLOB NOT NULL,
    counter INTEGER NOT NULL,
    name TEXT NOT NULL,
    transports TEXT NOT NULL,
    created INTEGER NOT NULL,
    last_used INTEGER
) STRICT;
CREATE INDEX security_keys_by_user ON security_keys (user_uid);
CREATE UNIQUE INDEX security_keys_by_credential ON security_keys (rp_id, credential);

-- The challenge that a key is to sign for this session, after its purpose; empty where none is open.
ALTER TABLE sessions ADD COLUMN challenge TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN challenge_until INTEGER NOT NULL DEFAULT 0;

-- When, and from which address, the tokens of the Email Scanning API were last used. Tokens themselves are settings.
CREATE TABLE token_uses (
    name TEXT PRIMARY KEY,
    last_used INTEGER NOT NULL,
    address TEXT NOT NULL
) STRICT, WITHOUT ROWID;
ALTER TABLE api_keys ADD COLUMN last_address TEXT NOT NULL DEFAULT '';
