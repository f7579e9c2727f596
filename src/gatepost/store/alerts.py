"""Alerts that were defined in the web interface: which events, for whom, and who changed them.

Each change is in the audit trail with what was chosen before and after it, without the secret of the calls and without
the path of their address, which may be another one.
"""

import secrets
from typing import Literal, TypeAlias

import msgspec

from gatepost.settings.events import MAX_ALERTS, WebAlert
from gatepost.settings.values import hide_path
from gatepost.store.audit import Actor, ChangedValue, write_audit
from gatepost.store.engine import Operations, Read, Row, Work, Write, change, now, query, storable

_COLUMNS = "name, settings, modified, modified_by"
_SELECT = f"SELECT {_COLUMNS} FROM alert_definitions ORDER BY name"  # noqa: S608
_LOCK = f"SELECT {_COLUMNS} FROM alert_definitions ORDER BY name FOR UPDATE"  # noqa: S608
_PUT = """INSERT INTO alert_definitions (name, settings, modified, modified_by) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE SET settings = excluded.settings, modified = excluded.modified,
modified_by = excluded.modified_by"""
_DELETE = "DELETE FROM alert_definitions WHERE name = $1"

AlertRefusal: TypeAlias = Literal["changed", "full", "unknown"]


class AlertDefinition(msgspec.Struct, frozen=True):
    """An alert of the web interface. `modified` is also the version by which a change is recognised."""

    name: str
    alert: WebAlert
    modified: int = 0
    modified_by: str = ""


class Alerts(Operations):
    """Alerts of the web interface."""

    @query
    def all(self) -> Work[tuple[AlertDefinition, ...]]:
        """All of them by name."""
        return tuple(map(_definition, (yield Read(_SELECT))))

    @change
    def put(self, name: str, alert: WebAlert, seen: int, by: Actor) -> Work[AlertDefinition | AlertRefusal]:
        """Define an alert, or change it; `seen` is when the one that the author has seen was changed, 0 for a new one.
        The secret of calls is made here, and stays for as long as the address does."""
        known = {each.name: each for each in map(_definition, (yield Read(_LOCK)))}
        old = known.get(storable(name))
        if (old.modified if old else 0) != seen:
            return "changed"
        if old is None and len(known) >= MAX_ALERTS:
            return "full"
        is_same = old is not None and old.alert.url == alert.url
        secret = (old.alert.secret if old and is_same else secrets.token_hex(32)) if alert.url else ""
        moment = max(now(), seen + 1)
        made = AlertDefinition(
            storable(name), msgspec.structs.replace(alert, secret=secret), moment, storable(by.label)
        )
        yield Write(_PUT, (made.name, storable(msgspec.json.encode(made.alert).decode()), moment, made.modified_by))
        action = "alert.change" if old else "alert.create"
        changes = [ChangedValue(made.name, _describe(old.alert) if old else None, _describe(made.alert))]
        yield from write_audit(moment, by, action, count=1, sample=[made.name], changes=changes)
        return made

    @change
    def delete(self, name: str, by: Actor) -> Work[AlertRefusal | None]:
        """Delete an alert."""
        if not (yield Write(_DELETE, (storable(name),))):
            return "unknown"
        yield from write_audit(now(), by, "alert.delete", count=1, sample=[storable(name)])
        return None


_alerts = msgspec.json.Decoder(WebAlert)


def _definition(row: Row) -> AlertDefinition:
    name, settings, modified, modified_by = row
    return AlertDefinition(name, _alerts.decode(settings), int(modified), modified_by)


def _describe(alert: WebAlert) -> str:
    shown = msgspec.structs.replace(alert, secret="", url=hide_path(alert.url) if alert.url else "")
    return msgspec.json.encode(shown).decode()
