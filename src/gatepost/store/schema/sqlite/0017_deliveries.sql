-- What next hops answered to messages. `completed` and `id` are those of the message; `code` is 0 without a reply.
CREATE TABLE deliveries (
    completed INTEGER NOT NULL,
    id INTEGER NOT NULL,
    time INTEGER NOT NULL,
    queue_id TEXT NOT NULL,
    next_hop TEXT NOT NULL,
    code INTEGER NOT NULL,
    reply TEXT NOT NULL,
    node TEXT NOT NULL,
    released INTEGER NOT NULL,
    PRIMARY KEY (completed, id, time, queue_id)
) STRICT, WITHOUT ROWID;

-- From the id that a next hop gave a message to the message.
CREATE INDEX deliveries_by_queue_id ON deliveries (queue_id, completed, id);
