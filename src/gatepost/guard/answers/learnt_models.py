"""Learnt models as guard hands them to workers: always those that are current in storage, within seconds.

Which models are current is asked every `POLL_SECONDS`; their bytes are read when a message needs them first, and kept
for as many tenants as fit. A message waits for storage only then. Where storage does not answer, a message is judged
with the models that are known, or without any: rules, lists and the shipped model do not depend on them.
"""

from typing import Any

import msgspec

from gatepost.process.logs import Logger
from gatepost.process.periodic import PeriodicWork
from gatepost.store.errors import StorageError
from gatepost.store.learning import Learning
from gatepost.workers.jobs import EMPTY, Snapshot

POLL_SECONDS = 2.0
MAX_CACHED = 200

log = Logger("gatepost.learning")

_MODEL = msgspec.msgpack.Decoder(dict[str, Any])


class LearntModelSnapshots:
    """The current learnt models of a deployment, packed by tenant."""

    def __init__(self, store: Learning, poll: float = POLL_SECONDS) -> None:
        self._store = store
        self._current: dict[str, int] = {}
        self._cached: dict[str, Snapshot] = {}
        failed = "learnt models could not be asked for"
        self._following = PeriodicWork(self.refresh, poll, failed, log, waits_first=True)

    @property
    def versions(self) -> dict[str, int]:
        """The version that takes part, by scope; the deployment's is ""."""
        return self._current

    async def start(self) -> None:
        """Learn what is current, and follow it from now on."""
        await self.refresh()
        self._following.start()

    async def stop(self) -> None:
        """Follow no longer."""
        await self._following.stop()

    async def refresh(self) -> None:
        """Ask which models are current."""
        try:
            self._current = await self._store.current_models()
        except StorageError as fault:
            log.warning("learnt models could not be asked for", reason=str(fault))

    async def snapshot(self, tenant: str | None) -> Snapshot:
        """The models that speak about a tenant's mail: the deployment's and its own."""
        if not self._current:
            return EMPTY
        own = self._current.get(tenant.lower()) if tenant else None
        versions = [version for version in (self._current.get(""), own) if version]
        if not versions:
            return EMPTY
        key, name = f"learnt:{tenant if own else ''}", "-".join(map(str, versions))
        found = self._cached.pop(key, None)
        if found is None or found.version != name:
            try:
                packed = [await self._store.model_bytes(version) for version in versions]
            except StorageError as fault:
                log.warning("learnt models could not be read", reason=str(fault))
                return found or EMPTY
            numbered = [_number(*each) for each in zip(packed, versions, strict=True)]
            found = Snapshot(key, name, msgspec.msgpack.encode([each for each in numbered if each]))
        self._cached[key] = found
        if len(self._cached) > MAX_CACHED:
            del self._cached[next(iter(self._cached))]
        return found


def _number(packed: bytes, version: int) -> bytes:
    """The model as workers need it: with its number, which the ledger names and which is known only once it is stored,
    and without the one that was proved. Mail is judged without a model that is damaged."""
    if not packed:
        return b""
    try:
        model = _MODEL.decode(packed)
    except msgspec.DecodeError as fault:
        log.error("learnt model is damaged", version=version, reason=str(fault))
        return b""
    return msgspec.msgpack.encode({**model, "version": version, "proof": b""})
