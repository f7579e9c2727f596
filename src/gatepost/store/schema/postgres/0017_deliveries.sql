-- What next hops answered to messages. `completed` and `id` are those of the message; `code` is 0 without a reply.
CREATE TABLE deliveries (
    completed BIGINT NOT NULL,
    id BIGINT NOT NULL,
    time BIGINT NOT NULL,
    queue_id TEXT COLLATE "C" NOT NULL,
    next_hop TEXT NOT NULL,
    code BIGINT NOT NULL,
    reply TEXT NOT NULL,
    node TEXT NOT NULL,
    released BIGINT NOT NULL,
    PRIMARY KEY (completed, id, time, queue_id)
);

-- From the id that a next hop gave a message to the message.
CREATE INDEX deliveries_by_queue_id ON deliveries (queue_id, completed, id);
