"""Long work that a browser watches: percents, each on a line of its own, then an empty line, then the page.

Only a script asks for that (`Accept: text/x-progress`); without one the same page comes when the work is done. Whoever
leaves meanwhile does not stop the work.
"""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gatepost.abby.web.answers import HEADERS

PROGRESS = "text/x-progress"

Told: TypeAlias = Callable[[int], Awaitable[None]]


def is_watched(request: Request) -> bool:
    """Does a script of ours ask?"""
    return PROGRESS in request.headers.get("accept", "")


async def nobody(_percent: int) -> None:
    """Nobody watches."""


class Watched(Response):
    """Does its work while it is sent. What the work needs open until then is in `held`."""

    def __init__(self, work: Callable[[Told], Awaitable[str]]) -> None:
        super().__init__(headers=HEADERS, media_type=PROGRESS)
        del self.headers["content-length"]
        self._work = work
        self.held = ExitStack()

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        with self.held:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

            async def told(percent: int) -> None:
                await send({"type": "http.response.body", "body": b"%d\n" % percent, "more_body": True})

            page = await self._work(told)
            await send({"type": "http.response.body", "body": b"\n" + page.encode("utf-8", "replace")})
