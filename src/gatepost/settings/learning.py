"""The section `learning` of guard.yml: what is learnt from reports, and when."""

from typing import Annotated

from pydantic import Field

from gatepost.settings.section import Section
from gatepost.settings.values import Days

Hours = Annotated[int, Field(ge=1, le=8_760)]
LookBackDays = Annotated[int, Field(ge=0, le=365)]


class LearningSettings(Section):
    """Models that reports on mail teach, for each tenant and for the deployment."""

    enabled: bool = Field(True, description="whether learnt models take part, and pools are trained in the background")
    interval: Hours = Field(24, description="hours after which a pool with new reports is trained again")
    retention: Days = Field(180, description="days after which a report is forgotten")
    look_back: LookBackDays = Field(
        7, description="days of delivered mail in which a new model looks for what it would have held; 0 for none"
    )
