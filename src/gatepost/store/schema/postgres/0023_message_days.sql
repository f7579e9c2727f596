-- Records of messages and what stands beside them are partitioned by the day (UTC) of `completed`, so that whole days can
-- be dropped. What is stored already becomes the first partition as it is: no row is copied. The times that are not
-- covered get a partition when a message needs it (`make_message_day`); there is no default partition, because
-- PostgreSQL could neither read partitions in their order then nor take one away while others are used.

-- Makes the partitions of a day, counted from 1970; false where they are there already. They are made beside the parent
-- tables and attached: that waits for nobody who reads or writes.
CREATE FUNCTION make_message_day(day BIGINT) RETURNS BOOLEAN LANGUAGE plpgsql AS
$$
DECLARE
    parent TEXT;
    leaf TEXT;
BEGIN
    IF EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass(quote_ident('message_search_d' || day))) THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(1198551924, 1);
    FOREACH parent IN ARRAY ARRAY['messages', 'message_recipients', 'deliveries', 'message_search'] LOOP
        leaf := parent || '_d' || day;
        CONTINUE WHEN EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass(quote_ident(leaf)));
        -- One that is not attached was about to be dropped.
        EXECUTE format('DROP TABLE IF EXISTS %I', leaf);
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING STORAGE)', leaf, parent);
        IF parent = 'messages' THEN
            EXECUTE format('ALTER TABLE %I ADD PRIMARY KEY (id), ADD UNIQUE (ggrid)', leaf);
        END IF;
        EXECUTE format(
            'ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
            parent, leaf, day * 86400000, (day + 1) * 86400000
        );
    END LOOP;
    RETURN true;
EXCEPTION WHEN invalid_object_definition THEN
    RETURN false;  -- the first partition has this day
END
$$;

ALTER TABLE messages RENAME TO messages_before;
ALTER TABLE messages_before ALTER COLUMN id DROP IDENTITY;
ALTER INDEX messages_pkey RENAME TO messages_before_pkey;
ALTER INDEX messages_ggrid_key RENAME TO messages_before_ggrid_key;
ALTER TABLE message_search RENAME TO message_search_before;
ALTER INDEX message_search_pkey RENAME TO message_search_before_pkey;
ALTER INDEX message_search_by_tenant RENAME TO message_search_before_by_tenant;
ALTER INDEX message_search_by_verdict RENAME TO message_search_before_by_verdict;
ALTER INDEX message_search_by_sender RENAME TO message_search_before_by_sender;
ALTER TABLE message_recipients RENAME TO message_recipients_before;
ALTER INDEX message_recipients_pkey RENAME TO message_recipients_before_pkey;
ALTER TABLE deliveries RENAME TO deliveries_before;
ALTER INDEX deliveries_pkey RENAME TO deliveries_before_pkey;
ALTER INDEX deliveries_by_queue_id RENAME TO deliveries_before_by_queue_id;

-- Each partition has its own unique indexes of `id` and `ggrid`: those of the whole table would have to contain the
-- time. Records are compressed before they come here.
CREATE TABLE messages (LIKE messages_before) PARTITION BY RANGE (completed);
ALTER TABLE messages ALTER COLUMN detail SET STORAGE EXTERNAL, ALTER COLUMN header SET STORAGE EXTERNAL;
CREATE SEQUENCE messages_id_seq OWNED BY messages.id;
SELECT setval('messages_id_seq', coalesce(max(id), 0) + 1, false) FROM messages_before;
ALTER TABLE messages ALTER COLUMN id SET DEFAULT nextval('messages_id_seq');

CREATE TABLE message_search (LIKE message_search_before, PRIMARY KEY (completed, id)) PARTITION BY RANGE (completed);
CREATE INDEX message_search_by_tenant ON message_search (tenant, completed, id, verdict, decision);
CREATE INDEX message_search_by_verdict ON message_search (verdict, completed, id);
CREATE INDEX message_search_by_sender ON message_search (sender_domain, completed, id);

CREATE TABLE message_recipients (LIKE message_recipients_before, PRIMARY KEY (address, completed, id))
PARTITION BY RANGE (completed);

CREATE TABLE deliveries (LIKE deliveries_before, PRIMARY KEY (completed, id, time, queue_id))
PARTITION BY RANGE (completed);
CREATE INDEX deliveries_by_queue_id ON deliveries (queue_id, completed, id);

-- The first partition ends with this day; in a new database, with the day before. The few rows of a clock that was
-- ahead are moved. PostgreSQL reads each table once to be sure of its times; the notices say how far it is.
DO $$
DECLARE
    today BIGINT := (extract(epoch FROM now())::bigint / 86400);
    border BIGINT;
    parent TEXT;
    done BIGINT := 0;
    total BIGINT := 0;
    ahead BIGINT[];
BEGIN
    border := CASE WHEN EXISTS (SELECT FROM messages_before) THEN today + 1 ELSE today END;
    ahead := ARRAY(SELECT DISTINCT completed / 86400000 FROM message_search_before WHERE completed >= border * 86400000);
    PERFORM make_message_day(day) FROM unnest(ahead) AS day;
    FOREACH parent IN ARRAY ARRAY['messages', 'message_search', 'message_recipients', 'deliveries'] LOOP
        total := total + pg_relation_size((parent || '_before')::regclass);
    END LOOP;
    FOREACH parent IN ARRAY ARRAY['messages', 'message_recipients', 'deliveries', 'message_search'] LOOP
        IF cardinality(ahead) > 0 THEN
            EXECUTE format(
                'WITH moved AS (DELETE FROM %1$I_before WHERE id IN (SELECT id FROM message_search_before
                WHERE completed >= %2$s) AND completed >= %2$s RETURNING *) INSERT INTO %1$I SELECT * FROM moved',
                parent, border * 86400000
            );
        END IF;
        EXECUTE format(
            'ALTER TABLE %1$I ATTACH PARTITION %1$I_before FOR VALUES FROM (MINVALUE) TO (%2$s)',
            parent, border * 86400000
        );
        done := done + pg_relation_size((parent || '_before')::regclass);
        RAISE NOTICE 'gatepost: % of % bytes', done, total;
    END LOOP;
    PERFORM make_message_day(day) FROM generate_series(today, today + 7) AS day;
END
$$;
