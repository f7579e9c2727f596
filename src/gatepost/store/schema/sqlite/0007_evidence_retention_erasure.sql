-- Digests of what investigations ask for (see `message_evidence`), separated by spaces. Null: look into the record.
ALTER TABLE message_search ADD COLUMN evidence TEXT;

-- Days after which results and held mail of a tenant are deleted; null is what the configuration says.
ALTER TABLE tenants ADD COLUMN history_days INTEGER;
ALTER TABLE tenants ADD COLUMN quarantine_days INTEGER;

-- The audit trail only grows. The one change that is possible replaces an address by a pseudonym, in the name of the
-- actor and in the sample.
DROP TRIGGER audit_is_not_changed;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
WHEN NOT (
    NEW.id = OLD.id AND NEW.time = OLD.time AND NEW.actor_kind = OLD.actor_kind AND NEW.actor_id = OLD.actor_id
    AND NEW.action = OLD.action AND NEW.scope = OLD.scope AND NEW.list = OLD.list AND NEW.count = OLD.count
    AND instr(NEW.actor_name || NEW.sample, 'erased-') > 0
)
BEGIN SELECT RAISE(ABORT, 'the audit trail only grows'); END;
