-- Entries that were added through the List API and for which delivered mail is still to be looked at. `keys` is a JSON
-- array; `taken_until` is the time until which a process that has begun with it may take.
CREATE TABLE look_back_queue (
    id INTEGER PRIMARY KEY,
    list_id INTEGER NOT NULL,
    time INTEGER NOT NULL,
    actor TEXT NOT NULL,
    keys TEXT NOT NULL,
    taken_until INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX look_back_queue_by_list ON look_back_queue (list_id, id);
