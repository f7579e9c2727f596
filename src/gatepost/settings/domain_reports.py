"""Keys of `guard.yml` on reports about domains: where they are taken, and how long what they say is kept."""

from typing import Annotated

from pydantic import Field

from gatepost.settings.values import Domain, MailAddress, Section, live

MAX_ADDRESSES, MAX_DOMAINS = 50, 1_000

ReportDays = Annotated[int, Field(ge=30, le=1_830)]


class DomainReportSettings(Section):
    """Reports of others about mail of our domains: DMARC aggregate and failure reports, and TLS reports."""

    addresses: Annotated[list[MailAddress], Field(max_length=MAX_ADDRESSES)] = live(
        [],
        description="addresses for reports, as DMARC records name them in `rua` and `ruf`, and TLS records in `rua`:"
        " mail to them is read and not delivered",
    )
    domains: Annotated[list[Domain], Field(max_length=MAX_DOMAINS)] = live(
        [],
        description="domains that belong to no tenant and whose reports are taken, names below them included; those of"
        " tenants always are",
    )
    accept_unproven: bool = live(
        False,
        description="whether reports are taken whose sender neither SPF nor DKIM proves, so that anybody could have"
        " written them",
    )
    retention: ReportDays = live(400, description="days for which what was reported is kept")
