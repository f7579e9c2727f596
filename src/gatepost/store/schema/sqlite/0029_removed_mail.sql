-- Additive: programs that know the schema before can go on with it.

-- Copies of delivered messages that were taken out of mailboxes. `mailbox` is a digest of the recipient, whose address
-- the record of the message has; `folder` is where the copy was. `state` is moved, deleted, restored, absent or failed.
CREATE TABLE removed_mail (
    ggrid TEXT NOT NULL,
    mailbox TEXT NOT NULL,
    scope TEXT NOT NULL,
    state TEXT NOT NULL,
    folder TEXT NOT NULL,
    reason TEXT NOT NULL,
    by_name TEXT NOT NULL,
    modified INTEGER NOT NULL,
    PRIMARY KEY (ggrid, mailbox)
) STRICT, WITHOUT ROWID;
CREATE INDEX removed_mail_by_scope ON removed_mail (scope, modified);
CREATE INDEX removed_mail_by_time ON removed_mail (modified);
