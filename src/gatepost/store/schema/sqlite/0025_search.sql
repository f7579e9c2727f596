-- Additive: programs that know the schema before can go on with it.

-- The points of a message beside what else is searched for; null in rows that are older.
ALTER TABLE message_search ADD COLUMN score INTEGER;

-- What searches of held mail ask for and `held` has only in its packed value: the same texts as in `message_search`.
-- Mail without a row here is indexed afterwards (`quarantine.index_held`). A row goes with that of the message, also
-- where a program deletes it that does not know this table.
CREATE TABLE held_search (
    ggrid TEXT PRIMARY KEY,
    decision TEXT NOT NULL,
    sender_domain TEXT NOT NULL,
    sender TEXT NOT NULL,
    recipients TEXT NOT NULL,
    tags TEXT NOT NULL,
    evidence TEXT
) STRICT, WITHOUT ROWID;
CREATE TRIGGER held_search_goes_with_held AFTER DELETE ON held
BEGIN DELETE FROM held_search WHERE ggrid = OLD.ggrid; END;

-- Searches that are shared: with the users of a tenant, or with '' those of all tenants; null is the user's own.
ALTER TABLE saved_searches ADD COLUMN shared TEXT;
CREATE INDEX saved_searches_shared ON saved_searches (shared, page, name) WHERE shared IS NOT NULL;
