-- Additive: programs that know the schema before can go on with it.

-- How many bytes the entries of the lists that are handed out whole have, as of the version `counted_version` of
-- `unkeyed`. A program that does not know these columns raises `unkeyed` alone: then they are counted anew.
ALTER TABLE scopes ADD COLUMN unkeyed_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE scopes ADD COLUMN counted_version BIGINT NOT NULL DEFAULT 0;

-- The keys of a tenant are counted whenever one is made.
CREATE INDEX api_keys_by_tenant ON api_keys (tenant, created, id);
