"""The whole store: one attribute for each subject, all on one engine.

`store.lists.add(…)`, `store.messages.find(…)`: a subject's class has its operations, and stands in the module of the
subject. Whoever needs one subject takes its class instead of the store. A scope is a tenant's uid, or None for the
global one. Times are Unix milliseconds.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatepost.store.engine import ChangeObserver, Engine, StoreCounters, Work, Write, now

if TYPE_CHECKING:
    from gatepost.store.alerts import Alerts
    from gatepost.store.api_keys import ApiKeys
    from gatepost.store.audit import Audit
    from gatepost.store.bulk_actions import BulkActions
    from gatepost.store.campaigns import CampaignMarks
    from gatepost.store.digests import Digests
    from gatepost.store.feedback import FeedbackReports
    from gatepost.store.feeds import Feeds
    from gatepost.store.flow_counts import FlowCounts
    from gatepost.store.learning import Learning
    from gatepost.store.list_lookup import ListLookup
    from gatepost.store.lists import Lists
    from gatepost.store.look_backs import LookBacks
    from gatepost.store.messages import Messages
    from gatepost.store.own_rules import OwnRules
    from gatepost.store.privacy import Privacy
    from gatepost.store.publishing import Publishing
    from gatepost.store.quarantine import QuarantineRecords
    from gatepost.store.recipients import Recipients
    from gatepost.store.second_factors import SecondFactors
    from gatepost.store.sessions import Sessions
    from gatepost.store.sightings import StoredSightings
    from gatepost.store.tenants import Tenants
    from gatepost.store.traffic import Traffic
    from gatepost.store.users import Users

_PROVE = "INSERT INTO probe (id, time) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET time = excluded.time"
# The module and the class of each subject.
_SUBJECTS = {
    "messages": "messages:Messages",
    "traffic": "traffic:Traffic",
    "sightings": "sightings:StoredSightings",
    "campaigns": "campaigns:CampaignMarks",
    "quarantine": "quarantine:QuarantineRecords",
    "bulk_actions": "bulk_actions:BulkActions",
    "recipients": "recipients:Recipients",
    "digests": "digests:Digests",
    "feedback": "feedback:FeedbackReports",
    "learning": "learning:Learning",
    "tenants": "tenants:Tenants",
    "lists": "lists:Lists",
    "list_lookup": "list_lookup:ListLookup",
    "look_backs": "look_backs:LookBacks",
    "feeds": "feeds:Feeds",
    "own_rules": "own_rules:OwnRules",
    "alerts": "alerts:Alerts",
    "flow_counts": "flow_counts:FlowCounts",
    "api_keys": "api_keys:ApiKeys",
    "users": "users:Users",
    "second_factors": "second_factors:SecondFactors",
    "sessions": "sessions:Sessions",
    "audit": "audit:Audit",
    "privacy": "privacy:Privacy",
    "publishing": "publishing:Publishing",
}


class Store:
    """All that is stored. Every operation that changes something returns only when the change survives a kill.

    `data_folder` has the key that second factors are encrypted with. With `at_once` every subject is loaded now, as a
    service wants it, which must not read a module of another version later; else each when it is asked for.
    """

    if TYPE_CHECKING:
        messages: Messages
        traffic: Traffic
        sightings: StoredSightings
        campaigns: CampaignMarks
        quarantine: QuarantineRecords
        bulk_actions: BulkActions
        recipients: Recipients
        digests: Digests
        feedback: FeedbackReports
        learning: Learning
        tenants: Tenants
        lists: Lists
        list_lookup: ListLookup
        look_backs: LookBacks
        feeds: Feeds
        own_rules: OwnRules
        alerts: Alerts
        flow_counts: FlowCounts
        api_keys: ApiKeys
        users: Users
        second_factors: SecondFactors
        sessions: Sessions
        audit: Audit
        privacy: Privacy
        publishing: Publishing
    else:

        def __getattr__(self, name: str) -> Any:
            """Return a subject that was not asked for before."""
            module, _, kind = _SUBJECTS.get(name, "").partition(":")
            if not kind:
                raise AttributeError(name)
            made = getattr(import_module(f"gatepost.store.{module}"), kind)(*self._parts(name))
            setattr(self, name, made)
            return made

    def __init__(self, engine: Engine, data_folder: Path, *, at_once: bool = True) -> None:
        self._engine, self._data_folder = engine, data_folder
        for name in _SUBJECTS if at_once else ():
            getattr(self, name)

    def _parts(self, subject: str) -> tuple[Any, ...]:
        """Return what a subject is made of."""
        if subject != "second_factors":
            return (self._engine,)
        from gatepost.store.second_factors import KEY_FILE, TotpKey

        return self._engine, TotpKey(self._data_folder / KEY_FILE)

    async def close(self) -> None:
        """Finish what is under way and close the database."""
        if "api_keys" in vars(self):
            await self.api_keys.finish_writing()
        await self._engine.close()

    async def prove_writable(self) -> None:
        """Show that storage keeps changes: raises `StorageError` if it does not."""
        await self._engine.change(_write_probe)

    def observe_changes(self, observer: ChangeObserver) -> None:
        """Have every announced change reported from now on, once it is durable; the observer must not raise."""
        self._engine.observe_changes(observer)

    def counters(self) -> StoreCounters:
        """How many changes were written, in how many commits, and how many failed."""
        return self._engine.counters()


def _write_probe() -> Work[None]:
    yield Write(_PROVE, (now(),))
