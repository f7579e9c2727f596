-- Additive: programs that know the schema before can go on with it.

-- The points of a message beside what else is searched for; null in rows that are older.
ALTER TABLE message_search ADD COLUMN score BIGINT;

-- What searches of held mail ask for and `held` has only in its packed value: the same texts as in `message_search`.
-- Mail without a row here is indexed afterwards (`quarantine.index_held`). A row goes with that of the message, also
-- where a program deletes it that does not know this table.
CREATE TABLE held_search (
    ggrid TEXT COLLATE "C" PRIMARY KEY REFERENCES held (ggrid) ON DELETE CASCADE,
    decision TEXT COLLATE "C" NOT NULL,
    sender_domain TEXT COLLATE "C" NOT NULL,
    sender TEXT COLLATE "C" NOT NULL,
    recipients TEXT COLLATE "C" NOT NULL,
    tags TEXT COLLATE "C" NOT NULL,
    evidence TEXT COLLATE "C"
);

-- Searches that are shared: with the users of a tenant, or with '' those of all tenants; null is the user's own.
ALTER TABLE saved_searches ADD COLUMN shared TEXT COLLATE "C";
CREATE INDEX saved_searches_shared ON saved_searches (shared, page, name) WHERE shared IS NOT NULL;
