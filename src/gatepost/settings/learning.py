"""The section `learning` of guard.yml: what is learnt from reports, and when."""

from typing import Annotated, Literal

from pydantic import Field

from gatepost.settings.section import Section
from gatepost.settings.values import Days, MailAddress, Network

Hours = Annotated[int, Field(ge=1, le=8_760)]
LookBackDays = Annotated[int, Field(ge=0, le=365)]


class ReportAddressSettings(Section):
    """An address to which people of a tenant forward messages."""

    address: MailAddress = Field(description="mail to this address is a report of the tenant of its domain; SMTP only")
    says: Literal["unwanted", "wanted"] = Field(description="what a report says of the messages attached to it")


class LearningSettings(Section):
    """Models that reports on mail teach, for each tenant and for the deployment."""

    enabled: bool = Field(True, description="whether learnt models take part, and pools are trained in the background")
    interval: Hours = Field(24, description="hours after which a pool with new reports is trained again")
    retention: Days = Field(180, description="days after which a report is forgotten")
    look_back: LookBackDays = Field(
        7, description="days of delivered mail in which a new model looks for what it would have held; 0 for none"
    )
    report_addresses: Annotated[list[ReportAddressSettings], Field(max_length=1_000)] = Field(
        [], description="addresses to which people forward messages as attachments, to report them"
    )
    report_hosts: list[Network] = Field(
        [],
        description="addresses and networks of inside hosts from which reports are taken without proof; others must be"
        " authenticated as a domain of the tenant",
    )
