"""The whole store: one attribute for each subject, all on one engine.

`store.lists.add(…)`, `store.messages.find(…)`: a subject's class has its operations, and stands in the module of the
subject. Whoever needs one subject takes its class instead of the store. A scope is a tenant's uid, or None for the
global one. Times are Unix milliseconds.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatepost.store.engine import ChangeObserver, Engine, StoreCounters, now, write_rows

if TYPE_CHECKING:
    import gatepost.store.alerts
    import gatepost.store.api_keys
    import gatepost.store.audit
    import gatepost.store.bulk_actions
    import gatepost.store.campaigns
    import gatepost.store.digests
    import gatepost.store.feedback
    import gatepost.store.feeds
    import gatepost.store.flow_counts
    import gatepost.store.jobs
    import gatepost.store.learning
    import gatepost.store.list_lookup
    import gatepost.store.lists
    import gatepost.store.look_backs
    import gatepost.store.message_notes
    import gatepost.store.messages
    import gatepost.store.own_rules
    import gatepost.store.privacy
    import gatepost.store.publishing
    import gatepost.store.quarantine
    import gatepost.store.recipients
    import gatepost.store.removed_mail
    import gatepost.store.sealed_secrets
    import gatepost.store.second_factors
    import gatepost.store.sent_reports
    import gatepost.store.sessions
    import gatepost.store.sightings
    import gatepost.store.tenants
    import gatepost.store.traffic
    import gatepost.store.users

# Subjects that encrypt something.
_WITH_SECRETS = frozenset({"alerts", "digests", "second_factors", "secrets"})
PROVE = "INSERT INTO probe (id, time) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET time = excluded.time"


class Store:
    """All that is stored. Every operation that changes something returns only when the change survives a kill.

    `data_folder` has the key that secrets are encrypted with. With `at_once` every subject is loaded now, as a
    service wants it, which must not read a module of another version later; else each when it is asked for. The
    annotations say which subjects there are, and where the class of each is.
    """

    messages: gatepost.store.messages.Messages
    traffic: gatepost.store.traffic.Traffic
    sightings: gatepost.store.sightings.StoredSightings
    campaigns: gatepost.store.campaigns.CampaignMarks
    quarantine: gatepost.store.quarantine.QuarantineRecords
    bulk_actions: gatepost.store.bulk_actions.BulkActions
    message_notes: gatepost.store.message_notes.MessageNotes
    recipients: gatepost.store.recipients.Recipients
    removed_mail: gatepost.store.removed_mail.RemovedMail
    digests: gatepost.store.digests.Digests
    feedback: gatepost.store.feedback.FeedbackReports
    jobs: gatepost.store.jobs.Jobs
    learning: gatepost.store.learning.Learning
    sent_reports: gatepost.store.sent_reports.SentReports
    tenants: gatepost.store.tenants.Tenants
    lists: gatepost.store.lists.Lists
    list_lookup: gatepost.store.list_lookup.ListLookup
    look_backs: gatepost.store.look_backs.LookBacks
    feeds: gatepost.store.feeds.Feeds
    own_rules: gatepost.store.own_rules.OwnRules
    alerts: gatepost.store.alerts.Alerts
    secrets: gatepost.store.sealed_secrets.Secrets
    flow_counts: gatepost.store.flow_counts.FlowCounts
    api_keys: gatepost.store.api_keys.ApiKeys
    users: gatepost.store.users.Users
    second_factors: gatepost.store.second_factors.SecondFactors
    sessions: gatepost.store.sessions.Sessions
    audit: gatepost.store.audit.Audit
    privacy: gatepost.store.privacy.Privacy
    publishing: gatepost.store.publishing.Publishing

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return a subject that was not asked for before."""
            if name not in Store.__annotations__:
                raise AttributeError(name)
            made = self._make(name)
            setattr(self, name, made)
            return made

    def __init__(self, engine: Engine, data_folder: Path, *, at_once: bool = True) -> None:
        self._engine, self._data_folder = engine, data_folder
        self._secret_key: gatepost.store.sealed_secrets.SecretKey | None = None
        for name in Store.__annotations__ if at_once else ():
            getattr(self, name)

    def _make(self, subject: str) -> Any:
        """Make a subject; the annotation says where its class is."""
        module, _, kind = Store.__annotations__[subject].rpartition(".")
        make = getattr(import_module(module), kind)
        if subject not in _WITH_SECRETS:
            return make(self._engine)
        from gatepost.store.sealed_secrets import KEY_FILE, SecretKey

        self._secret_key = self._secret_key or SecretKey(self._data_folder / KEY_FILE)
        return make(self._engine, self._secret_key)

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
