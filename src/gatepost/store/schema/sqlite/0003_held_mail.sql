-- Mail that is held, or was released. The raw bytes lie in the raw store, under the ggrid; `detail` holds envelope and
-- report whole, since history may be kept for a shorter time. `state` is held, releasing or released. Whoever releases
-- has the message to itself until `lease`, and writes its own mark into `holder`. `released_to` is a JSON array.
CREATE TABLE held (
    ggrid TEXT PRIMARY KEY,
    created INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    kept INTEGER NOT NULL,
    tenant TEXT,
    verdict TEXT NOT NULL,
    sender TEXT NOT NULL,
    sender_domain TEXT NOT NULL,
    size INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    detail BLOB NOT NULL,
    state TEXT NOT NULL,
    holder TEXT NOT NULL,
    lease INTEGER NOT NULL,
    released INTEGER,
    released_by TEXT,
    released_to TEXT
) STRICT;
CREATE INDEX held_by_time ON held (kept);
CREATE INDEX held_by_tenant ON held (tenant, ggrid);
CREATE INDEX held_by_verdict ON held (verdict, ggrid);
CREATE INDEX held_by_sender ON held (sender, ggrid);
CREATE INDEX held_by_sender_domain ON held (sender_domain, ggrid);
CREATE INDEX held_sizes ON held (size) WHERE state <> 'released';

-- For whom it is, folded, for searching.
CREATE TABLE held_recipients (
    ggrid TEXT NOT NULL,
    address TEXT NOT NULL,
    domain TEXT NOT NULL,
    PRIMARY KEY (ggrid, address)
) STRICT, WITHOUT ROWID;
CREATE INDEX held_recipients_by_address ON held_recipients (address, ggrid);
CREATE INDEX held_recipients_by_domain ON held_recipients (domain, ggrid);

-- Messages that could not be decided, by a digest of bytes and envelope; kept for a day.
CREATE TABLE undecided (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL,
    time INTEGER NOT NULL
) STRICT;
CREATE INDEX undecided_by_digest ON undecided (digest, time);
CREATE INDEX undecided_by_time ON undecided (time);
