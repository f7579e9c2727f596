-- Additive: programs that know the schema before can go on with it.

-- Counts that are old enough are kept by the hour; this finds the buckets of five minutes that are still to be added up.
CREATE INDEX traffic_by_minutes ON traffic (bucket) WHERE bucket % 3600000 <> 0;

-- The core in whose folder the raw bytes lie; empty where they lie in an object store, and for mail of before.
ALTER TABLE held ADD COLUMN core TEXT NOT NULL DEFAULT '';
