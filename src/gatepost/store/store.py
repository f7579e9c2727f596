"""The whole store: one attribute for each subject, all on one engine.

`store.lists.add(…)`, `store.messages.find(…)`: a subject's class has its operations, and stands in the module of the
subject. Whoever needs one subject takes its class instead of the store. A scope is a tenant's uid, or None for the
global one. Times are Unix milliseconds.
"""

from pathlib import Path

from gatepost.store.alerts import Alerts
from gatepost.store.api_keys import ApiKeys
from gatepost.store.audit import Audit
from gatepost.store.bulk_actions import BulkActions
from gatepost.store.campaigns import CampaignMarks
from gatepost.store.digests import Digests
from gatepost.store.engine import ChangeObserver, Engine, StoreCounters, Work, Write, now
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
from gatepost.store.second_factors import KEY_FILE, SecondFactors, TotpKey
from gatepost.store.sessions import Sessions
from gatepost.store.sightings import StoredSightings
from gatepost.store.tenants import Tenants
from gatepost.store.traffic import Traffic
from gatepost.store.users import Users

_PROVE = "INSERT INTO probe (id, time) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET time = excluded.time"


class Store:
    """All that is stored. Every operation that changes something returns only when the change survives a kill.

    `data_folder` has the key that second factors are encrypted with.
    """

    def __init__(self, engine: Engine, data_folder: Path) -> None:
        self._engine = engine
        self.messages = Messages(engine)
        self.traffic = Traffic(engine)
        self.sightings = StoredSightings(engine)
        self.campaigns = CampaignMarks(engine)
        self.quarantine = QuarantineRecords(engine)
        self.bulk_actions = BulkActions(engine)
        self.recipients = Recipients(engine)
        self.digests = Digests(engine)
        self.feedback = FeedbackReports(engine)
        self.learning = Learning(engine)
        self.tenants = Tenants(engine)
        self.lists = Lists(engine)
        self.list_lookup = ListLookup(engine)
        self.look_backs = LookBacks(engine)
        self.feeds = Feeds(engine)
        self.own_rules = OwnRules(engine)
        self.alerts = Alerts(engine)
        self.flow_counts = FlowCounts(engine)
        self.api_keys = ApiKeys(engine)
        self.users = Users(engine)
        self.second_factors = SecondFactors(engine, TotpKey(data_folder / KEY_FILE))
        self.sessions = Sessions(engine)
        self.audit = Audit(engine)
        self.privacy = Privacy(engine)
        self.publishing = Publishing(engine)

    async def close(self) -> None:
        """Finish what is under way and close the database."""
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
