-- Additive: programs that know the schema before can go on with it.

-- Security keys and passkeys of users (WebAuthn). `credential` is the id that the authenticator gave it, in Base64 without
-- padding; `rp_id` the host that it was made for; `public_key` its attested credential data with the COSE
-- key; `counter` the last signature counter.
CREATE TABLE security_keys (
    id TEXT COLLATE "C" PRIMARY KEY,
    user_uid TEXT COLLATE "C" NOT NULL,
    credential TEXT COLLATE "C" NOT NULL,
    rp_id TEXT COLLATE "C" NOT NULL,
    public_key BYTEA NOT NULL,
    counter BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    transports TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    last_used BIGINT
);
CREATE INDEX security_keys_by_user ON security_keys (user_uid);
CREATE UNIQUE INDEX security_keys_by_credential ON security_keys (rp_id, credential);

-- The challenge that a key is to sign for this session, after its purpose; empty where none is open.
ALTER TABLE sessions ADD COLUMN challenge TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN challenge_until BIGINT NOT NULL DEFAULT 0;

-- When, and from which address, the tokens of the Email Scanning API were last used. Tokens themselves are settings.
CREATE TABLE token_uses (
    name TEXT COLLATE "C" PRIMARY KEY,
    last_used BIGINT NOT NULL,
    address TEXT COLLATE "C" NOT NULL
);
ALTER TABLE api_keys ADD COLUMN last_address TEXT COLLATE "C" NOT NULL DEFAULT '';
