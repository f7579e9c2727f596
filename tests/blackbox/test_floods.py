"""One tenant floods by one source, and another sends a little by each: none of that is put off, by any pair of sources.

The service has four slots, and the throttle makes each message hold one for a while, so that a few clients fill the
core without much of the machine. With times and more mail: `python -m bench sources`.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest
from bench.sources import CLIENTS, Tenant, keep_sending, make_tenants, try_send, write_letter
from tests.blackbox.all_sources import House, open_house

SLOTS, FLOOD, MESSAGES = 4, 12, 2
MORE = f"mainWorkerCount: {SLOTS}\nguardRequestThrottleThreshold: 1\nmaxThrottleDelay: 200\nworkerProcesses: 1\n"


@pytest.fixture(scope="module")
def deployment() -> Iterator[tuple[House, Tenant, Tenant]]:
    with open_house({}, MORE) as house:
        yield house, *make_tenants(house)


def read_waiting(house: House) -> float:
    """How many messages wait for a slot."""
    text = httpx.get(f"http://127.0.0.1:{house.abby}/metrics", trust_env=False, timeout=60).text
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("gatepost_waiting "))


async def until_messages_wait(house: House) -> None:
    async with asyncio.timeout(120):
        while not await asyncio.to_thread(read_waiting, house):  # noqa: ASYNC110  the service tells nobody
            await asyncio.sleep(0.05)


@pytest.mark.process
@pytest.mark.parametrize("flood", CLIENTS)
async def test_a_flood_puts_off_no_mail_of_another_tenant(deployment: tuple[House, Tenant, Tenant], flood: str) -> None:
    house, flooding, quiet = deployment
    over, counts = asyncio.Event(), Counter[str]()
    clients = [CLIENTS[flood](house, flooding) for _ in range(FLOOD)]
    sending = [asyncio.create_task(keep_sending(client, over, counts, 1)) for client in clients]
    try:
        await until_messages_wait(house)
        for source, connect in CLIENTS.items():
            client = connect(house, quiet)
            for _ in range(MESSAGES):
                assert await try_send(client, write_letter(1)) == "", f"{source} beside a flood by {flood}"
            client.close()
    finally:
        over.set()
        await asyncio.wait(sending, timeout=120)
    assert counts["taken"] > SLOTS, "the flood was one"
