"""The whole store: every subject's operations on one engine.

A scope is a tenant's uid, or None for the global one. Times are Unix milliseconds.
"""

from pathlib import Path

from gatepost.store.alert_definitions import AlertDefinitionStore
from gatepost.store.api_keys import ApiKeyStore
from gatepost.store.audit import AuditStore
from gatepost.store.bulk_actions import BulkActionStore
from gatepost.store.campaigns import CampaignStore
from gatepost.store.config_drafts import ConfigDraftStore
from gatepost.store.digest_settings import DigestSettingsStore
from gatepost.store.digests import DigestStore
from gatepost.store.engine import Engine, StoreCounters
from gatepost.store.external_users import ExternalUserStore
from gatepost.store.feed_definitions import FeedDefinitionStore
from gatepost.store.feedback import FeedbackStore
from gatepost.store.feeds import FeedStore
from gatepost.store.flow_counts import FlowStore
from gatepost.store.held_listing import HeldListing
from gatepost.store.held_mail import HeldMailStore
from gatepost.store.learnt_models import LearntModelStore
from gatepost.store.look_back_queue import LookBackQueue
from gatepost.store.look_backs import LookBackStore
from gatepost.store.lookup import ListLookup
from gatepost.store.message_timeline import TimelineStore
from gatepost.store.messages import MessageStore
from gatepost.store.own_rules import OwnRuleStore
from gatepost.store.privacy import PrivacyStore
from gatepost.store.publishing import PublishingStore
from gatepost.store.quarantine_flow import QuarantineFlowStore
from gatepost.store.recipient_entries import RecipientEntryStore
from gatepost.store.recipient_releases import RecipientReleaseStore
from gatepost.store.recipient_requests import RecipientRequestStore
from gatepost.store.recovery_codes import RecoveryCodeStore
from gatepost.store.saved_searches import SavedSearchStore
from gatepost.store.second_factors import KEY_FILE, SecondFactorStore, TotpKey
from gatepost.store.security_keys import SecurityKeyStore
from gatepost.store.sessions import SessionStore
from gatepost.store.sightings import SightingStore
from gatepost.store.sign_in_attempts import SignInAttemptStore
from gatepost.store.tenants import TenantStore
from gatepost.store.token_uses import TokenUseStore
from gatepost.store.top_values import TopValueStore
from gatepost.store.traffic import TrafficStore
from gatepost.store.training_pools import TrainingPoolStore
from gatepost.store.users import UserStore


class Store(
    MessageStore,
    TimelineStore,
    HeldMailStore,
    HeldListing,
    QuarantineFlowStore,
    RecipientReleaseStore,
    RecipientRequestStore,
    RecipientEntryStore,
    DigestSettingsStore,
    DigestStore,
    FeedbackStore,
    CampaignStore,
    TrainingPoolStore,
    LearntModelStore,
    OwnRuleStore,
    TrafficStore,
    TopValueStore,
    SightingStore,
    FlowStore,
    TenantStore,
    FeedStore,
    FeedDefinitionStore,
    AlertDefinitionStore,
    LookBackStore,
    LookBackQueue,
    ListLookup,
    ApiKeyStore,
    TokenUseStore,
    UserStore,
    ExternalUserStore,
    SecondFactorStore,
    RecoveryCodeStore,
    SecurityKeyStore,
    SignInAttemptStore,
    SessionStore,
    SavedSearchStore,
    BulkActionStore,
    AuditStore,
    PrivacyStore,
    PublishingStore,
    ConfigDraftStore,
):
    """All that is stored. Every operation that changes something returns only when the change survives a kill.

    `data_folder` has the key that second factors are encrypted with.
    """

    def __init__(self, engine: Engine, data_folder: Path) -> None:
        super().__init__(engine)
        self._totp_key = TotpKey(data_folder / KEY_FILE)

    async def close(self) -> None:
        """Finish what is under way and close the database."""
        await self._finish_writing_uses()
        await self._finish_writing_token_uses()
        await self._engine.close()

    def counters(self) -> StoreCounters:
        """How many changes were written, in how many commits, and how many failed."""
        return self._engine.counters()
