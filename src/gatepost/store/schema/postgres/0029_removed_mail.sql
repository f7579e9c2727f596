-- Additive: programs that know the schema before can go on with it.

-- Copies of delivered messages that were taken out of mailboxes. `mailbox` is a digest of the recipient, whose address
-- the record of the message has; `folder` is where the copy was. `state` is moved, deleted, restored, absent or failed.
CREATE TABLE removed_mail (
    ggrid TEXT COLLATE "C" NOT NULL,
    mailbox TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    folder TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    by_name TEXT COLLATE "C" NOT NULL,
    modified BIGINT NOT NULL,
    PRIMARY KEY (ggrid, mailbox)
);
CREATE INDEX removed_mail_by_scope ON removed_mail (scope, modified);
CREATE INDEX removed_mail_by_time ON removed_mail (modified);
