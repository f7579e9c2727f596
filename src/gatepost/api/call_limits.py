"""How many costly calls run at once: for each caller, for each tenant, and in all.

A stream holds a snapshot of storage, a dry run and a trial of a policy judge thousands of messages, a search reads tens
of thousands of rows, a view occupies a worker, a bulk action sends up to a hundred messages. A limit in all keeps the
service alive; the limits of a tenant and of a caller keep one of them from taking all of it. Over a limit of its own a
call is answered 429 `rate_limited`, over the limit of all 503 `overloaded`, both at once: nothing waits in a queue that
others could fill.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Literal, Self, TypeAlias

import msgspec

from gatepost.api.errors import OVERLOADED, RATE_LIMITED, Failure

CallKind: TypeAlias = Literal["stream", "dry run", "policy trial", "search", "view", "bulk action"]


class CallLimit(msgspec.Struct, frozen=True):
    """How many calls of one kind run at once."""

    in_all: int
    per_tenant: int
    per_caller: int


LIMITS: Mapping[CallKind, CallLimit] = {
    "stream": CallLimit(in_all=32, per_tenant=8, per_caller=8),
    "dry run": CallLimit(in_all=24, per_tenant=3, per_caller=2),
    "policy trial": CallLimit(in_all=6, per_tenant=2, per_caller=1),
    "search": CallLimit(in_all=32, per_tenant=8, per_caller=4),
    "view": CallLimit(in_all=8, per_tenant=4, per_caller=2),
    "bulk action": CallLimit(in_all=8, per_tenant=2, per_caller=2),
}
_PLURALS: Mapping[CallKind, str] = {
    "stream": "streams",
    "dry run": "dry runs",
    "policy trial": "trials of policies",
    "search": "searches",
    "view": "views of messages",
    "bulk action": "bulk actions",
}


class CallingParty(msgspec.Struct, frozen=True):
    """Who calls: `id` is that of a key or a user, `tenant` the one that it belongs to; None is the deployment, which
    has no limit of a tenant."""

    id: str
    tenant: str | None = None


class RunningCall:
    """A call that counts until it is ended; ending it again does nothing."""

    def __init__(self, limits: "CallLimits", names: tuple[str, ...]) -> None:
        self._limits: CallLimits | None = limits
        self._names = names

    def end(self) -> None:
        """Count it no longer."""
        limits, self._limits = self._limits, None
        if limits is not None:
            limits.forget(self._names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class CallLimits:
    """Counts the costly calls, of the APIs and of the pages together."""

    def __init__(self, limits: Mapping[CallKind, CallLimit] = LIMITS) -> None:
        self._limits = limits
        self._running: Counter[str] = Counter()

    def begin(self, kind: CallKind, party: CallingParty) -> RunningCall | Failure:
        """Count one more call, which the caller of this function ends; or the failure that it is answered with."""
        limit, what = self._limits[kind], _PLURALS[kind]
        wanted = {f"{kind}|id|{party.id}": limit.per_caller}
        if party.tenant:
            wanted[f"{kind}|tenant|{party.tenant}"] = limit.per_tenant
        names = (kind, *wanted)
        for name, most in wanted.items():
            if self._running[name] >= most:
                whose = "of this tenant" if "|tenant|" in name else "of yours"
                return Failure(RATE_LIMITED, f"{most} {what} {whose} are running; try again when one has ended")
        if self._running[kind] >= limit.in_all:
            return Failure(OVERLOADED, f"{limit.in_all} {what} are running at this moment; try again soon")
        self._running.update(names)
        return RunningCall(self, names)

    def running(self, kind: CallKind) -> int:
        """How many calls of this kind run now."""
        return self._running[kind]

    def forget(self, names: tuple[str, ...]) -> None:
        """Count these no longer. Names without a call are not kept: there are as many as there are callers."""
        for name in names:
            self._running[name] -= 1
            if not self._running[name]:
                del self._running[name]
