"""A node that follows the rollout: it learns which version is wanted, waits for its turn, and takes the version over.

Nodes take turns (`store/publishing.py`): a node keeps its turn until it runs the version and is healthy, so that the
next one begins only then. It takes a version over as any other change (`changes`). A version that a node cannot run
stops there: the node goes back to the version before, and so do those that have it.

The node says every two seconds how it is: `gatepost nodes` shows that.
"""

import asyncio

from gatepost import __version__
from gatepost.process.logs import Logger
from gatepost.process.periodic import Outage, PeriodicWork
from gatepost.service.changes import Changes, NodeFiles, load_state
from gatepost.service.data_folder import NodeVersion, StartError
from gatepost.service.parts import Parts
from gatepost.service.publishing import write_folder
from gatepost.store.errors import StorageError
from gatepost.store.publishing import NodeDetail, Rollout
from gatepost.store.store import Store
from gatepost.times import now

POLL_SECONDS = 2.0
# How long a node may have its turn; one that was killed and does not come back blocks the others for so long.
TURN_SECONDS = 360.0
LISTEN_AGAIN_SECONDS = 10.0
NOT_NOTED = "the state of this node could not be noted"

log = Logger("gatepost")


class Follower:
    """One node, with the parts that tell how it is."""

    def __init__(self, store: Store, name: str, changes: Changes, parts: Parts) -> None:
        self._store, self._plan, self._changes, self._parts = store, parts.plan, changes, parts
        self._files = NodeFiles(parts.plan.data, parts.plan.service)
        self._id, self._name = self._files.node_id(), name
        self._restart_seen: int | None = None
        self._started = now()
        self._error = ""
        self._woken = asyncio.Event()
        self._outage = Outage("the rollout cannot be followed", log)

    async def run(self) -> None:
        """Follow until cancelled."""
        periodic = (
            PeriodicWork(self._listen, LISTEN_AGAIN_SECONDS, "the rollout could not be listened to", log),
            PeriodicWork(self._put_node, POLL_SECONDS, NOT_NOTED, log),
        )
        for each in periodic:
            each.start()
        try:
            while True:
                self._woken.clear()
                async with self._outage:
                    await self.step()
                await self._pause()
        finally:
            for each in periodic:
                each.cancel()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _listen(self) -> None:
        """Wake up when storage says that the rollout has changed; polling goes on besides."""
        try:
            await self._store.publishing.watch_rollout(self._woken.set)
        except (StorageError, OSError) as fault:
            log.debug("the rollout is polled", reason=str(fault))

    async def _put_node(self) -> None:
        try:
            await self._store.publishing.put_node(self._id, self._name, await self._describe())
        except StorageError as fault:
            log.debug(NOT_NOTED, reason=str(fault))

    async def _describe(self) -> NodeDetail:
        slots, plan = self._parts.slots(), self._plan
        loaded = await asyncio.to_thread(load_state, plan.data, plan.service)
        return NodeDetail(
            services=plan.services,
            program=__version__,
            version=plan.version,
            health=self._parts.health(),
            in_processing=slots[0],
            slots=slots[1],
            started=self._started,
            since=self._started,
            error=(self._error or (loaded.fault if loaded else ""))[:2_000],
        )

    async def step(self) -> None:
        """Do what is to be done now, if anything is."""
        if not self._changes.is_settled:
            return
        rollout, version = await self._store.publishing.rollout(), self._plan.version
        if self._restart_seen is None:
            # This process has started after every restart that was asked for until now.
            self._restart_seen = rollout.restart
        trial = await asyncio.to_thread(self._files.trial)
        if trial and trial.fault and trial.version.number != trial.before.number:
            await self._fail(trial.version.number, trial.fault)
            await asyncio.to_thread(self._files.end_trial)
        elif rollout.wanted != version or rollout.restart > self._restart_seen:
            if await self._store.publishing.take_turn(self._id, now() + int(TURN_SECONDS * 1_000)):
                await self._use_turn(await self._store.publishing.rollout())
        elif rollout.holder == self._id and not self._parts.health().fault:
            await self._store.publishing.put_node(self._id, self._name, await self._describe())
            said = "took over" if self._changes.taken else "restarted"
            log.info("rollout turn ended", node=self._name, version=version)
            await self._store.publishing.end_turn(self._id, self._name, version, said)

    async def _use_turn(self, rollout: Rollout) -> None:
        assert self._restart_seen is not None
        if rollout.wanted != self._plan.version:
            log.info("rollout turn begins", node=self._name, version=rollout.wanted, before=self._plan.version)
            await self._take_over(rollout.wanted)
        elif rollout.restart > self._restart_seen:
            log.info("node restart begins", node=self._name)
            self._restart_seen = rollout.restart
            self._error = await self._changes.change()

    async def _take_over(self, number: int) -> None:
        """Take a version over. It is this node's turn, also while it starts again."""
        try:
            version = await self._write(number)
        except StartError as fault:
            await self._fail(number, str(fault))
            return
        if reason := await self._changes.change(version):
            await self._fail(number, reason)

    async def _write(self, number: int) -> NodeVersion:
        local = self._plan.local
        assert local is not None
        if number == 0:
            return NodeVersion()
        found = await self._store.publishing.find(number)
        if found is None:
            raise StartError(f"Version {number} is not in storage.")
        folder = await asyncio.to_thread(write_folder, found.content, number, local, self._files.place)
        return NodeVersion(number, str(folder))

    async def _fail(self, number: int, reason: str) -> None:
        """Stop a version for all nodes: this one runs the version before."""
        before = self._plan.version
        self._error = f"version {number}: {reason}"
        await self._store.publishing.fail_rollout(self._id, self._name, number, before, reason)
        log.error("configuration version failed", node=self._name, version=number, back_to=before, reason=reason)
