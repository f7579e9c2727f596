-- Additive: programs that know the schema before can go on with it.

-- The raw bytes of small messages that are held, written by the commit that puts them on record. Those of others lie in
-- the raw store. They are deleted with the row of the message, also by a program that does not know this table.
CREATE TABLE held_bytes (
    ggrid TEXT PRIMARY KEY,
    content BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER held_bytes_go_with_held AFTER DELETE ON held
BEGIN DELETE FROM held_bytes WHERE ggrid = OLD.ggrid; END;
