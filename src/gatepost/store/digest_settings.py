"""What a tenant wants of digests: whether, when, in which language, with which words, and what recipients may do.

The scope None has the preferences for mail without a tenant. Digests go to recipients in the domains of the tenant;
without a tenant the domains are named here, since mail can be addressed to anybody.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import msgspec

from gatepost.store.audit import Actor, ChangedValue, write_audit
from gatepost.store.engine import Operations, Read, Row, Work, Write, change, normalize_scope, now, query, storable
from gatepost.store.lists import raise_versions

MAX_INTRO = 1_000
MAX_DOMAINS = 1_000
DAY = 86_400_000

_SELECT = "SELECT scope, settings, modified, modified_by FROM digest_settings"
_ONE = _SELECT + " WHERE scope = $1"
_PUT = """INSERT INTO digest_settings (scope, settings, modified, modified_by) VALUES ($1, $2, $3, $4)
ON CONFLICT (scope) DO UPDATE SET settings = excluded.settings, modified = excluded.modified,
modified_by = excluded.modified_by"""
_SCHEDULE = """INSERT INTO digest_runs
(scope, holder, locked_until, next_run, planned_until, after_kept, after_ggrid, detail)
VALUES ($1, '', 0, $2, 0, $3, '', '{}') ON CONFLICT (scope) DO UPDATE SET next_run = excluded.next_run"""
_SKIP = "UPDATE digest_runs SET after_kept = $2, after_ggrid = '' WHERE scope = $1 AND after_kept < $2"


class DigestPreferences(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Preferences of one scope. `hour` is that of `zone` (an IANA name, "" for UTC). `intro` stands above the list of
    messages. `own_entries`: recipients may allow and block senders for themselves. `domains` narrow the recipients."""

    enabled: bool = False
    language: str = "en"
    hour: int = 7
    zone: str = ""
    intro: str = ""
    own_entries: bool = False
    domains: tuple[str, ...] = ()

    @property
    def time_zone(self) -> tzinfo:
        """The zone, UTC where this machine does not know it."""
        try:
            return ZoneInfo(self.zone) if self.zone else UTC
        except (KeyError, ValueError, OSError):
            return UTC

    def next_time(self, moment: int) -> int:
        """When the hour comes next after this moment."""
        local = datetime.fromtimestamp(moment / 1000, self.time_zone)
        due = local.replace(hour=self.hour % 24, minute=0, second=0, microsecond=0)
        if due <= local:
            due += timedelta(days=1)
        # A day on which the clocks change has another length than the sum says.
        return int(due.astimezone(UTC).timestamp() * 1000)


class DigestScope(msgspec.Struct, frozen=True):
    """The preferences of a scope; `modified` is also the version by which a change is recognised, 0 for the default."""

    scope: str | None
    preferences: DigestPreferences
    modified: int = 0
    modified_by: str = ""


class DigestSettingsStore(Operations):
    """Preferences about digests."""

    @query
    def digest_scopes(self) -> Work[tuple[DigestScope, ...]]:
        """Every scope that has preferences."""
        return tuple(map(_scope, (yield Read(_SELECT + " ORDER BY scope"))))

    @query
    def digest_scope(self, scope: str | None) -> Work[DigestScope]:
        """The preferences of one scope."""
        owner = normalize_scope(scope)
        rows = yield Read(_ONE, (owner or "",))
        return _scope(rows[0]) if rows else DigestScope(owner, DigestPreferences())

    @change
    def put_digest_preferences(
        self, scope: str | None, wanted: DigestPreferences, seen: int, by: Actor
    ) -> Work[DigestScope | None]:
        """Set the preferences of a scope; None where somebody changed them since `seen`. The first digest covers the
        day before."""
        owner = normalize_scope(scope) or ""
        rows = yield Read(_ONE + " FOR UPDATE", (owner,))
        before = _scope(rows[0]) if rows else DigestScope(None, DigestPreferences())
        if before.modified != seen:
            return None
        moment = max(now(), seen + 1)
        values = (owner, storable(msgspec.json.encode(wanted).decode()), moment, storable(by.label))
        yield Write(_PUT, values)
        if wanted.enabled:
            yield Write(_SCHEDULE, (owner, wanted.next_time(moment), moment - DAY))
            if not before.preferences.enabled:
                yield Write(_SKIP, (owner, moment - DAY))
        if wanted.own_entries != before.preferences.own_entries:
            yield from raise_versions(owner, moment)
        changes = [
            ChangedValue(name, str(getattr(before.preferences, name)), str(getattr(wanted, name)))
            for name in DigestPreferences.__struct_fields__
            if getattr(before.preferences, name) != getattr(wanted, name)
        ]
        yield from write_audit(moment, by, "digest.settings", owner or None, count=len(changes), changes=changes)
        return DigestScope(owner or None, wanted, moment, by.label)


def read_preferences(scope: str) -> Work[DigestPreferences]:
    """The preferences of a scope as a part of other work; "" is mail without a tenant."""
    rows = yield Read(_ONE, (scope,))
    return _scope(rows[0]).preferences if rows else DigestPreferences()


_preferences = msgspec.json.Decoder(DigestPreferences)


def _scope(row: Row) -> DigestScope:
    scope, settings, modified, modified_by = row
    return DigestScope(scope or None, _preferences.decode(settings), int(modified), modified_by)
