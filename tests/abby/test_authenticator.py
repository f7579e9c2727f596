import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from gatepost.abby import authenticator
from gatepost.abby.authenticator import Authenticator, Caller, Guesses, Tokens
from gatepost.api.errors import Failure
from gatepost.settings.keys import StaticApiTokenSettings

TOKENS = Tokens(
    [
        StaticApiTokenSettings(name="one", token="secret-one"),
        StaticApiTokenSettings(name="two", token="secret two", permissions=["messages.read"]),
    ]
)


def request(*values: bytes, host: str = "192.0.2.1") -> Request:
    headers = [(b"authorization", value) for value in values]
    return Request({"type": "http", "headers": headers, "client": (host, 1)})


def enter(door: Authenticator, *values: bytes, host: str = "192.0.2.1") -> Caller | Failure:
    return asyncio.run(door.enter(request(*values, host=host)))


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ((b"Bearer secret-one",), "one"),
        ((b"bearer   secret-one ",), "one"),
        ((b"Bearer secret two",), "two"),
        ((), None),
        ((b"",), None),
        ((b"Bearer",), None),
        ((b"Bearer ",), None),
        ((b"secret-one",), None),
        ((b"apikey secret-one",), None),
        ((b"Bearer secret-on",), None),
        ((b"Bearer secret-one2",), None),
        ((b"Bearer SECRET-ONE",), None),
        ((b"Bearer secret-one secret-one",), None),
        ((b"Bearer secret-one", b"Bearer secret-one"), None),
    ],
)
def test_who_enters(values: tuple[bytes, ...], name: str | None) -> None:
    found = enter(Authenticator(TOKENS, Guesses(lambda: 0.0)), *values)
    if name is None:
        assert isinstance(found, Failure)
        assert found.error.status == 401
        assert found.headers[0][0] == "WWW-Authenticate"
        assert found.headers[0][1].startswith("Bearer")
    else:
        assert isinstance(found, Caller)
        assert found.name == name


def test_uses_are_told_with_the_address() -> None:
    told: list[tuple[str, str]] = []
    door = Authenticator(TOKENS, Guesses(lambda: 0.0), lambda name, address: told.append((name, address)))
    enter(door, b"Bearer secret-one", host="192.0.2.7")
    enter(door, b"Bearer wrong", host="192.0.2.8")
    enter(door, b"Bearer secret two", host="2001:db8::1")
    assert told == [("one", "192.0.2.7"), ("two", "2001:db8::1")]


def test_permissions() -> None:
    one, two = TOKENS.find(b"secret-one"), TOKENS.find(b"secret two")
    assert one is not None
    assert two is not None
    assert two.may("messages.read") is None
    for refusal in (one.may("messages.read"), two.may("messages.release")):
        assert refusal is not None
        assert refusal.error.code == "forbidden"


def test_every_token_is_compared_whichever_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return one == other

    monkeypatch.setattr("gatepost.abby.authenticator.hmac.compare_digest", compare)
    for presented in (b"secret-one", b"nothing", b""):
        compared.clear()
        TOKENS.find(presented)
        assert len(compared) == 2


def test_guesses_wait_longer_and_longer_up_to_a_bound() -> None:
    guesses = Guesses(lambda: 100.0)
    delays = [guesses.delay("192.0.2.1", None) for _ in range(40)]
    assert delays[:5] == [0.0] * 5
    assert delays[5:] == sorted(delays[5:])
    assert 0 < delays[5] < delays[6]
    assert max(delays) == authenticator.LONGEST_WAIT
    assert guesses.delay("192.0.2.2", None) == 0.0


def test_a_right_guess_waits_like_a_wrong_one_but_a_known_token_does_not() -> None:
    guesses, one = Guesses(lambda: 100.0), TOKENS.find(b"secret-one")
    two = TOKENS.find(b"secret two")
    assert one is not None
    guesses.trust("192.0.2.1", one)
    for _ in range(10):
        guesses.delay("192.0.2.1", None)
    assert guesses.delay("192.0.2.1", one) == 0.0
    assert guesses.delay("192.0.2.1", two) > 0.0
    assert guesses.delay("192.0.2.9", two) == 0.0


def test_wrong_guesses_are_forgotten_in_time() -> None:
    now = 100.0
    guesses = Guesses(lambda: now)
    for _ in range(10):
        guesses.delay("192.0.2.1", None)
    now += authenticator.FORGET_SECONDS + 1
    assert guesses.delay("192.0.2.1", None) == 0.0


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authenticator, "MAX_ADDRESSES", 10)
    guesses = Guesses(lambda: 100.0)
    for number in range(100):
        guesses.delay(f"192.0.2.{number}", None)
    assert len(guesses._wrong) == 10


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:aaaa::1", "2001:0db8:0001:0002"),
        ("2001:db8:1:2:bbbb::2", "2001:0db8:0001:0002"),
        ("unix", "unix"),
    ],
)
def test_whom_a_guess_is_counted_against(host: str, counted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Listening(Guesses):
        def delay(self, address: str, caller: Caller | None) -> float:
            asked.append(address)
            return 0.0

    door: Any = Authenticator(TOKENS, Listening(lambda: 0.0))
    enter(door, b"Bearer wrong", host=host)
    assert asked == [counted]


def test_an_attempt_that_was_right_is_given_back() -> None:
    guesses = Guesses(lambda: 100.0)
    assert [guesses.take_turn("192.0.2.9") for _ in range(2)] == [0.0, 0.0]
    guesses.give_back("192.0.2.9")
    assert guesses.wrong("192.0.2.9").count == 1
