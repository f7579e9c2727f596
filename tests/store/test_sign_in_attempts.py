"""Attempts to sign in, on both engines: taken before they are checked, given back, and never a lock by others."""

import asyncio

import pytest
from tests.store.accounts import ROOT, new_analyst, new_tenant
from tests.store_reading import read_attempts

from gatepost.store.sessions import (
    ACCOUNT,
    HOUR,
    MAX_KNOWN_BROWSERS,
    Lockout,
    SignInAttempt,
    address_source,
    browser_source,
    lockout_wait,
)
from gatepost.store.store import Store

HERE, THERE = address_source("192.0.2.1"), address_source("192.0.2.2")


@pytest.mark.parametrize(
    ("failures", "wait"), [(1, 0), (4, 0), (5, 30), (6, 60), (7, 120), (11, 1_920), (12, 3_600), (10_000, 3_600)]
)
def test_waiting_doubles(failures: int, wait: int) -> None:
    assert lockout_wait(failures, Lockout()) == wait * 1_000


async def test_any_number_at_the_same_moment_get_no_more_than_the_limit(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    taken = await asyncio.gather(*(store.sessions.take_attempt(ann.uid, HERE, 1_000) for _ in range(60)))
    assert sum(attempt is not None for attempt in taken) == 5
    assert await read_attempts(store, ann.uid) == {ACCOUNT: (5, 0), HERE: (5, 31_000)}
    many = [address_source(f"198.51.100.{number}") for number in range(60)]
    taken = await asyncio.gather(*(store.sessions.take_attempt(ann.uid, source, 1_000) for source in many))
    assert sum(attempt is not None for attempt in taken) == 15
    assert (await read_attempts(store, ann.uid))[ACCOUNT] == (20, 31_000)


async def test_a_running_lock_is_not_extended(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    for _ in range(5):
        assert await store.sessions.take_attempt(ann.uid, HERE, 0)
    for moment in (0, 10_000, 29_999):
        assert await store.sessions.take_attempt(ann.uid, HERE, moment) is None
    assert await read_attempts(store, ann.uid) == {ACCOUNT: (5, 0), HERE: (5, 30_000)}
    assert await store.sessions.take_attempt(ann.uid, THERE, 10_000), "another address is not locked"
    assert await store.sessions.take_attempt(ann.uid, HERE, 30_000)
    assert (await read_attempts(store, ann.uid))[HERE] == (6, 90_000)


async def test_an_attempt_that_was_right_is_given_back_with_its_own_lock(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    wrong = [await store.sessions.take_attempt(ann.uid, HERE, 0) for _ in range(4)]
    assert all(wrong)
    right = await store.sessions.take_attempt(ann.uid, HERE, 0)
    assert isinstance(right, SignInAttempt)
    await store.sessions.give_back_attempt(right)
    assert await read_attempts(store, ann.uid) == {ACCOUNT: (4, 0), HERE: (4, 0)}
    right = await store.sessions.take_attempt(ann.uid, HERE, 0)
    assert isinstance(right, SignInAttempt)
    await store.sessions.finish_attempt(right, 0)
    assert await read_attempts(store, ann.uid) == {ACCOUNT: (4, 0)}


async def test_a_success_does_not_lift_the_lock_of_others(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    right = await store.sessions.take_attempt(ann.uid, HERE, 0)
    assert isinstance(right, SignInAttempt)
    for number in range(19):
        assert await store.sessions.take_attempt(ann.uid, address_source(str(number)), 0)
    await store.sessions.finish_attempt(right, 0)
    assert (await read_attempts(store, ann.uid))[ACCOUNT] == (19, 30_000)


async def test_one_address_never_locks_the_account(store: Store) -> None:
    """Whoever guesses from one address for three days, as often as it is let."""
    ann = await new_analyst(store, "ann")
    moment, tries = 0, 0
    while moment < 72 * HOUR:
        if await store.sessions.take_attempt(ann.uid, HERE, moment):
            tries += 1
        now = await read_attempts(store, ann.uid)
        assert now[ACCOUNT][1] == 0, "the account as a whole is open"
        moment = max(moment, now[HERE][1])
    assert tries < 5 + 8 + 72
    assert await store.sessions.take_attempt(ann.uid, THERE, moment)


async def test_a_known_browser_passes_the_locks_of_others_and_has_one_of_its_own(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    for number in range(20):
        await store.sessions.take_attempt(ann.uid, address_source(str(number)), 0)
    assert await store.sessions.take_attempt(ann.uid, HERE, 0) is None
    mine = browser_source("digest")
    taken = await asyncio.gather(*(store.sessions.take_attempt(ann.uid, mine, 0) for _ in range(20)))
    assert sum(attempt is not None for attempt in taken) == 5
    assert (await read_attempts(store, ann.uid))[ACCOUNT] == (20, 30_000)


async def test_failures_are_forgotten_one_in_an_hour(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    for _ in range(4):
        await store.sessions.take_attempt(ann.uid, HERE, 0)
    await store.sessions.take_attempt(ann.uid, HERE, HOUR + HOUR // 2)
    assert (await read_attempts(store, ann.uid))[HERE][0] == 4
    await store.sessions.take_attempt(ann.uid, HERE, 2 * HOUR)
    assert (await read_attempts(store, ann.uid))[HERE][0] == 4, "half hours count too"
    await store.sessions.take_attempt(ann.uid, HERE, 40 * HOUR)
    assert (await read_attempts(store, ann.uid))[HERE][0] == 1
    await store.sessions.take_attempt(ann.uid, HERE, 1)
    counted = await read_attempts(store, ann.uid)
    assert counted[HERE][0] == 2, "a clock that goes back forgets nothing and adds nothing"


async def test_browsers_are_known_for_one_user_and_not_without_number(store: Store) -> None:
    ann, bob = await new_analyst(store, "ann"), await new_analyst(store, "bob")
    for number in range(MAX_KNOWN_BROWSERS + 3):
        await store.sessions.remember_browser(ann.uid, f"d{number}", number)
    known = [await store.sessions.is_known_browser(ann.uid, f"d{number}") for number in range(MAX_KNOWN_BROWSERS + 3)]
    assert known == [False] * 3 + [True] * MAX_KNOWN_BROWSERS
    assert not await store.sessions.is_known_browser(bob.uid, "d9")
    await store.sessions.remember_browser(bob.uid, "b", 1)
    await store.users.set_password(ann.uid, "new", ROOT, keep_browser="d9")
    assert await store.sessions.is_known_browser(ann.uid, "d9")
    assert not await store.sessions.is_known_browser(ann.uid, "d10")
    assert await store.sessions.is_known_browser(bob.uid, "b")


async def test_a_new_password_lifts_locks_and_a_user_leaves_nothing_behind(store: Store) -> None:
    tenant = await new_tenant(store)
    ann, bob = await new_analyst(store, "ann"), await new_analyst(store, "bob", tenant.uid)
    for user in (ann, bob):
        for _ in range(5):
            await store.sessions.take_attempt(user.uid, HERE, 0)
        await store.sessions.remember_browser(user.uid, "d", 1)
    await store.users.set_password(ann.uid, "new", ROOT)
    assert await read_attempts(store, ann.uid) == {}
    await store.sessions.take_attempt(ann.uid, HERE, 0)
    await store.sessions.remember_browser(ann.uid, "d", 1)
    await store.users.delete(ann.uid, ROOT)
    await store.tenants.delete(tenant.uid, ROOT)
    for user in (ann, bob):
        assert await read_attempts(store, user.uid) == {}
        assert not await store.sessions.is_known_browser(user.uid, "d")
