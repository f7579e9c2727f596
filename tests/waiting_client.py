"""A client of the scan API that waits for its response until a test lets it leave."""

import asyncio

from starlette.types import Message

from gatepost.api.http import ConnectedClient


class WaitingClient(ConnectedClient):
    """Stays connected until `leave` is set."""

    def __init__(self) -> None:
        super().__init__(self._receive_disconnect)
        self.leave = asyncio.Event()

    async def _receive_disconnect(self) -> Message:
        await self.leave.wait()
        return {"type": "http.disconnect"}
