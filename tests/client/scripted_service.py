"""A scripted service for both clients: it answers one step for each request, and notes what it was asked."""

from collections.abc import Callable
from typing import Any

import httpx

Step = Callable[[httpx.Request], httpx.Response]


class Script:
    """Answers one step for each request, and notes requests and pauses."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.requests: list[httpx.Request] = []
        self.pauses: list[float] = []

    def handle(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        return self.steps.pop(0)(request)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def answer(status: int, body: Any, **headers: str) -> Step:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: httpx.Response(status, json=body, headers=named)


def error(status: int, code: str, message: str | None = None, **headers: str) -> Step:
    return answer(status, {"error": code, "message": message}, **headers)


def refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)
