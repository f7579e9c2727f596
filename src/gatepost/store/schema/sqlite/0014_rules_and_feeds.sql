-- Rules of a deployment ('') or a tenant that were written in the web interface. `rules` is a JSON array; `version`
-- counts its changes, so that nodes see which scopes they have to read again.
CREATE TABLE rule_sets (
    scope TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    rules TEXT NOT NULL
) STRICT;

-- Feeds that were defined in the web interface. `settings` is a JSON object with the keys of `feeds` in abby.yml.
CREATE TABLE feed_definitions (
    name TEXT PRIMARY KEY,
    settings TEXT NOT NULL,
    paused INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    modified_by TEXT NOT NULL
) STRICT;
