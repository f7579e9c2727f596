-- What a scope knows from delivered mail. `scope` and `key` are digests (see `acquaintance`); the lowest four bits of a
-- key are its kind. `first` and `last` are days since 1970, `days` the number of different ones, `delivered` the number
-- of messages; `held` counts those that were held since it is known. What was only ever held has no row.
CREATE TABLE sightings (
    scope INTEGER NOT NULL,
    key INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    days INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    held INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX sightings_by_day ON sightings (scope, last, days);
