"""A decision that was wrong: on record for everybody, and kept to learn from where somebody of the deployment says so.

Only held mail can be kept, since no other bytes are there. What a tenant's own people report teaches nothing by itself:
one tenant must not be able to train everybody's filter.
"""

import asyncio

from gatepost.abby.web.desk import Desk
from gatepost.abby.web.visit import Visit
from gatepost.store.feedback import Correction

SAYS: dict[str, Correction] = {"deliver": "should have been delivered", "hold": "should have been held"}


async def reported(desk: Desk, visit: Visit, ggrid: str, word: str) -> bool:
    """Put it on record; False where there is no such message for the visitor."""
    if not await desk.store.report_wrong(ggrid, SAYS[word], visit.actor, visit.user.tenant):
        return False
    if visit.user.tenant is None:
        raw = await desk.room.export(ggrid, visit.actor)
        if isinstance(raw, bytes):
            await asyncio.to_thread(desk.installation.learn, raw, word == "deliver")
    return True
