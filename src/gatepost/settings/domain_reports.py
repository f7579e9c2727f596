"""Keys of `guard.yml` on reports to others about their domains."""

from typing import Annotated

from pydantic import Field

from gatepost.settings.values import Count, Domain, MailAddress, Section, group, live

MAX_DOMAINS = 1_000

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
    """Reports about domains: those to others."""

    send: SentReportSettings | None = group(
        None, description="reports to others about their domains, DMARC and TLS; off if not set"
    )
