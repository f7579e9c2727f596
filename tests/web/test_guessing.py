"""Guessing passwords and codes, with many requests at the same moment: no burst gets more tries than the limit, a right
guess waits like a wrong one, strangers lock nobody out, and what they send is small and waits in a short queue."""

import asyncio
import hashlib
import re
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from argon2 import PasswordHasher, extract_parameters
from tests.web.strangers import code_of, cookies_of, enter, new_address, post

from gatepost.abby import authenticator
from gatepost.abby.authenticator import Guesses
from gatepost.api import http
from gatepost.ids import new_id
from gatepost.policy.layers import MAX_MISTAKES, MAX_SUGGESTIONS
from gatepost.process import logs
from gatepost.rejudge.policies_in_force import with_layer
from gatepost.store.audit import CLI
from gatepost.store.sessions import ACCOUNT
from gatepost.web import credentials, forms
from gatepost.web.credentials import MAX_PARALLEL_HASHES, MAX_WAITING, PasswordHashes
from gatepost.web.forms import FormLimits
from gatepost.web.pages import policy, sign_in

WRONG = "not the password"


def at_once(number: int, call: Callable[[int], httpx.Response]) -> list[httpx.Response]:
    """The answers to so many calls that begin together."""
    ready = threading.Barrier(number)

    def run(index: int) -> httpx.Response:
        ready.wait(180)
        return call(index)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(run, range(number)))


def browser_of(answer: httpx.Response) -> str:
    """The cookie that marks the browser, without the session."""
    found = re.search(r"__Host-gatepost-browser-[0-9a-f]+=[^;]+", cookies_of(answer))
    assert found
    return found[0]


@pytest.fixture
def quick_turns(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """Turns of an address that last milliseconds; the delays that were given."""
    monkeypatch.setattr(authenticator, "FIRST_DELAY", 0.001)
    monkeypatch.setattr(authenticator, "LONGEST_DELAY", 0.004)
    monkeypatch.setattr(authenticator, "LONGEST_WAIT", 0.02)
    given: list[float | None] = []
    take = Guesses.take_turn

    def noted(self: Guesses, address: str) -> float | None:
        given.append(take(self, address))
        return given[-1]

    monkeypatch.setattr(Guesses, "take_turn", noted)
    return given


@pytest.mark.variant
def test_a_burst_of_passwords_gets_no_more_tries_than_the_limit(site: Any, somebody: str) -> None:
    known = browser_of(enter(site, somebody, site.password))
    answers = at_once(40, lambda _: enter(site, somebody, WRONG, known))
    assert {answer.status_code for answer in answers} <= {401, 503}
    assert site.attempts(somebody)["browser"] == 5
    assert enter(site, somebody, site.password, known).status_code == 401, "the sixth is not checked"


def test_a_burst_from_many_addresses_gets_no_more_tries_than_the_limit(site: Any, somebody: str) -> None:
    for _ in range(3):
        at_once(15, lambda _: enter(site, somebody, WRONG))
    while site.attempts(somebody)[ACCOUNT] < 20:
        enter(site, somebody, WRONG)
    assert site.attempts(somebody)[ACCOUNT] == 20
    assert enter(site, somebody, site.password).status_code == 401


def test_a_burst_of_codes_gets_no_more_tries_than_the_limit(site: Any, somebody: str) -> None:
    secret = credentials.new_totp_secret()
    uid = site.known(somebody).user.uid
    site.run(site.store.second_factors.set_totp(uid, secret, CLI))
    site.run(site.store.sessions.remember_browser(uid, hashlib.sha256(b"known").hexdigest(), 1))
    name = f"__Host-gatepost-browser-{hashlib.sha256(uid.encode()).hexdigest()[:16]}"
    known = f"{name}=known"
    half = f"{cookies_of(enter(site, somebody, site.password, known))}; {known}"
    assert not site.attempts(somebody).get("browser"), "the password was right"
    code = code_of(secret)
    wrong = str((int(code) + 500_000) % 10**6).zfill(6)
    answers = at_once(60, lambda _: post(site, "/sign-in/code", {"code": wrong}, half))
    assert {answer.status_code for answer in answers} == {401}
    assert site.attempts(somebody)["browser"] == 5
    assert post(site, "/sign-in/code", {"code": code}, half).status_code == 401
    assert post(site, "/sign-in", {"name": somebody, "password": site.password}, half).status_code == 401


def test_the_password_does_not_reset_what_is_counted_for_codes(site: Any, somebody: str) -> None:
    secret = credentials.new_totp_secret()
    uid = site.known(somebody).user.uid
    site.run(site.store.second_factors.set_totp(uid, secret, CLI))
    address = new_address()
    for number in range(1, 4):
        half = cookies_of(enter(site, somebody, site.password, address=address))
        assert post(site, "/sign-in/code", {"code": "x"}, half, address).status_code == 401
        assert site.attempts(somebody)["address"] == number


def test_one_stranger_does_not_lock_the_account(site: Any, somebody: str, quick_turns: list[float | None]) -> None:
    assert quick_turns == []
    address = new_address()
    for _ in range(12):
        enter(site, somebody, WRONG, address=address)
    assert site.attempts(somebody) == {ACCOUNT: 5, "address": 5}
    assert enter(site, somebody, site.password, address=address).status_code == 401, "from there it is locked"
    assert enter(site, somebody, site.password).status_code == 303


def test_a_browser_that_is_known_passes_the_lock_of_strangers(site: Any, somebody: str) -> None:
    known = browser_of(enter(site, somebody, site.password))
    other = browser_of(enter(site, site.new_user(), site.password))
    while site.attempts(somebody).get(ACCOUNT, 0) < 20:
        enter(site, somebody, WRONG)
    for cookie in ("", other, known.partition("=")[0] + "=guessed"):
        assert enter(site, somebody, site.password, cookie).status_code == 401
    answer = enter(site, somebody, site.password, known)
    assert answer.status_code == 303
    assert site.attempts(somebody)[ACCOUNT] == 20, "the lock stays for the strangers"


def test_the_cookie_of_a_browser_opens_nothing_by_itself(site: Any, somebody: str) -> None:
    answer = enter(site, somebody, site.password)
    given = next(each for each in answer.headers.get_list("set-cookie") if "-browser-" in each)
    for word in ("Secure", "HttpOnly", "SameSite=lax", "Path=/"):
        assert word in given
    page = httpx.get(f"{site.url}/account", headers={"Cookie": browser_of(answer)}, trust_env=False)
    assert page.status_code == 303


def test_a_right_guess_waits_like_a_wrong_one(
    site: Any, somebody: str, quick_turns: list[float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, waited = new_address(), list[float]()

    async def note(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(sign_in, "asyncio", SimpleNamespace(sleep=note))
    for _ in range(14):
        assert enter(site, f"nobody {new_id()}", WRONG, address=address).status_code == 401
    assert enter(site, somebody, site.password, address=address).status_code == 303
    assert len(quick_turns) == 15
    assert quick_turns[:5] == [0.0] * 5
    assert all(quick_turns[5:]), "the right one as well"
    assert waited == quick_turns[5:], "each waits for its turn before it is answered"
    enter(site, somebody, site.password)
    assert quick_turns[-1] == 0.0, "another address does not wait"


def test_a_burst_on_many_names_from_one_address_is_refused(
    site: Any, quick_turns: list[float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # So long that the burst is over before many of its turns have come, also where all of it takes seconds.
    monkeypatch.setattr(authenticator, "FIRST_DELAY", 3.0)
    monkeypatch.setattr(authenticator, "LONGEST_DELAY", 3.0)
    monkeypatch.setattr(authenticator, "LONGEST_WAIT", 3.3)
    address = new_address()
    answers = at_once(30, lambda number: enter(site, f"nobody {number} {new_id()}", WRONG, address=address))
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) == sum(turn is None for turn in quick_turns) >= 20
    assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)


def test_right_attempts_are_given_back() -> None:
    guesses = Guesses(lambda: 100.0)
    for _ in range(50):
        assert guesses.take_turn("192.0.2.1") == 0.0
        guesses.give_back("192.0.2.1")
    guesses.give_back("192.0.2.9")


def test_a_name_that_nobody_has_is_not_logged(site: Any, somebody: str) -> None:
    typed = f"my secret password {new_id()}"
    with logs.capture() as lines:
        enter(site, typed, "x")
        enter(site, somebody, WRONG)
    refused = [line for line in lines if line["event"] == "sign-in refused"]
    assert [line["user"] for line in refused] == [None, somebody]
    assert typed not in str(lines)


def test_a_name_that_nobody_has_costs_as_much_work(site: Any, somebody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that an answer takes does not tell whether there is such a user: what is put on the audit trail of a
    user's refused sign-in is written after the answer."""

    def changes(name: str) -> int:
        before: int = site.store.counters().changes
        assert enter(site, name, WRONG).status_code == 401
        after: int = site.store.counters().changes
        return after - before

    afterwards: list[Any] = []
    monkeypatch.setattr(sign_in, "BackgroundTask", lambda work, *_, **__: afterwards.append(work))
    assert changes(somebody) == changes(f"nobody {new_id()}") == 1
    assert len(afterwards) == 1


def test_the_form_of_a_stranger_is_small(site: Any) -> None:
    for path in ("/sign-in", "/sign-in/code"):
        assert post(site, path, {"name": "x", "password": "x" * (16 << 10)}).status_code == 413

    def pieces() -> Iterator[bytes]:
        for _ in range(40):
            yield b"%41" * 200

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = httpx.post(f"{site.url}/sign-in", content=pieces(), headers=headers, trust_env=False)
    assert answer.status_code == 413, "also without a length"


def test_the_slow_form_of_a_stranger_ends_early(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in, "STRANGER", FormLimits(16 << 10, idle_seconds=0.3, first_seconds=0.3))
    parts = urlsplit(site.url)
    with socket.create_connection((parts.hostname, parts.port), 30) as connection:
        connection.sendall(
            b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            b"Content-Length: 1000\r\n\r\nname=a"
        )
        assert b" 400 " in connection.recv(4096).partition(b"\r\n")[0]


def test_strangers_have_less_time_than_users() -> None:
    assert forms.STRANGER.size == 16 << 10
    assert (forms.SIGNED_IN.idle_seconds, forms.SIGNED_IN.first_seconds) == (None, None)
    assert forms.STRANGER.idle_seconds
    assert forms.STRANGER.idle_seconds < http.IDLE_SECONDS
    assert forms.STRANGER.first_seconds
    assert forms.STRANGER.first_seconds < http.FIRST_SECONDS


def test_a_large_form_is_parsed_off_the_event_loop(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    parse, threads = forms._parse_form, []

    def noted(body: bytearray) -> Any:
        threads.append((len(body) > forms.LARGE_FORM, threading.get_ident()))
        return parse(body)

    visitor = site.visitor("auditor")
    monkeypatch.setattr(forms, "_parse_form", noted)
    visitor.post("/policy", {"text": "x" * (1 << 20)})
    visitor.post("/policy", {"text": "x"})
    (large, small) = threads
    assert (large[0], small[0]) == (True, False)
    assert small[1] == site._thread.ident
    assert large[1] != site._thread.ident


def test_the_queue_of_password_checks_has_an_end() -> None:
    async def run() -> list[str]:
        passwords, release = PasswordHashes(), asyncio.Event()

        async def stays() -> bool:
            return False

        async def one() -> str:
            async with passwords.queue(stays) as place:
                if place == "ready":
                    await release.wait()
                return place

        waiting = [asyncio.create_task(one()) for _ in range(30)]
        await asyncio.wait(waiting[MAX_WAITING + MAX_PARALLEL_HASHES :])
        release.set()
        return list(await asyncio.gather(*waiting))

    places = asyncio.run(run())
    assert places.count("ready") == MAX_WAITING + MAX_PARALLEL_HASHES
    assert places.count("full") == 30 - MAX_WAITING - MAX_PARALLEL_HASHES


@contextmanager
def slow_hashes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Password checks that wait until the block ends; the passwords that were checked."""
    release, checked = threading.Event(), []

    def matches(_self: PasswordHashes, _kept: str, password: str) -> bool:
        checked.append(password)
        release.wait(180)
        return False

    monkeypatch.setattr(PasswordHashes, "_matches", matches)
    try:
        yield checked
    finally:
        release.set()


def test_a_full_queue_says_when_to_try_again(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadPoolExecutor(30) as pool, slow_hashes(monkeypatch) as checked:
        calls = [pool.submit(enter, site, f"nobody {number}", WRONG) for number in range(30)]
        full = 30 - MAX_WAITING - MAX_PARALLEL_HASHES
        wait_until(lambda: sum(call.done() for call in calls) >= full)
        refused = [call.result() for call in calls if call.done()]
        assert [answer.status_code for answer in refused] == [503] * full
        assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
        # Their threads may begin later than others are refused.
        wait_until(lambda: len(checked) == MAX_PARALLEL_HASHES)
    assert sorted(call.result().status_code for call in calls) == [401] * (30 - full) + [503] * full


def test_checks_of_clients_that_left_are_dropped(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = urlsplit(site.url)
    body = b"name=nobody&password=left"
    with slow_hashes(monkeypatch) as checked:
        connections = []
        for _ in range(MAX_PARALLEL_HASHES + 8):
            connection = socket.create_connection((parts.hostname, parts.port), 30, (new_address(), 0))
            connection.sendall(
                b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            connections.append(connection)
        wait_until(lambda: len(checked) == MAX_PARALLEL_HASHES)
        for connection in connections:
            connection.close()
        # A request after theirs: when it is answered, the server has seen all of them leave.
        assert httpx.get(f"{site.url}/healthz", trust_env=False).status_code == 200
    assert enter(site, "nobody", WRONG).status_code == 401
    assert checked.count("left") == MAX_PARALLEL_HASHES


def wait_until(is_done: Callable[[], bool]) -> None:
    end = time.monotonic() + 180
    while not is_done():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_hash_of_other_parameters_is_checked_and_renewed(site: Any) -> None:
    name = f"old {new_id()}"
    old = PasswordHasher(time_cost=1, memory_cost=64, parallelism=4).hash(site.password)
    site.run(site.store.users.create(name, "analyst", None, old, CLI))
    assert enter(site, name, WRONG).status_code == 401
    assert site.known(name).password == old
    assert enter(site, name, site.password).status_code == 303
    wait_until(lambda: site.known(name).password != old)
    renewed = site.known(name).password
    assert extract_parameters(renewed).parallelism == 1
    assert enter(site, name, site.password).status_code == 303
    assert site.known(name).password == renewed


def test_new_hashes_cost_what_the_standard_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second recommended choice of RFC 9106 section 4, on one core."""
    monkeypatch.setattr(credentials, "PasswordHasher", PasswordHasher)
    hashed: Awaitable[str] = PasswordHashes().hash("x")
    made = extract_parameters(asyncio.run(hashed))  # type: ignore[arg-type]
    assert (made.time_cost, made.memory_cost, made.parallelism) == (3, 64 << 10, 1)


def test_a_policy_of_mistakes_is_read_off_the_event_loop_and_not_to_its_end(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, threads = with_layer, []

    def noted(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return read(*arguments)

    monkeypatch.setattr(policy, "with_layer", noted)
    text = "".join(f'[kinds."text:urgenc{number}"]\n' for number in range(3_500))
    answer = site.visitor("auditor", site.new_tenant()).post("/policy", {"text": text})
    assert answer.status_code == 400
    assert answer.text.count("is not a known finding") == MAX_MISTAKES
    assert answer.text.count("did you mean") <= MAX_SUGGESTIONS
    assert threads
    assert site._thread.ident not in threads
