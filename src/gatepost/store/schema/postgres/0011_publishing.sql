-- Published versions of the configuration, never changed. `content` is packed: the two files without local keys and
-- without secrets, policies, rules and models. `origin` is the version that a rollback brought back, else 0.
CREATE TABLE config_versions (
    number BIGINT PRIMARY KEY,
    time BIGINT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    origin BIGINT NOT NULL,
    digest TEXT NOT NULL,
    content BYTEA NOT NULL
);

-- One row: the version that all nodes shall run, the number of the last restart of all, the node whose turn it is, and
-- the last version that a node could not run.
CREATE TABLE rollout (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    wanted BIGINT NOT NULL,
    restart BIGINT NOT NULL,
    holder TEXT COLLATE "C" NOT NULL,
    held_until BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    failed_node TEXT NOT NULL,
    failed_reason TEXT NOT NULL,
    failed_time BIGINT NOT NULL
);

-- One row that every process writes now and then, to know that storage keeps changes.
CREATE TABLE probe (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    time BIGINT NOT NULL
);

-- Every node, as it has last said itself. `detail` is JSON.
CREATE TABLE nodes (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT NOT NULL,
    seen BIGINT NOT NULL,
    detail TEXT NOT NULL
);

-- Nodes that listen learn of a new version, and that it is their turn, at once.
CREATE FUNCTION gatepost_tell_rollout() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('rollout', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER rollout_changed AFTER UPDATE ON rollout FOR EACH ROW EXECUTE FUNCTION gatepost_tell_rollout();
