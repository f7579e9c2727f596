"""Having as many workers as were asked for: starting, replacing and retiring them."""

import asyncio
import itertools
import os
import socket
from typing import Protocol

import structlog

from gatepost.guard import frames
from gatepost.guard.crew import Hand
from gatepost.guard.frames import Frame, FrameError
from gatepost.guard.nursery import Equipment, LoaderError, Nursery
from gatepost.guard.page import Page, new_page

_START_SECONDS = 30.0
_PAUSE_SECONDS = (0.05, 5.0)
_STILLBORN = 5

_log = structlog.get_logger("gatepost.workers")


class SealError(RuntimeError):
    """Workers cannot be started, or cannot be shut in; the text is one sentence for the operator."""


class Employer(Protocol):
    """Who the workers work for."""

    def received(self, hand: Hand, kind: Frame, number: int, body: bytes) -> None:
        """A frame about a job; `FrameError` ends the worker."""
        ...

    def lost(self, hand: Hand) -> None:
        """A worker is gone with the jobs inside; it is replaced in any case."""
        ...

    def joined(self) -> None:
        """There is a new worker."""
        ...


class Staff:
    """The workers that there are. `hands` holds them from birth to end."""

    def __init__(self, employer: Employer, memory: int, equipment: Equipment, *, trial: bool) -> None:
        self.hands: dict[int, Hand] = {}
        self.leaks: tuple[str, ...] = ()
        self.replaced = 0
        self.retired = 0
        self._employer = employer
        self._memory = memory
        self._trial = trial
        self._equipment = equipment
        self._loop = asyncio.get_running_loop()
        self._nursery = Nursery(self._born, self._loader_lost, equipment)
        self._numbers = itertools.count(1)
        self._pause = _PAUSE_SECONDS[0]
        self._news = asyncio.Event()
        self._stopped = False
        self._reloading: asyncio.Task[None] | None = None

    @property
    def ready(self) -> int:
        """How many can work."""
        return sum(hand.ready for hand in self.hands.values())

    async def start(self, processes: int) -> None:
        """Start so many workers; returns when each has reported how well it is sealed."""
        try:
            await self._nursery.start()
            for _ in range(processes):
                self._spawn()
            async with asyncio.timeout(_START_SECONDS):
                while self.ready < processes:
                    self._news.clear()
                    await self._news.wait()
                    if self.replaced >= _STILLBORN:
                        raise TimeoutError
        except LoaderError as fault:
            raise SealError(str(fault)) from None
        except TimeoutError:
            raise SealError("The analysis workers do not start; the log says why.") from None

    async def stop(self) -> None:
        """End them all; returns when every process has ended."""
        self._stopped = True
        for hand in self.hands.values():
            hand.close()
        self.hands.clear()
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.wait([self._reloading])
        await self._nursery.stop()

    def retire(self, hand: Hand) -> None:
        """Its successor starts at once; itself goes when the jobs inside are done."""
        if not hand.retiring and not self._stopped:
            hand.retiring = True
            self.retired += 1
            self._spawn()

    def excuse(self, hand: Hand) -> None:
        """Let a retiring worker go if nothing is left inside."""
        if hand.retiring and not hand.jobs and hand.number in self.hands:
            del self.hands[hand.number]
            hand.close()

    def _spawn(self) -> None:
        if self._stopped:
            return
        number = next(self._numbers)
        ours, theirs = socket.socketpair()
        page = new_page()
        self.hands[number] = Hand(number, self._loop, ours, Page(page), self._received, self._ended)
        self._nursery.spawn(frames.Spawn(number, self._memory, self._trial), theirs, page)
        theirs.close()
        os.close(page)

    def _born(self, number: int, pid: int, pidfd: int) -> None:
        hand = self.hands.get(number)
        if hand is None:
            os.close(pidfd)
            return
        hand.born(pid, pidfd)
        self._joined(hand)

    def _received(self, hand: Hand, kind: Frame, number: int, body: bytes) -> None:
        if kind is Frame.READY:
            self._reported(hand, frames.ready(body))
        else:
            self._employer.received(hand, kind, number, body)

    def _reported(self, hand: Hand, report: frames.Ready) -> None:
        if hand.reported:
            raise FrameError("ready twice")
        hand.reported = True
        if report.leaks:
            self.leaks = report.leaks
            _log.warning("worker not sealed", possible=report.leaks, layers=report.layers)
        self._joined(hand)

    def _joined(self, hand: Hand) -> None:
        if hand.ready:
            hand.growth()
            self._pause = _PAUSE_SECONDS[0]
            self._news.set()
            self._employer.joined()

    def _ended(self, hand: Hand) -> None:
        del self.hands[hand.number]
        self._employer.lost(hand)
        hand.close()
        if hand.retiring:
            return
        self.replaced += 1
        if hand.served or hand.jobs:
            self._spawn()
        else:  # it may never come up: something is wrong then that trying harder does not mend
            self._news.set()
            self._loop.call_later(self._pause, self._spawn)
            self._pause = min(self._pause * 2, _PAUSE_SECONDS[1])

    def _loader_lost(self) -> None:
        """Its workers die with it, each noticed by itself; what they need is another loader."""
        _log.error("loader lost")
        self._reloading = self._loop.create_task(self._reload())

    async def _reload(self) -> None:
        while True:
            await self._nursery.stop()
            self._nursery = Nursery(self._born, self._loader_lost, self._equipment)
            try:
                await self._nursery.start()
            except LoaderError:
                await asyncio.sleep(_PAUSE_SECONDS[1])
            else:
                return


def described(leaks: tuple[str, ...]) -> str:
    """The sentence for an operator whose system cannot seal workers."""
    return (
        f"The analysis workers cannot be sealed on this system ({', '.join(leaks)} still possible); "
        "`unsealed: true` in guard.yml starts them all the same."
    )
