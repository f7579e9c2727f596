"""The section `digests` of guard.yml: how digests of held mail are sent. Whether a tenant wants them is set in the web
interface, for each tenant."""

from typing import Annotated

from pydantic import Field

from gatepost.settings.section import Section
from gatepost.settings.values import Count, MailAddress, UpToThousand

LinkDays = Annotated[int, Field(ge=1, le=60)]


class DigestSettings(Section):
    """Daily mail to recipients about what is held for them; each tenant switches it on for itself."""

    sender: MailAddress | None = Field(
        None, description="address in From and in the envelope; by default `postmaster@` and the host name of guard"
    )
    link_lifetime: LinkDays = Field(14, description="days for which the links of a digest work")
    max_messages: UpToThousand = Field(50, description="maximum number of messages that one digest lists")
    max_recipients: Count = Field(
        5_000, description="maximum number of digests that one run sends for one tenant; the rest follows after an hour"
    )
    per_minute: Count = Field(300, description="maximum number of digests that are sent in a minute")
