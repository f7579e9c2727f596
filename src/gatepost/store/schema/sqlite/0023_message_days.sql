-- Additive: programs that know the schema before can go on with it.

-- PostgreSQL has partitions for days from here on. Nothing changes in SQLite; both engines count alike.
