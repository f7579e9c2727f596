"""The whole store: one attribute for each subject, all on one engine.

`store.lists.add(…)`, `store.messages.find(…)`: a subject's class has its operations, and stands in the module of the
subject. Whoever needs one subject takes its class instead of the store. A scope is a tenant's uid, or None for the
global one. Times are Unix milliseconds.
"""

from __future__ import annotations

from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gatepost.store.engine import ChangeObserver, Engine, StoreCounters, now, write_rows
from gatepost.store.sql import sql

if TYPE_CHECKING:
    from gatepost.store.alerts import Alerts
    from gatepost.store.api_keys import ApiKeys
    from gatepost.store.audit import Audit
    from gatepost.store.bulk_actions import BulkActions, MessageNotes
    from gatepost.store.campaigns import CampaignMarks
    from gatepost.store.digests import Digests
    from gatepost.store.feedback import FeedbackReports
    from gatepost.store.feeds import Feeds
    from gatepost.store.flow_counts import FlowCounts
    from gatepost.store.jobs import Jobs
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
    from gatepost.store.removed_mail import RemovedMail
    from gatepost.store.sealed_secrets import SecretKey, Secrets
    from gatepost.store.second_factors import SecondFactors
    from gatepost.store.sent_reports import SentReports
    from gatepost.store.sessions import Sessions
    from gatepost.store.sightings import StoredSightings
    from gatepost.store.tenants import Tenants
    from gatepost.store.traffic import Traffic
    from gatepost.store.users import Users

T = TypeVar("T")
PROVE = sql("INSERT INTO probe (id, time) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET time = excluded.time")


class _Subject(Generic[T]):
    """A subject of the store, made when it is first asked for. `place` names its module and its class there; one that
    `encrypts` something gets the key of secrets too."""

    def __init__(self, place: str, *, encrypts: bool = False) -> None:
        self._place, self._encrypts = place, encrypts

    def __set_name__(self, _owner: type[Store], name: str) -> None:
        self._name = name

    def __get__(self, store: Store, _owner: type[Store]) -> T:
        made: T = store.make(self._place, encrypts=self._encrypts)
        vars(store)[self._name] = made
        return made


class Store:
    """All that is stored. Every operation that changes something returns only when the change survives a kill.

    `data_folder` has the key that secrets are encrypted with. With `at_once` every subject is loaded now, as a
    service wants it, which must not read a module of another version later; else each when it is asked for.
    """

    messages: _Subject[Messages] = _Subject("messages:Messages")
    traffic: _Subject[Traffic] = _Subject("traffic:Traffic")
    sightings: _Subject[StoredSightings] = _Subject("sightings:StoredSightings")
    campaigns: _Subject[CampaignMarks] = _Subject("campaigns:CampaignMarks")
    quarantine: _Subject[QuarantineRecords] = _Subject("quarantine:QuarantineRecords")
    bulk_actions: _Subject[BulkActions] = _Subject("bulk_actions:BulkActions")
    message_notes: _Subject[MessageNotes] = _Subject("bulk_actions:MessageNotes")
    recipients: _Subject[Recipients] = _Subject("recipients:Recipients")
    removed_mail: _Subject[RemovedMail] = _Subject("removed_mail:RemovedMail")
    digests: _Subject[Digests] = _Subject("digests:Digests", encrypts=True)
    feedback: _Subject[FeedbackReports] = _Subject("feedback:FeedbackReports")
    jobs: _Subject[Jobs] = _Subject("jobs:Jobs")
    learning: _Subject[Learning] = _Subject("learning:Learning")
    sent_reports: _Subject[SentReports] = _Subject("sent_reports:SentReports")
    tenants: _Subject[Tenants] = _Subject("tenants:Tenants")
    lists: _Subject[Lists] = _Subject("lists:Lists")
    list_lookup: _Subject[ListLookup] = _Subject("list_lookup:ListLookup")
    look_backs: _Subject[LookBacks] = _Subject("look_backs:LookBacks")
    feeds: _Subject[Feeds] = _Subject("feeds:Feeds")
    own_rules: _Subject[OwnRules] = _Subject("own_rules:OwnRules")
    alerts: _Subject[Alerts] = _Subject("alerts:Alerts", encrypts=True)
    secrets: _Subject[Secrets] = _Subject("sealed_secrets:Secrets", encrypts=True)
    flow_counts: _Subject[FlowCounts] = _Subject("flow_counts:FlowCounts")
    api_keys: _Subject[ApiKeys] = _Subject("api_keys:ApiKeys")
    users: _Subject[Users] = _Subject("users:Users")
    second_factors: _Subject[SecondFactors] = _Subject("second_factors:SecondFactors", encrypts=True)
    sessions: _Subject[Sessions] = _Subject("sessions:Sessions")
    audit: _Subject[Audit] = _Subject("audit:Audit")
    privacy: _Subject[Privacy] = _Subject("privacy:Privacy")
    publishing: _Subject[Publishing] = _Subject("publishing:Publishing")

    def __init__(self, engine: Engine, data_folder: Path, *, at_once: bool = True) -> None:
        self._engine, self._data_folder = engine, data_folder
        for name in (name for name, each in vars(Store).items() if isinstance(each, _Subject) and at_once):
            getattr(self, name)

    def make(self, place: str, *, encrypts: bool) -> Any:
        """Make a subject."""
        module, _, kind = place.partition(":")
        make = getattr(import_module(f"gatepost.store.{module}"), kind)
        return make(self._engine, self._secret_key) if encrypts else make(self._engine)

    @cached_property
    def _secret_key(self) -> SecretKey:
        from gatepost.store.sealed_secrets import KEY_FILE, SecretKey

        return SecretKey(self._data_folder / KEY_FILE)

    async def close(self) -> None:
        """Finish what is under way and close the database."""
        if "api_keys" in vars(self):
            await self.api_keys.finish_writing()
        if "messages" in vars(self):
            await self.messages.finish_writing()
        await self._engine.close()

    async def prove_writable(self) -> None:
        """Show that storage keeps changes: raises `StorageError` if it does not."""
        await self._engine.change(partial(write_rows, PROVE, now()))

    def observe_changes(self, observer: ChangeObserver) -> None:
        """Have every announced change reported from now on, once it is durable; the observer must not raise."""
        self._engine.observe_changes(observer)

    def counters(self) -> StoreCounters:
        """How many changes were written, in how many commits, and how many failed."""
        return self._engine.counters()
