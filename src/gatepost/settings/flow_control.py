"""The section `flowControl` of guard.yml: rate limits, a limit on unknown recipients, and greylisting; all off by
default."""

from typing import Annotated

from pydantic import Field

from gatepost.settings.section import Section
from gatepost.settings.values import Count, Days, Network, TenantUid

# A day at most: counters that live longer would be a record of who writes to whom.
WindowMinutes = Annotated[int, Field(ge=1, le=1_440)]
DelayMinutes = Annotated[int, Field(ge=1, le=360)]
RetryHours = Annotated[int, Field(ge=1, le=168)]
Successes = Annotated[int, Field(ge=1, le=1_000)]

_WINDOW = "minutes after which counting starts anew"


class RateLimitSettings(Section):
    """How much mail is taken in a window of time; what is not set has no limit."""

    messages: Count | None = Field(None, description="maximum number of messages")
    recipients: Count | None = Field(None, description="maximum number of recipients of those messages together")
    window_minutes: WindowMinutes = Field(60, description=_WINDOW)


class RecipientLimitSettings(Section):
    """How much mail is taken for one recipient in a window of time."""

    messages: Count = Field(description="maximum number of messages")
    window_minutes: WindowMinutes = Field(60, description=_WINDOW)


class RateLimitsSettings(Section):
    """Rate limits by whom mail is from and for; mail above one is answered with 450."""

    host: RateLimitSettings | None = Field(None, description="for each sending host (an IPv6 /64); off if not set")
    sender: RateLimitSettings | None = Field(
        None, description="for each envelope sender, bounces excepted; off if not set"
    )
    sender_domain: RateLimitSettings | None = Field(
        None, description="for each domain of envelope senders; off if not set"
    )
    recipient: RecipientLimitSettings | None = Field(None, description="for each recipient; off if not set")


class UnknownRecipientsSettings(Section):
    """A limit on recipients that the next hop refuses: whoever tries names one after the other is stopped."""

    maximum: Count = Field(
        description="number of unknown recipients of one host (an IPv6 /64) from which it is answered with 421"
    )
    window_minutes: WindowMinutes = Field(60, description=_WINDOW)


class GreylistingSettings(Section):
    """Greylisting: the first attempt of an unknown sender from an unknown network is answered with 450."""

    delay_minutes: DelayMinutes = Field(5, description="minutes after which the next attempt is accepted")
    retry_hours: RetryHours = Field(48, description="hours within which that attempt must come")
    pass_days: Days = Field(36, description="days for which a sender, or a network, that passed is known")
    pass_after: Successes = Field(
        5, description="number of senders of a network (IPv4 /24, IPv6 /64) that must pass before all of it may"
    )


class FlowRulesSettings(Section):
    """Limits on what SMTP clients send; each is off if it is not set."""

    rate_limits: RateLimitsSettings = Field(RateLimitsSettings(), description="rate limits")
    greylisting: GreylistingSettings | None = Field(None, description="greylisting; off if not set")


class FlowControlSettings(FlowRulesSettings):
    """Limits on what SMTP clients send, counted over all nodes; all are off by default."""

    unknown_recipients: UnknownRecipientsSettings | None = Field(
        None, description="limit on recipients that the next hop does not know; off if not set"
    )
    exempt_hosts: list[Network] = Field([], description="addresses and networks of sending hosts without limits")
    tenants: dict[TenantUid, FlowRulesSettings] = Field(
        {}, description="tenant uid to the limits for mail of that tenant, instead of those above"
    )

    @property
    def is_on(self) -> bool:
        """Whether there is any limit."""
        rules: tuple[FlowRulesSettings, ...] = (self, *self.tenants.values())
        any_rule = any(each.greylisting or each.rate_limits != RateLimitsSettings() for each in rules)
        return bool(self.unknown_recipients or any_rule)
