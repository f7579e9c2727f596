"""Alerts that were defined in the web interface: which events or thresholds, for whom, and who changed them.

Those of a tenant are stored under its id and their name. When a threshold was reached last stands with the alert: of
several nodes that find the same, the first that writes it down tells of it, by a record of the audit trail.

Each change is in the audit trail with what was chosen before and after it, without the secret of the calls and without
the path of their address, which may be another one. Both are encrypted in storage (see `sealed_secrets`).
"""

import asyncio
import secrets
from typing import Literal, TypeAlias

import msgspec

from gatepost.process.hiding import hide_path
from gatepost.process.logs import Logger
from gatepost.settings.events import MAX_ALERTS, MAX_ALL_ALERTS, MAX_TENANT_ALERTS, WebAlert
from gatepost.store.audit import SYSTEM, Actor, ChangedValue, write_audit
from gatepost.store.engine import Engine, Operations, Read, Work, Write, change, now, query, storable
from gatepost.store.errors import StorageError
from gatepost.store.sealed_secrets import SecretKey, Secrets, alert_purpose
from gatepost.store.sql import Row, sql

_COLUMNS = "name, settings, modified, modified_by"
_SELECT = sql(f"SELECT {_COLUMNS} FROM alert_definitions ORDER BY name")  # noqa: S608
_LOCK = sql(f"SELECT {_COLUMNS} FROM alert_definitions ORDER BY name @lock(UPDATE)")  # noqa: S608
_PUT = sql("""INSERT INTO alert_definitions (name, settings, modified, modified_by) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE SET settings = excluded.settings, modified = excluded.modified,
modified_by = excluded.modified_by""")
_DELETE = sql("DELETE FROM alert_definitions WHERE name = $1")

log = Logger("gatepost.store")

AlertRefusal: TypeAlias = Literal["changed", "full", "unknown"]


class AlertDefinition(msgspec.Struct, frozen=True):
    """An alert of the web interface. `modified` is also the version by which a change is recognised."""

    name: str
    alert: WebAlert
    modified: int = 0
    modified_by: str = ""

    @property
    def shown_name(self) -> str:
        """The name as its author wrote it."""
        return self.name.removeprefix(f"{self.alert.tenant}:") if self.alert.tenant else self.name


def key_of(name: str, tenant: str | None) -> str:
    """The name under which an alert of a tenant, or of the deployment, is stored."""
    return f"{tenant}:{name}" if tenant else name


class Alerts(Operations):
    """Alerts of the web interface."""

    def __init__(self, engine: Engine, key: SecretKey) -> None:
        super().__init__(engine)
        self._secret_key, self._secrets = key, Secrets(engine, key)

    async def all(self) -> tuple[AlertDefinition, ...]:
        """All of them by name. One whose secrets cannot be decrypted has no address to call."""
        return tuple(await asyncio.to_thread(list, map(self._open, await self._stored())))

    async def put(self, name: str, alert: WebAlert, seen: int, by: Actor) -> AlertDefinition | AlertRefusal:
        """Define an alert, or change it; `seen` is when the one that the author has seen was changed, 0 for a new one.
        The secret of calls is made here, and stays for as long as the address does."""
        # That it is still the one which was seen is checked by the change itself.
        old = next((each for each in await self.all() if each.name == storable(name)), None)
        is_same = old is not None and old.alert.url == alert.url
        secret = (old.alert.secret if old and is_same else secrets.token_hex(32)) if alert.url else ""
        whole = msgspec.structs.replace(alert, secret=secret)
        changes = ChangedValue(storable(name), _describe(old.alert) if old else None, _describe(whole))
        sealed = msgspec.structs.replace(whole, url=await self._seal(name, "url", whole.url))
        sealed = msgspec.structs.replace(sealed, secret=await self._seal(name, "secret", secret))
        moment = await self._put(storable(name), msgspec.json.encode(sealed).decode(), seen, by, changes)
        return moment if isinstance(moment, str) else AlertDefinition(storable(name), whole, moment, storable(by.label))

    async def _seal(self, name: str, field: str, value: str) -> str:
        return await self._secrets.seal(alert_purpose(storable(name), field), value)

    def _open(self, stored: AlertDefinition) -> AlertDefinition:
        alert, name = stored.alert, stored.name
        try:
            url = self._secret_key.decrypt(alert_purpose(name, "url"), alert.url)
            secret = self._secret_key.decrypt(alert_purpose(name, "secret"), alert.secret)
        except StorageError as fault:
            log.error("an alert calls nobody", alert=name, reason=str(fault))
            url = secret = ""
        return msgspec.structs.replace(stored, alert=msgspec.structs.replace(alert, url=url, secret=secret))

    @query
    def _stored(self) -> Work[tuple[AlertDefinition, ...]]:
        return tuple(map(_definition, (yield Read(_SELECT))))

    @change
    def _put(self, name: str, settings: str, seen: int, by: Actor, changed: ChangedValue) -> Work[int | AlertRefusal]:
        known = {each.name: each for each in map(_definition, (yield Read(_LOCK)))}
        old = known.get(name)
        if (old.modified if old else 0) != seen:
            return "changed"
        tenant = _alerts.decode(settings).tenant
        of_scope = sum(each.alert.tenant == tenant for each in known.values())
        if old is None and (of_scope >= (MAX_TENANT_ALERTS if tenant else MAX_ALERTS) or len(known) >= MAX_ALL_ALERTS):
            return "full"
        moment = max(now(), seen + 1)
        yield Write(_PUT, (name, storable(settings), moment, storable(by.label)))
        action = "alert.change" if old else "alert.create"
        yield from write_audit(moment, by, action, tenant or None, count=1, sample=[name], changes=[changed])
        return moment

    @change
    def reach(self, name: str, found: int, moment: int) -> Work[bool]:
        """Write down that the threshold of an alert was reached, unless that was told within its time already."""
        old = next((each for each in map(_definition, (yield Read(_LOCK))) if each.name == storable(name)), None)
        if old is None or not old.alert.has_threshold or moment - old.alert.fired < old.alert.minutes * 60_000:
            return False
        alert = msgspec.structs.replace(old.alert, fired=moment, found=found)
        yield Write(_PUT, (old.name, msgspec.json.encode(alert).decode(), old.modified, old.modified_by))
        sample = [old.shown_name, alert.search, str(alert.count), str(alert.minutes)]
        yield from write_audit(moment, SYSTEM, "alert.reached", alert.tenant or None, count=found, sample=sample)
        return True

    @change
    def delete(self, name: str, by: Actor, tenant: str | None = None) -> Work[AlertRefusal | None]:
        """Delete an alert of the deployment or of a tenant."""
        if not (yield Write(_DELETE, (storable(key_of(name, tenant)),))):
            return "unknown"
        yield from write_audit(now(), by, "alert.delete", tenant, count=1, sample=[storable(name)])
        return None


_alerts = msgspec.json.Decoder(WebAlert)


def _definition(row: Row) -> AlertDefinition:
    name, settings, modified, modified_by = row
    return AlertDefinition(name, _alerts.decode(settings), int(modified), modified_by)


def _describe(alert: WebAlert) -> str:
    address = hide_path(alert.url) if alert.url else ""
    shown = msgspec.structs.replace(alert, secret="", url=address, fired=0, found=0)
    return msgspec.json.encode(shown).decode()
