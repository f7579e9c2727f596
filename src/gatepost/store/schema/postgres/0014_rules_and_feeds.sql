-- Rules of a deployment ('') or a tenant that were written in the web interface. `rules` is a JSON array; `version`
-- counts its changes, so that nodes see which scopes they have to read again.
CREATE TABLE rule_sets (
    scope TEXT COLLATE "C" PRIMARY KEY,
    version BIGINT NOT NULL,
    rules TEXT NOT NULL
);

-- Feeds that were defined in the web interface. `settings` is a JSON object with the keys of `feeds` in abby.yml.
CREATE TABLE feed_definitions (
    name TEXT COLLATE "C" PRIMARY KEY,
    settings TEXT NOT NULL,
    paused SMALLINT NOT NULL,
    modified BIGINT NOT NULL,
    modified_by TEXT NOT NULL
);
