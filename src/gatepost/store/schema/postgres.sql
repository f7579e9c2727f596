-- The schema of a PostgreSQL database, as a new one gets it: number 32 (`store/upgrading.py`, which also says how to
-- change it). Times are Unix milliseconds, and days are counted from 1970, unless a comment says otherwise.

-- This database -------------------------------------------------------------------------------------------------------

-- Facts about this database: `schema` is the number of its schema, `usable_from` the schema that a program has to know
-- to use it, `normal_forms` the version of the normal forms of list entries.
CREATE TABLE meta (
    key TEXT COLLATE "C" PRIMARY KEY,
    value TEXT NOT NULL
);

-- One row that every process writes now and then, to know that storage keeps changes.
CREATE TABLE probe (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    time BIGINT NOT NULL
);

-- Tenants -------------------------------------------------------------------------------------------------------------

-- `history_days` and `quarantine_days` are the days after which results and held mail of a tenant are deleted; null
-- means what the configuration says.
CREATE TABLE tenants (
    uid TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    history_days BIGINT,
    quarantine_days BIGINT
);
CREATE UNIQUE INDEX tenants_by_name ON tenants (name);

-- The tenant of each domain of recipients.
CREATE TABLE tenant_domains (
    domain TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL
);
CREATE INDEX tenant_domains_by_tenant ON tenant_domains (tenant);

-- Tenants that are deleted, but whose results are still being deleted.
CREATE TABLE departed (
    tenant TEXT COLLATE "C" PRIMARY KEY
);

-- Messages, by the day of their analysis ------------------------------------------------------------------------------

-- One row for each analysis. `detail` holds envelope and report whole, compressed; `header` is the raw header section,
-- cut and packed, and null where it is not kept. `recipients` and `tags` are JSON arrays.
CREATE TABLE messages (
    id BIGSERIAL,
    ggrid TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    completed BIGINT NOT NULL,
    tenant TEXT COLLATE "C",
    verdict TEXT COLLATE "C" NOT NULL,
    decision TEXT COLLATE "C" NOT NULL,
    score BIGINT NOT NULL,
    tags TEXT NOT NULL,
    sender TEXT COLLATE "C" NOT NULL,
    recipients TEXT NOT NULL,
    subject TEXT NOT NULL,
    size BIGINT NOT NULL,
    sha256 TEXT COLLATE "C" NOT NULL,
    detail BYTEA NOT NULL,
    header BYTEA
) PARTITION BY RANGE (completed);
-- `detail` and `header` are compressed before they come here.
ALTER TABLE messages ALTER COLUMN detail SET STORAGE EXTERNAL, ALTER COLUMN header SET STORAGE EXTERNAL;

-- What messages are searched by, apart from the long rows that are shown: folded, cut, and in the order of time.
-- `recipients` and `tags` have a line for each, and a line end at both ends. `evidence` has digests of what
-- investigations ask for (see `message_evidence`), separated by spaces; null means: look into the record. `score` is
-- null in old rows.
CREATE TABLE message_search (
    completed BIGINT NOT NULL,
    id BIGINT NOT NULL,
    tenant TEXT COLLATE "C",
    verdict TEXT COLLATE "C" NOT NULL,
    decision TEXT COLLATE "C" NOT NULL,
    sender_domain TEXT COLLATE "C" NOT NULL,
    sender TEXT COLLATE "C" NOT NULL,
    subject TEXT NOT NULL,
    recipients TEXT NOT NULL,
    tags TEXT NOT NULL,
    evidence TEXT COLLATE "C",
    score BIGINT,
    PRIMARY KEY (completed, id)
) PARTITION BY RANGE (completed);
CREATE INDEX message_search_by_tenant ON message_search (tenant, completed, id, verdict, decision);
CREATE INDEX message_search_by_verdict ON message_search (verdict, completed, id);
CREATE INDEX message_search_by_sender ON message_search (sender_domain, completed, id);

-- The recipients of messages, for searching.
CREATE TABLE message_recipients (
    address TEXT COLLATE "C" NOT NULL,
    completed BIGINT NOT NULL,
    id BIGINT NOT NULL,
    PRIMARY KEY (address, completed, id)
) PARTITION BY RANGE (completed);

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
) PARTITION BY RANGE (completed);
-- From the id that a next hop gave a message to the message.
CREATE INDEX deliveries_by_queue_id ON deliveries (queue_id, completed, id);

-- Messages up to this id were kept before there was a search, and are still to be entered, from the newest on.
CREATE TABLE unsearched (
    upto BIGINT NOT NULL
);

-- Makes the partitions of a day; false where they are there already. They are made beside the parent tables and
-- attached: that waits for nobody who reads or writes. Each partition has its own unique indexes of `id` and `ggrid`:
-- those of the whole table would have to contain the time. There is no default partition, because PostgreSQL could
-- neither read partitions in their order then nor take one away while others are used.
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

-- The first partition has all days before this one: copies of other databases bring results of them.
DO $$
DECLARE
    today BIGINT := extract(epoch FROM now())::bigint / 86400;
    parent TEXT;
BEGIN
    FOREACH parent IN ARRAY ARRAY['messages', 'message_recipients', 'deliveries', 'message_search'] LOOP
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (MINVALUE) TO (%s)',
            parent || '_before', parent, today * 86400000
        );
    END LOOP;
    ALTER TABLE messages_before ADD PRIMARY KEY (id), ADD UNIQUE (ggrid);
    PERFORM make_message_day(day) FROM generate_series(today, today + 7) AS day;
END
$$;

-- Messages: what people say and do about them -------------------------------------------------------------------------

-- Notes on messages. `scope` is the tenant, '' for none; `work` is the step that wrote it, by which it is taken back.
CREATE TABLE message_notes (
    id TEXT COLLATE "C" PRIMARY KEY,
    ggrid TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    said TEXT COLLATE "C" NOT NULL,
    by_name TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    work TEXT COLLATE "C" NOT NULL
);
CREATE INDEX message_notes_by_message ON message_notes (ggrid, id);
CREATE INDEX message_notes_by_scope ON message_notes (scope, id);
CREATE INDEX message_notes_by_work ON message_notes (work);
CREATE INDEX message_notes_by_age ON message_notes (created);

-- Copies of delivered messages that were taken out of mailboxes. `mailbox` is a digest of the recipient, whose address
-- the record of the message has; `copy` tells those of one mailbox apart; `folder` is where the copy was. `state` is moved, deleted, restored, absent or failed.
CREATE TABLE removed_mail (
    ggrid TEXT COLLATE "C" NOT NULL,
    mailbox TEXT COLLATE "C" NOT NULL,
    copy TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    folder TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    by_name TEXT COLLATE "C" NOT NULL,
    modified BIGINT NOT NULL,
    PRIMARY KEY (ggrid, mailbox, copy)
);
CREATE INDEX removed_mail_by_scope ON removed_mail (scope, modified);
CREATE INDEX removed_mail_by_time ON removed_mail (modified);

-- Messages that could not be decided, by a digest of bytes and envelope; kept for a day.
CREATE TABLE undecided (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    digest TEXT COLLATE "C" NOT NULL,
    time BIGINT NOT NULL
);
CREATE INDEX undecided_by_digest ON undecided (digest, time);
CREATE INDEX undecided_by_time ON undecided (time);

-- Traffic in buckets of five minutes, and by the hour when it is older; the tenant '' stands for all. `l0` and on count
-- latencies in bins that double. Processes that write at the same time write different values of `part`.
CREATE TABLE traffic (
    tenant TEXT COLLATE "C" NOT NULL,
    bucket BIGINT NOT NULL,
    verdict TEXT COLLATE "C" NOT NULL,
    decision TEXT COLLATE "C" NOT NULL,
    part BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    duration BIGINT NOT NULL,
    longest BIGINT NOT NULL,
    l0 BIGINT NOT NULL,
    l1 BIGINT NOT NULL,
    l2 BIGINT NOT NULL,
    l3 BIGINT NOT NULL,
    l4 BIGINT NOT NULL,
    l5 BIGINT NOT NULL,
    l6 BIGINT NOT NULL,
    l7 BIGINT NOT NULL,
    l8 BIGINT NOT NULL,
    l9 BIGINT NOT NULL,
    l10 BIGINT NOT NULL,
    l11 BIGINT NOT NULL,
    l12 BIGINT NOT NULL,
    l13 BIGINT NOT NULL,
    l14 BIGINT NOT NULL,
    l15 BIGINT NOT NULL,
    l16 BIGINT NOT NULL,
    l17 BIGINT NOT NULL,
    PRIMARY KEY (tenant, bucket, verdict, decision, part)
);
CREATE INDEX traffic_by_time ON traffic (bucket);
CREATE INDEX traffic_by_part ON traffic (bucket) WHERE part <> 0;
-- Counts that are old enough are kept by the hour; this finds the buckets of five minutes that are still to be added
-- up.
CREATE INDEX traffic_by_minutes ON traffic (bucket) WHERE bucket % 3600000 <> 0;

-- Held mail -----------------------------------------------------------------------------------------------------------

-- Mail that is held, was released or was deleted. The raw bytes lie in the raw store, under the ggrid; `core` names the
-- core in whose folder they lie, and is empty where they lie in an object store. `detail` holds envelope and report
-- whole, since history may be kept for a shorter time. `subject` is folded and cut, for searching. `state` is held,
-- releasing, released or deleted, and `gone` is 0, 0, 1 or 2. The process that releases has the message to itself until
-- `lease`, and writes its own mark into `holder`. `released_to` is a JSON array. Deleted mail stays for some days, so
-- that a deletion can be taken back.
CREATE TABLE held (
    ggrid TEXT COLLATE "C" PRIMARY KEY,
    created BIGINT NOT NULL,
    completed BIGINT NOT NULL,
    kept BIGINT NOT NULL,
    tenant TEXT COLLATE "C",
    verdict TEXT COLLATE "C" NOT NULL,
    sender TEXT COLLATE "C" NOT NULL,
    sender_domain TEXT COLLATE "C" NOT NULL,
    size BIGINT NOT NULL,
    sha256 TEXT COLLATE "C" NOT NULL,
    detail BYTEA NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    holder TEXT COLLATE "C" NOT NULL,
    lease BIGINT NOT NULL,
    released BIGINT,
    released_by TEXT,
    released_to TEXT,
    subject TEXT NOT NULL DEFAULT '',
    score BIGINT NOT NULL DEFAULT 0,
    gone BIGINT NOT NULL DEFAULT 0,
    deleted BIGINT,
    deleted_by TEXT,
    core TEXT COLLATE "C" NOT NULL DEFAULT ''
);
CREATE INDEX held_by_time ON held (kept);
CREATE INDEX held_by_tenant ON held (tenant, ggrid);
CREATE INDEX held_by_verdict ON held (verdict, ggrid);
CREATE INDEX held_by_sender ON held (sender, ggrid);
CREATE INDEX held_by_sender_domain ON held (sender_domain, ggrid);
CREATE INDEX held_sizes ON held (size) WHERE state <> 'released';
-- Held mail in the order in which it came, with what it is looked through for, so that the long rows need not be read.
CREATE INDEX held_in_order ON held (gone, kept, ggrid, tenant, verdict, score, subject);
CREATE INDEX held_in_order_by_tenant ON held (gone, tenant, kept, ggrid, verdict, score, subject);
CREATE INDEX held_deleted ON held (deleted) WHERE deleted IS NOT NULL;

-- The recipients of held mail, folded, for searching.
CREATE TABLE held_recipients (
    ggrid TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    domain TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (ggrid, address)
);
CREATE INDEX held_recipients_by_address ON held_recipients (address, ggrid);
CREATE INDEX held_recipients_by_domain ON held_recipients (domain, ggrid);

-- What searches of held mail ask for and `held` has only in its packed value: the same texts as in `message_search`.
-- Mail without a row here is indexed afterwards (`quarantine.index_held`).
CREATE TABLE held_search (
    ggrid TEXT COLLATE "C" PRIMARY KEY REFERENCES held (ggrid) ON DELETE CASCADE,
    decision TEXT COLLATE "C" NOT NULL,
    sender_domain TEXT COLLATE "C" NOT NULL,
    sender TEXT COLLATE "C" NOT NULL,
    recipients TEXT COLLATE "C" NOT NULL,
    tags TEXT COLLATE "C" NOT NULL,
    evidence TEXT COLLATE "C"
);

-- The raw bytes of small messages that were held in SQLite and copied. Those of others lie in the raw store.
CREATE TABLE held_bytes (
    ggrid TEXT COLLATE "C" PRIMARY KEY REFERENCES held (ggrid) ON DELETE CASCADE,
    content BYTEA NOT NULL
);

-- Recipients of held mail who have got their copy while it is held for others.
CREATE TABLE recipient_releases (
    ggrid TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    released BIGINT NOT NULL,
    released_by TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (ggrid, address)
);

-- An action on many held messages. `items` is a JSON array of their ids in the order of the work, `results` one of the
-- same order with "" for each that succeeded and the reason for each that failed. The process that works has it until
-- `lease`.
CREATE TABLE bulk_actions (
    id TEXT COLLATE "C" PRIMARY KEY,
    user_uid TEXT COLLATE "C" NOT NULL,
    action TEXT NOT NULL,
    items TEXT NOT NULL,
    results TEXT NOT NULL,
    created BIGINT NOT NULL,
    finished BIGINT,
    lease BIGINT NOT NULL
);
CREATE INDEX bulk_actions_by_user ON bulk_actions (user_uid, created);
CREATE INDEX bulk_actions_by_age ON bulk_actions (created);

-- Searches that a user has given a name. `query` is the query of the page's address. `shared` says with whom a search
-- is shared: with the users of a tenant, or with '' those of all tenants; null is the user's own.
CREATE TABLE saved_searches (
    id TEXT COLLATE "C" PRIMARY KEY,
    user_uid TEXT COLLATE "C" NOT NULL,
    page TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    query TEXT NOT NULL,
    created BIGINT NOT NULL,
    shared TEXT COLLATE "C"
);
CREATE INDEX saved_searches_by_user ON saved_searches (user_uid, page, name);
CREATE INDEX saved_searches_shared ON saved_searches (shared, page, name) WHERE shared IS NOT NULL;

-- Recipients and digests ----------------------------------------------------------------------------------------------

-- What recipients ask for (`release`), and what users report by mail (`report`), until somebody decides.
CREATE TABLE recipient_requests (
    id TEXT COLLATE "C" PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    ggrid TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    said TEXT NOT NULL,
    created BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    decided BIGINT,
    decided_by TEXT NOT NULL,
    note TEXT NOT NULL
);
CREATE UNIQUE INDEX recipient_requests_once ON recipient_requests (ggrid, address, kind);
CREATE INDEX recipient_requests_by_state ON recipient_requests (state, id);
CREATE INDEX recipient_requests_by_scope ON recipient_requests (scope, state, id);
CREATE INDEX recipient_requests_by_address ON recipient_requests (address, state);

-- Senders that a recipient allows or blocks for mail that is addressed to nobody else.
CREATE TABLE recipient_entries (
    scope TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    sender TEXT COLLATE "C" NOT NULL,
    says TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    PRIMARY KEY (scope, address, sender)
);
CREATE INDEX recipient_entries_by_address ON recipient_entries (address);

-- What a tenant, or '' for mail without one, wants of digests, as a JSON object.
CREATE TABLE digest_settings (
    scope TEXT COLLATE "C" PRIMARY KEY,
    settings TEXT NOT NULL,
    modified BIGINT NOT NULL,
    modified_by TEXT NOT NULL
);

-- Jobs that one process at a time does: `holder` has one until `locked_until`. When it is due, and what came of it last;
-- `detail` is JSON.
CREATE TABLE jobs (
    kind TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    holder TEXT COLLATE "C" NOT NULL,
    locked_until BIGINT NOT NULL,
    next_run BIGINT NOT NULL,
    finished BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (kind, scope)
);

-- Up to which message the digests of a scope were planned.
CREATE TABLE digest_runs (
    scope TEXT COLLATE "C" PRIMARY KEY,
    planned_until BIGINT NOT NULL,
    after_kept BIGINT NOT NULL,
    after_ggrid TEXT COLLATE "C" NOT NULL
);

-- A digest lists what was held after `since`, up to `until`. It waits while `sent` is NULL; a recipient has at most one
-- that waits.
CREATE TABLE digests (
    id TEXT COLLATE "C" PRIMARY KEY,
    scope TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    since BIGINT NOT NULL,
    until BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    next_try BIGINT NOT NULL,
    fault TEXT NOT NULL,
    sent BIGINT,
    expires BIGINT NOT NULL
);
CREATE UNIQUE INDEX digests_waiting ON digests (scope, address) WHERE sent IS NULL;
CREATE INDEX digests_due ON digests (scope, next_try) WHERE sent IS NULL;
CREATE INDEX digests_by_end ON digests (expires);
CREATE INDEX digests_by_address ON digests (address);

-- Links of digests that were used; `item` is a ggrid, or '' for the page of the recipient's own entries.
CREATE TABLE digest_uses (
    digest TEXT COLLATE "C" NOT NULL,
    item TEXT COLLATE "C" NOT NULL,
    used BIGINT NOT NULL,
    PRIMARY KEY (digest, item)
);

-- Keys that links are signed with, as hex digits.
CREATE TABLE digest_keys (
    number BIGINT PRIMARY KEY,
    secret TEXT NOT NULL,
    created BIGINT NOT NULL
);

-- Lists, feeds and rules ----------------------------------------------------------------------------------------------

-- What the readers of a scope may remember, and until when: `directory` changes with the lists that have entries (and
-- the prefix lengths in them), `unkeyed` with anything in lists that are handed out whole. `unkeyed_bytes` is the size
-- of the entries of these lists, as of the version `counted_version` of `unkeyed`. The global scope is ''.
CREATE TABLE scopes (
    scope TEXT COLLATE "C" PRIMARY KEY,
    directory BIGINT NOT NULL,
    unkeyed BIGINT NOT NULL,
    unkeyed_bytes BIGINT NOT NULL DEFAULT 0,
    counted_version BIGINT NOT NULL DEFAULT 0
);

-- A list in one scope. A usual list gets a row with its first entry; the program knows what it is. A list that is being
-- deleted has the scope '-', and its id as its name.
CREATE TABLE lists (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    scope TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    category TEXT COLLATE "C" NOT NULL,
    display_name TEXT NOT NULL,
    description TEXT NOT NULL,
    max_size BIGINT NOT NULL,
    custom BIGINT NOT NULL,
    size BIGINT NOT NULL,
    UNIQUE (scope, name)
);

-- How many entries of a list of networks have a prefix length: '4/24', '6/128'.
CREATE TABLE list_prefixes (
    list_id BIGINT NOT NULL,
    prefix TEXT COLLATE "C" NOT NULL,
    entries BIGINT NOT NULL,
    PRIMARY KEY (list_id, prefix)
);

-- All entries of all lists. `shown` is null where it is the same as the key.
CREATE TABLE entries (
    list_id BIGINT NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    shown TEXT COLLATE "C",
    comment TEXT NOT NULL,
    created BIGINT NOT NULL,
    modified BIGINT NOT NULL,
    modified_by TEXT NOT NULL,
    expires BIGINT,
    hits BIGINT NOT NULL DEFAULT 0,
    last_hit BIGINT,
    PRIMARY KEY (list_id, key)
);
CREATE INDEX entries_by_expiry ON entries (list_id, expires) WHERE expires IS NOT NULL;
-- The entries of a feed are those that it changed last.
CREATE INDEX entries_by_feed ON entries (list_id, modified_by, key) WHERE substr(modified_by, 1, 5) = 'feed:';

-- Feeds that were defined in the web interface. `settings` is a JSON object with the keys of `feeds` in abby.yml.
CREATE TABLE feed_definitions (
    name TEXT COLLATE "C" PRIMARY KEY,
    settings TEXT NOT NULL,
    paused SMALLINT NOT NULL,
    modified BIGINT NOT NULL,
    modified_by TEXT NOT NULL
);

-- Delivered messages that new entries of a list would have held. `hits` is a JSON array of pairs: ggrid and entry.
CREATE TABLE look_backs (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    list_id BIGINT NOT NULL,
    time BIGINT NOT NULL,
    actor TEXT NOT NULL,
    entries BIGINT NOT NULL,
    days BIGINT NOT NULL,
    considered BIGINT NOT NULL,
    reached BIGINT,
    found BIGINT NOT NULL,
    hits TEXT NOT NULL
);
CREATE INDEX look_backs_by_list ON look_backs (list_id, id);

-- Entries that were added through the List API and for which delivered mail is still to be looked at. `keys` is a JSON
-- array.
CREATE TABLE look_back_queue (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    list_id BIGINT NOT NULL,
    time BIGINT NOT NULL,
    actor TEXT NOT NULL,
    keys TEXT NOT NULL
);
CREATE INDEX look_back_queue_by_list ON look_back_queue (list_id, id);

-- Rules of a deployment ('') or a tenant that were written in the web interface. `rules` is a JSON array; `version`
-- counts its changes, so that nodes see which scopes they have to read again.
CREATE TABLE rule_sets (
    scope TEXT COLLATE "C" PRIMARY KEY,
    version BIGINT NOT NULL,
    rules TEXT NOT NULL
);

-- What was learnt from mail -------------------------------------------------------------------------------------------

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

-- Near-duplicate signatures of messages that people reported, or that were held as an attack. `scope` is a tenant's
-- uid, or empty for the deployment. A row is never changed: what is said anew of a message is a new row with a higher
-- `id`, so that every node learns of it by asking for rows after the last one that it knows. `signature` has four bytes
-- for each hash.
CREATE TABLE campaign_marks (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope TEXT COLLATE "C" NOT NULL,
    ggrid TEXT COLLATE "C" NOT NULL,
    says TEXT COLLATE "C" NOT NULL,
    signature BYTEA NOT NULL,
    created BIGINT NOT NULL
);
CREATE UNIQUE INDEX campaign_marks_by_message ON campaign_marks (scope, ggrid);
CREATE INDEX campaign_marks_by_age ON campaign_marks (created);

-- Texts of which one process has seen several near-duplicates lately, so that all processes can add them up.
CREATE TABLE campaign_bursts (
    process TEXT COLLATE "C" NOT NULL,
    campaign BIGINT NOT NULL,
    signature BYTEA NOT NULL,
    copies BIGINT NOT NULL,
    recipients BIGINT NOT NULL,
    updated BIGINT NOT NULL,
    PRIMARY KEY (process, campaign)
);
CREATE INDEX campaign_bursts_by_age ON campaign_bursts (updated);

-- Training pools: reports on mail, one for each tenant (`scope` is its uid) and one for the deployment (empty). Of a
-- message there is its feature row (two bytes for each number), of mailbox and sender's domain a digest. What one
-- reporter says anew of a message replaces what the same reporter said before.
CREATE TABLE training_reports (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope TEXT COLLATE "C" NOT NULL,
    reporter TEXT COLLATE "C" NOT NULL,
    message TEXT COLLATE "C" NOT NULL,
    unwanted BIGINT NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    mailbox TEXT COLLATE "C" NOT NULL,
    domain TEXT COLLATE "C" NOT NULL,
    features BYTEA NOT NULL,
    created BIGINT NOT NULL
);
CREATE UNIQUE INDEX training_reports_by_message ON training_reports (scope, reporter, message);
CREATE INDEX training_reports_by_scope ON training_reports (scope, id);
CREATE INDEX training_reports_by_reporter ON training_reports (scope, reporter, created);
CREATE INDEX training_reports_by_age ON training_reports (created);

-- Models that pools have taught, with the figures of their training and what looking back has found, both JSON. At most
-- one of a scope is `current`.
CREATE TABLE learnt_models (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    figures TEXT COLLATE "C" NOT NULL,
    look_back TEXT COLLATE "C" NOT NULL,
    data BYTEA NOT NULL
);
CREATE UNIQUE INDEX learnt_models_current ON learnt_models (scope) WHERE state = 'current';
CREATE INDEX learnt_models_by_scope ON learnt_models (scope, id);

-- Counts of all nodes -------------------------------------------------------------------------------------------------

-- What senders of outbound mail have sent in the hour that begins at `start`, and names that work once, which have the
-- start 0. `key` is a digest.
CREATE TABLE flow_counts (
    key BIGINT NOT NULL,
    start BIGINT NOT NULL,
    count BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    PRIMARY KEY (key, start)
);
CREATE INDEX flow_counts_by_expiry ON flow_counts (expires);

-- Reports to other domains ---------------------------------------------------------------------------------------------

-- What is to be reported to others: results of DMARC, added up by day (days since 1970), policy domain and `detail`, a
-- JSON list; '' stands for all that were too many to tell apart.
CREATE TABLE report_counts (
    day BIGINT NOT NULL,
    domain TEXT COLLATE "C" NOT NULL,
    detail TEXT COLLATE "C" NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (day, domain, detail)
);

-- Reports that were sent, are tried again or were given up. `state` is sent, unwanted, waiting or failed.
CREATE TABLE sent_reports (
    day BIGINT NOT NULL,
    domain TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    attempts BIGINT NOT NULL,
    next_try BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    destinations TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    modified BIGINT NOT NULL,
    PRIMARY KEY (day, domain)
);
CREATE INDEX sent_reports_by_time ON sent_reports (modified);


-- Users, sessions and keys --------------------------------------------------------------------------------------------

-- Who may sign in to the web interface. `folded` is the name as it is compared; `password` is an argon2 hash. `zone` is
-- the name of a time zone of the IANA database, or empty for UTC. `must_change` is 1 where somebody else chose the
-- password, and 2 for the one that the first start printed. `external` is the issuer and the subject of a user who
-- signs in through OpenID Connect, and has no password here.
CREATE TABLE users (
    uid TEXT COLLATE "C" PRIMARY KEY,
    name TEXT NOT NULL,
    folded TEXT COLLATE "C" NOT NULL UNIQUE,
    role TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C",
    created BIGINT NOT NULL,
    disabled BIGINT NOT NULL,
    password TEXT NOT NULL,
    totp_secret TEXT,
    totp_step BIGINT NOT NULL,
    last_sign_in BIGINT,
    zone TEXT NOT NULL DEFAULT '',
    must_change SMALLINT NOT NULL DEFAULT 0,
    external TEXT COLLATE "C"
);
CREATE INDEX users_by_tenant ON users (tenant);
CREATE UNIQUE INDEX users_by_external ON users (external) WHERE external IS NOT NULL;

-- Security keys and passkeys of users (WebAuthn). `credential` is the id that the authenticator gave it, in Base64
-- without padding; `rp_id` the host that it was made for; `public_key` its attested credential data with the COSE key;
-- `counter` the last signature counter.
CREATE TABLE security_keys (
    id TEXT COLLATE "C" PRIMARY KEY,
    user_uid TEXT COLLATE "C" NOT NULL,
    credential TEXT COLLATE "C" NOT NULL,
    rp_id TEXT COLLATE "C" NOT NULL,
    public_key BYTEA NOT NULL,
    counter BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    transports TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    last_used BIGINT
);
CREATE INDEX security_keys_by_user ON security_keys (user_uid);
CREATE UNIQUE INDEX security_keys_by_credential ON security_keys (rp_id, credential);

-- Recovery codes that are not used yet. `digest` is the SHA-256 of the user's uid and the code, in hex.
CREATE TABLE recovery_codes (
    user_uid TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (user_uid, digest)
);

-- Browsers in which a user has signed in before. `digest` is the SHA-256 of the cookie's secret, in hex.
CREATE TABLE known_browsers (
    user_uid TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    seen BIGINT NOT NULL,
    PRIMARY KEY (user_uid, digest)
);

-- Attempts to sign in that did not succeed, for each user: from one address, from one browser, in one session, and in
-- all ('account'). Until `locked_until` no further attempt is taken there.
CREATE TABLE sign_in_attempts (
    user_uid TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    failures BIGINT NOT NULL,
    last BIGINT NOT NULL,
    locked_until BIGINT NOT NULL,
    PRIMARY KEY (user_uid, source)
);
CREATE INDEX sign_in_attempts_by_last ON sign_in_attempts (last);

-- Who is signed in. `digest` is the SHA-256 of the cookie's secret, in hex. `provider_session` is the session at the
-- OpenID provider (`sid`) that a session began with, by which the provider ends it. `challenge` is what a security key
-- is to sign for this session, after its purpose; it is empty where none is open.
CREATE TABLE sessions (
    digest TEXT COLLATE "C" PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    user_uid TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    seen BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    address TEXT NOT NULL,
    agent TEXT NOT NULL,
    csrf TEXT NOT NULL,
    strong BIGINT NOT NULL,
    provider_session TEXT COLLATE "C" NOT NULL DEFAULT '',
    challenge TEXT COLLATE "C" NOT NULL DEFAULT '',
    challenge_until BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX sessions_by_user ON sessions (user_uid, seen);

-- Items of the checklist of the first days that administrators have dismissed.
CREATE TABLE dismissed_items (
    name TEXT COLLATE "C" PRIMARY KEY,
    time BIGINT NOT NULL
);

-- `hash` is the SHA-256 of the secret, in hex.
CREATE TABLE api_keys (
    id TEXT COLLATE "C" PRIMARY KEY,
    hash TEXT COLLATE "C" NOT NULL UNIQUE,
    name TEXT NOT NULL,
    tenant TEXT COLLATE "C",
    read_only BIGINT NOT NULL,
    created BIGINT NOT NULL,
    expires BIGINT,
    revoked BIGINT,
    last_used BIGINT,
    last_address TEXT COLLATE "C" NOT NULL DEFAULT ''
);
-- The keys of a tenant are counted whenever one is made.
CREATE INDEX api_keys_by_tenant ON api_keys (tenant, created, id);

-- When, and from which address, the tokens of the Email Scanning API were last used. Tokens themselves are settings.
CREATE TABLE token_uses (
    name TEXT COLLATE "C" PRIMARY KEY,
    last_used BIGINT NOT NULL,
    address TEXT COLLATE "C" NOT NULL
);

-- The audit trail -----------------------------------------------------------------------------------------------------

-- Who changed what. `sample` is a JSON array. `changes` is what a change did to each entry or value, packed: what it
-- was before, and what it is since; null where the sample says it all.
CREATE TABLE audit (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    time BIGINT NOT NULL,
    actor_kind TEXT COLLATE "C" NOT NULL,
    actor_name TEXT NOT NULL,
    actor_id TEXT NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    list TEXT COLLATE "C" NOT NULL,
    count BIGINT NOT NULL,
    sample TEXT NOT NULL,
    changes BYTEA
);
CREATE INDEX audit_by_scope ON audit (scope, id);
-- The audit trail in the order of time.
CREATE INDEX audit_in_order ON audit (time, id);
CREATE INDEX audit_in_order_by_scope ON audit (scope, time, id);

-- The audit trail only grows. The one change that is possible replaces an address by a pseudonym, in the name of the
-- actor and in the sample.
CREATE FUNCTION audit_only_grows() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
    IF TG_OP = 'UPDATE' AND NEW.id = OLD.id AND NEW.time = OLD.time AND NEW.actor_kind = OLD.actor_kind
        AND NEW.actor_id = OLD.actor_id AND NEW.action = OLD.action AND NEW.scope = OLD.scope
        AND NEW.list = OLD.list AND NEW.count = OLD.count
        AND strpos(NEW.actor_name || NEW.sample, 'erased-') > 0
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the audit trail only grows';
END $$;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE ON audit
FOR EACH ROW EXECUTE FUNCTION audit_only_grows();

-- Configuration and nodes ---------------------------------------------------------------------------------------------

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

-- The draft of the next published version: one for all administrators. `revision` counts its changes, `base` is the
-- version that it was made from.
CREATE TABLE config_draft (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    revision BIGINT NOT NULL,
    base BIGINT NOT NULL,
    content BYTEA NOT NULL,
    modified BIGINT NOT NULL,
    modified_by TEXT NOT NULL
);

-- One row: the version that all nodes shall run, the number of the last restart of all, and the last version that a node
-- could not run.
CREATE TABLE rollout (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    wanted BIGINT NOT NULL,
    restart BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    failed_node TEXT NOT NULL,
    failed_reason TEXT NOT NULL,
    failed_time BIGINT NOT NULL
);

-- Nodes that listen learn of a new version, and that it is their turn, at once.
CREATE FUNCTION gatepost_tell_rollout() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('rollout', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER rollout_changed AFTER UPDATE ON rollout FOR EACH ROW EXECUTE FUNCTION gatepost_tell_rollout();

-- Every node, as it has last said itself. `detail` is JSON.
CREATE TABLE nodes (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT NOT NULL,
    seen BIGINT NOT NULL,
    detail TEXT NOT NULL
);

-- Alerts that were defined in the web interface. `settings` is a JSON object.
CREATE TABLE alert_definitions (
    name TEXT COLLATE "C" PRIMARY KEY,
    settings TEXT NOT NULL,
    modified BIGINT NOT NULL,
    modified_by TEXT NOT NULL
);
