"""A node that follows the rollout: it learns which version is wanted, waits for its turn, and takes the version over.

Nodes take turns (`store/publishing.py`): a node keeps its turn until it runs the version and is healthy, so that the
next one begins only then. What can be taken over live is; for the rest the node restarts itself with its ports open. A
version that a node cannot run stops there: the node goes back to the version before, and so do those that have it.

The node says every two seconds how it is: `gatepost nodes` shows that.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from gatepost import __version__
from gatepost.process.health import Health
from gatepost.process.logs import Logger
from gatepost.process.periodic import Outage, PeriodicWork
from gatepost.service.data_folder import StartError
from gatepost.service.generation import Generations
from gatepost.service.plan import Plan
from gatepost.service.publishing import NodeFiles, NodeVersion, Trial, write_folder
from gatepost.service.reloading import ReloadOutcome, load_state
from gatepost.store.errors import StorageError
from gatepost.store.publishing import NodeDetail, Rollout
from gatepost.store.store import Store
from gatepost.times import now

POLL_SECONDS = 2.0
# How long a node may have its turn; one that was killed and does not come back blocks the others for so long.
TURN_SECONDS = 180.0
HEALTHY_SECONDS = 60.0
LISTEN_AGAIN_SECONDS = 10.0
NOT_NOTED = "the state of this node could not be noted"

log = Logger("gatepost")


class NodeControl(Protocol):
    """Reloads and restarts a node, once it knows what a reload replaces."""

    def attach(self, generations: Generations) -> None: ...

    async def reload(self, folder: Path) -> ReloadOutcome: ...

    def restart(self) -> None: ...


class Follower:
    """One node; `health` tells how it is, and `slots` how many of its slots are in use."""

    def __init__(
        self,
        store: Store,
        plan: Plan,
        name: str,
        control: NodeControl,
        health: Callable[[], Health],
        slots: Callable[[], tuple[int, int]],
    ) -> None:
        self._store, self._plan, self._control, self._health, self._slots = store, plan, control, health, slots
        self._files = NodeFiles(plan.data, plan.service)
        self._id, self._name = self._files.node_id(), name
        trial = self._files.trial()
        self._version = trial.version if trial and not trial.fault else self._files.current()
        self._restart_seen: int | None = None
        self._started = self._since = now()
        self._error = ""
        self._woken = asyncio.Event()
        self._outage = Outage("the rollout cannot be followed", log)
        self._is_leaving = False

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
        health, slots, plan = self._health(), self._slots(), self._plan
        loaded = await asyncio.to_thread(load_state, plan.data, plan.service)
        return NodeDetail(
            services=plan.services,
            program=__version__,
            version=self._version.number,
            health=health,
            in_processing=slots[0],
            slots=slots[1],
            started=self._started,
            since=self._since,
            error=(self._error or (loaded.fault if loaded else ""))[:2_000],
            waits_for_restart=loaded.restart if loaded else (),
        )

    async def step(self) -> None:
        """Do what is to be done now, if anything is."""
        if self._is_leaving:
            return
        rollout = await self._store.publishing.rollout()
        if self._restart_seen is None:
            # This process has started after every restart that was asked for until now.
            self._restart_seen = rollout.restart
        if trial := await asyncio.to_thread(self._files.trial):
            await self._finish_trial(trial)
        elif rollout.wanted != self._version.number or rollout.restart > self._restart_seen:
            if await self._take_turn():
                await self._use_turn(await self._store.publishing.rollout())
        elif rollout.holder == self._id and await self._is_healthy():
            log.info("rollout turn ended", node=self._name, version=self._version.number)
            await self._store.publishing.end_turn(self._id, self._name, self._version.number, "restarted")

    async def _take_turn(self) -> bool:
        return await self._store.publishing.take_turn(self._id, now() + int(TURN_SECONDS * 1_000))

    async def _use_turn(self, rollout: Rollout) -> None:
        if rollout.wanted != self._version.number:
            await self._take_over(rollout.wanted)
        elif self._restart_seen is not None and rollout.restart > self._restart_seen:
            log.info("node restart begins", node=self._name)
            self._restart_seen = rollout.restart
            self._leave()

    async def _take_over(self, number: int) -> None:
        """Take a version over: live, or by a restart. It is this node's turn."""
        before = self._version
        log.info("configuration version is taken over", node=self._name, version=number, before=before.number)
        try:
            version = await self._write(number)
        except StartError as fault:
            await self._fail(number, str(fault))
            return
        outcome = await self._control.reload(Path(version.folder))
        if not outcome.taken:
            await self._fail(number, outcome.reason)
        elif outcome.restart:
            await self._take_turn()
            await asyncio.to_thread(self._files.set_trial, Trial(version, before))
            log.info("configuration version needs a restart", node=self._name, version=number, keys=outcome.restart)
            self._leave()
        elif await self._is_healthy():
            await self._settle(version)
        else:
            reason = f"the node was not healthy with it: {self._health().fault}"
            await self._control.reload(Path(before.folder or str(self._plan.local)))
            await self._fail(number, reason)

    async def _write(self, number: int) -> NodeVersion:
        local = self._plan.local
        assert local is not None
        if number == 0:
            return NodeVersion(0, str(local))
        found = await self._store.publishing.find(number)
        if found is None:
            raise StartError(f"Version {number} is not in storage.")
        folder = await asyncio.to_thread(write_folder, found.content, number, local, self._files.place)
        return NodeVersion(number, str(folder))

    def _leave(self) -> None:
        """Restart the node: what follows is done by the process that starts."""
        self._is_leaving = True
        self._control.restart()

    async def _is_healthy(self) -> bool:
        """Wait until this node can do its work; False if it cannot for too long."""
        deadline = time.monotonic() + HEALTHY_SECONDS
        while self._health().fault:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.2)
        return True

    async def _settle(self, version: NodeVersion) -> None:
        """Note that this node runs a version, and let the next node have its turn."""
        await asyncio.to_thread(self._files.set_current, version)
        self._version, self._since, self._error = version, now(), ""
        await self._store.publishing.put_node(self._id, self._name, await self._describe())
        log.info("configuration version taken over", node=self._name, version=version.number)
        await self._store.publishing.end_turn(self._id, self._name, version.number, "took over")

    async def _finish_trial(self, trial: Trial) -> None:
        """After a restart with a version: keep it if the node is healthy, otherwise go back."""
        number = trial.version.number
        if trial.fault:
            await self._fail(number, trial.fault, trial.before)
            return
        if await self._is_healthy():
            await self._settle(trial.version)
            return
        fault = f"the node was not healthy with it: {self._health().fault}"
        await asyncio.to_thread(self._files.set_trial, msgspec.structs.replace(trial, fault=fault))
        self._leave()

    async def _fail(self, number: int, reason: str, before: NodeVersion | None = None) -> None:
        """Stop a version for all nodes: this one runs the version before again."""
        before = before or self._version
        self._error = f"version {number}: {reason}"
        await self._store.publishing.fail_rollout(self._id, self._name, number, before.number, reason)
        await asyncio.to_thread(self._files.end_trial)
        log.error("configuration version failed", node=self._name, version=number, back_to=before.number, reason=reason)
