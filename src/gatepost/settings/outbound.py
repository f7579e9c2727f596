"""Keys of outbound mail in `guard.yml`: which clients send it, its next hop, and the limits of its senders."""

from typing import Annotated, Literal

from pydantic import Field

from gatepost.settings.delivery import FORMS, MAX_NAMES, HopSettings, NextHops
from gatepost.settings.section import Section
from gatepost.settings.values import Network, Port

PerHour = Annotated[int, Field(ge=0, le=10_000_000)]


class SenderLimitSettings(Section):
    """What one sender may send in an hour: the user that XCLIENT names, else the address of MAIL FROM. 0: no limit."""

    messages: PerHour = Field(500, description="messages")
    recipients: PerHour = Field(2_000, description="recipients of all messages together")
    refused_recipients: PerHour = Field(100, description="recipients that the next hop refuses for good")
    over_limit: Literal["defer", "hold"] = Field(
        "defer", description="`defer` answers 451 until the hour is over, `hold` puts the messages into the quarantine"
    )


class OutboundSettings(HopSettings):
    """Mail that own servers send to the world."""

    hosts: Annotated[list[Network], Field(max_length=MAX_NAMES)] = Field(
        [], description="addresses and networks of own servers: all mail that they send here is outbound"
    )
    port: Port | None = Field(
        None,
        description="further port of the SMTP source on which all mail is outbound, for `hosts`, `xclientHosts` and"
        " this machine; none by default",
    )
    next_hop: NextHops | None = Field(
        None, description=f"{FORMS}; by default outbound mail takes the routes of `delivery`"
    )
    sender_limits: SenderLimitSettings = Field(SenderLimitSettings(), description="limits that show a captured account")
