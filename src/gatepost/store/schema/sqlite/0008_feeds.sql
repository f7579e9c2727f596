-- What is remembered of a feed, and who runs it at this moment: `holder` until `locked_until`. `detail` is JSON.
CREATE TABLE feeds (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    locked_until INTEGER NOT NULL,
    next_run INTEGER NOT NULL,
    detail TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The entries of a feed are those that it changed last.
CREATE INDEX entries_by_feed ON entries (list_id, modified_by, key) WHERE substr(modified_by, 1, 5) = 'feed:';

-- Delivered messages that new entries of a list would have held. `hits` is a JSON array of pairs: ggrid and entry.
CREATE TABLE look_backs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    list_id INTEGER NOT NULL,
    time INTEGER NOT NULL,
    actor TEXT NOT NULL,
    entries INTEGER NOT NULL,
    days INTEGER NOT NULL,
    considered INTEGER NOT NULL,
    reached INTEGER,
    found INTEGER NOT NULL,
    hits TEXT NOT NULL
) STRICT;
CREATE INDEX look_backs_by_list ON look_backs (list_id, id);
