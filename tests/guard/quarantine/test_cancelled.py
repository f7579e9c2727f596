"""A release whose client leaves at any moment goes on, and leaves no claim behind."""

from tests.cancelling import cancel_everywhere
from tests.guard.conftest import both_engines
from tests.guard.quarantine.conftest import RAW, Deployment

from gatepost.scanning.held_mail import Released, ReleaseOrder
from gatepost.store.audit import CLI

pytestmark = both_engines


async def test_a_release_whose_client_leaves(deployment: Deployment) -> None:
    ggrids: list[str] = []

    async def release() -> None:
        ggrids.append(await deployment.hold(RAW))
        await deployment.quarantine.carry_out(ReleaseOrder(ggrids[-1], by=CLI))

    async def look() -> None:
        await deployment.quarantine.finish()
        for ggrid in ggrids:
            assert isinstance(await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=CLI)), Released)
        ggrids.clear()

    await cancel_everywhere(release, after=look)
