-- Digests of what investigations ask for (see `message_evidence`), separated by spaces. Null: look into the record.
ALTER TABLE message_search ADD COLUMN evidence TEXT COLLATE "C";

-- Days after which results and held mail of a tenant are deleted; null is what the configuration says.
ALTER TABLE tenants ADD COLUMN history_days BIGINT;
ALTER TABLE tenants ADD COLUMN quarantine_days BIGINT;

-- The audit trail only grows. The one change that is possible replaces an address by a pseudonym, in the name of the
-- actor and in the sample.
CREATE OR REPLACE FUNCTION audit_only_grows() RETURNS trigger LANGUAGE plpgsql AS
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
