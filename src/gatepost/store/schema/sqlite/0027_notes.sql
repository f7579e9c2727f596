-- Additive: programs that know the schema before can go on with it.

-- Notes on messages, and their assignments to users (`kind` is note or assign). `scope` is the tenant, '' for none;
-- `work` is the step that wrote it, by which it is taken back.
CREATE TABLE message_notes (
    id TEXT PRIMARY KEY,
    ggrid TEXT NOT NULL,
    scope TEXT NOT NULL,
    kind TEXT NOT NULL,
    said TEXT NOT NULL,
    by_name TEXT NOT NULL,
    created INTEGER NOT NULL,
    work TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX message_notes_by_message ON message_notes (ggrid, id);
CREATE INDEX message_notes_by_scope ON message_notes (scope, id);
CREATE INDEX message_notes_by_work ON message_notes (work);
CREATE INDEX message_notes_by_age ON message_notes (created);
