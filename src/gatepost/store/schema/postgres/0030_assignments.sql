-- Additive: programs that know the schema before can go on with it.

-- Who a message is assigned to, for searches by `assignee:`, without reading the notes of everybody.
CREATE INDEX message_notes_by_assignee ON message_notes (lower(said), id) WHERE kind = 'assign';
