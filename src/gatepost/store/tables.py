"""Every table of a storage with its columns, the same on both engines, in an order in which rows can be copied: a table
stands after those that its rows refer to. The files in `schema` make them; a test compares."""

from gatepost.store import deliveries, message_index, message_records, quarantine, traffic

# Every table but `meta`, which says which schema this is.
TABLES: dict[str, tuple[str, ...]] = {
    "tenants": ("uid", "name", "created", "history_days", "quarantine_days"),
    "tenant_domains": ("domain", "tenant"),
    "departed": ("tenant",),
    "scopes": ("scope", "directory", "unkeyed", "unkeyed_bytes", "counted_version"),
    "lists": (
        *("id", "scope", "name", "kind", "category"),
        *("display_name", "description", "max_size", "custom", "size"),
    ),
    "list_prefixes": ("list_id", "prefix", "entries"),
    "entries": (
        *("list_id", "key", "shown", "comment", "created", "modified", "modified_by", "expires"),
        *("hits", "last_hit"),
    ),
    "feeds": ("name", "holder", "locked_until", "next_run", "detail"),
    "feed_definitions": ("name", "settings", "paused", "modified", "modified_by"),
    "look_backs": (
        *("id", "list_id", "time", "actor", "entries"),
        *("days", "considered", "reached", "found", "hits"),
    ),
    "look_back_queue": ("id", "list_id", "time", "actor", "keys", "taken_until"),
    "rule_sets": ("scope", "version", "rules"),
    "config_versions": ("number", "time", "actor", "reason", "origin", "digest", "content"),
    "rollout": (
        *("wanted", "restart", "holder", "held_until"),
        *("failed", "failed_node", "failed_reason", "failed_time", "id"),
    ),
    "config_draft": ("revision", "base", "content", "modified", "modified_by", "id"),
    "dismissed_items": ("name", "time"),
    "probe": ("time", "id"),
    "nodes": ("name", "id", "seen", "detail"),
    "api_keys": (
        *("id", "hash", "name", "tenant", "read_only"),
        *("created", "expires", "revoked", "last_used", "last_address"),
    ),
    "token_uses": ("name", "last_used", "address"),
    "audit": (
        *("id", "time", "actor_kind", "actor_name", "actor_id"),
        *("action", "scope", "list", "count", "sample", "changes"),
    ),
    "messages": ("id", *message_records.COLUMNS),
    "held": quarantine.COLUMNS,
    "held_recipients": ("ggrid", "address", "domain"),
    "recipient_releases": ("ggrid", "address", "released", "released_by"),
    "recipient_requests": (
        *("id", "kind", "ggrid", "scope", "address", "said", "created"),
        *("state", "decided", "decided_by", "note"),
    ),
    "recipient_entries": ("scope", "address", "sender", "says", "created"),
    "digest_settings": ("scope", "settings", "modified", "modified_by"),
    "digest_runs": (
        *("scope", "holder", "locked_until", "next_run", "planned_until"),
        *("after_kept", "after_ggrid", "detail"),
    ),
    "digests": ("id", "scope", "address", "since", "until", "attempts", "next_try", "fault", "sent", "expires"),
    "digest_uses": ("digest", "item", "used"),
    "digest_keys": ("number", "secret", "created"),
    "alert_definitions": ("name", "settings", "modified", "modified_by"),
    "undecided": ("id", "digest", "time"),
    "users": (
        *("uid", "name", "folded", "role", "tenant", "created", "disabled", "password"),
        *("totp_secret", "totp_step", "last_sign_in", "zone", "must_change", "external"),
    ),
    "sign_in_attempts": ("user_uid", "source", "failures", "last", "locked_until"),
    "known_browsers": ("user_uid", "digest", "seen"),
    "sessions": (
        *("digest", "id", "user_uid", "created", "seen", "expires"),
        *("address", "agent", "csrf", "strong", "provider_session", "challenge", "challenge_until"),
    ),
    "recovery_codes": ("user_uid", "digest"),
    "security_keys": (
        *("id", "user_uid", "credential", "rp_id", "public_key", "counter"),
        *("name", "transports", "created", "last_used"),
    ),
    "saved_searches": ("id", "user_uid", "page", "name", "query", "created"),
    "bulk_actions": ("id", "user_uid", "action", "items", "results", "created", "finished", "lease"),
    "message_search": message_index.COLUMNS,
    "message_recipients": message_index.RECIPIENT_COLUMNS,
    "deliveries": deliveries.COLUMNS,
    "unsearched": ("upto",),
    "traffic": traffic.COLUMNS,
    "sightings": ("scope", "key", "first", "last", "days", "delivered", "held"),
    "flow_counts": ("key", "start", "count", "expires", "label"),
    "greylist": ("key", "first", "passed", "expires"),
    "campaign_marks": ("id", "scope", "ggrid", "says", "signature", "created"),
    "training_reports": (
        *("id", "scope", "reporter", "message", "unwanted", "source"),
        *("mailbox", "domain", "features", "created"),
    ),
    "learnt_models": ("id", "scope", "state", "created", "figures", "look_back", "data"),
    "learning_runs": ("scope", "holder", "locked_until", "next_run", "finished", "outcome"),
    "campaign_bursts": ("process", "campaign", "signature", "copies", "recipients", "updated"),
}
# Tables whose ids are no numbers.
_NAMED = ("api_keys", "security_keys", "saved_searches", "bulk_actions", "recipient_requests", "digests")
# Tables of PostgreSQL whose ids are counted by a sequence.
NUMBERED = tuple(table for table, columns in TABLES.items() if columns[0] == "id" and table not in _NAMED)
