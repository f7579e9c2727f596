"""Keys of `guard.yml` on reports about domains: where those of others are taken, how long what they say is kept, and
what is reported to others."""

from typing import Annotated

from pydantic import Field

from gatepost.settings.values import IN_DAYS, Count, Domain, MailAddress, Section, group, live

MAX_ADDRESSES, MAX_DOMAINS = 50, 1_000

ReportDays = Annotated[int, Field(ge=30, le=1_830), IN_DAYS]


OneLine = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[ -~]+$")]
PerMinute = Annotated[int, Field(ge=1, le=6_000)]


class SentReportSettings(Section):
    """Reports to others about their domains. They leave by the next hop of outbound mail, signed with the DKIM key of
    the sender's domain."""

    organization: OneLine = live(description="name of this organisation, as reports give it")
    sender: MailAddress = live(description="address that reports come from; `dkim.keys` needs a key of its domain")
    contact: OneLine | None = live(None, description="further contact, such as the address of a web page")
    dmarc: bool = live(True, description="whether DMARC aggregate reports are sent")
    tls: bool = live(True, description="whether TLS reports are sent, on routes that deliver by MX")
    exclude: Annotated[list[Domain], Field(max_length=MAX_DOMAINS)] = live(
        [], description="policy domains that nothing is reported on"
    )
    max_per_day: Count = live(5_000, description="maximum number of reports of a kind in a day")
    per_minute: PerMinute = live(60, description="maximum number of reports that are sent in a minute")


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
    send: SentReportSettings | None = group(
        None, description="reports to others about their domains, DMARC and TLS; off if not set"
    )
    retention: ReportDays = live(400, description="days for which what was reported is kept")
