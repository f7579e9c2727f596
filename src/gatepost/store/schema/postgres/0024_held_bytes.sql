-- Additive: programs that know the schema before can go on with it.

-- The raw bytes of small messages that were held in SQLite and copied. Those of others lie in the raw store. They are
-- deleted with the row of the message, also by a program that does not know this table.
CREATE TABLE held_bytes (
    ggrid TEXT COLLATE "C" PRIMARY KEY REFERENCES held (ggrid) ON DELETE CASCADE,
    content BYTEA NOT NULL
);
