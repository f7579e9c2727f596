-- What a scope knows from delivered mail. `scope` and `key` are digests (see `acquaintance`); the lowest four bits of a
-- key are its kind. `first` and `last` are days since 1970, `days` the number of different ones, `delivered` the number
-- of messages; `held` counts those that were held since it is known. What was only ever held has no row.
CREATE TABLE sightings (
    scope BIGINT NOT NULL,
    key BIGINT NOT NULL,
    first BIGINT NOT NULL,
    last BIGINT NOT NULL,
    days BIGINT NOT NULL,
    delivered BIGINT NOT NULL,
    held BIGINT NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX sightings_by_day ON sightings (scope, last, days);
