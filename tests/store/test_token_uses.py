"""The last uses of tokens and keys, on both engines: the newest wins, one write a minute, and an address."""

from tests.store.accounts import ROOT

from gatepost.store import api_keys
from gatepost.store.api_keys import ApiKey, TokenUse
from gatepost.store.store import Store


async def test_the_newest_use_wins(store: Store) -> None:
    assert await store.api_keys.token_uses() == {}
    await store.api_keys._set_token_use("mta", 200, "192.0.2.2")
    await store.api_keys._set_token_use("mta", 100, "192.0.2.1")
    await store.api_keys._set_token_use("other", 50, "x" * 1_000)
    uses = await store.api_keys.token_uses()
    assert uses["mta"] == TokenUse("mta", 200, "192.0.2.2"), "another node was later"
    assert len(uses["other"].address) == api_keys.MAX_ADDRESS


async def test_a_use_is_written_once_a_minute(store: Store) -> None:
    before = store.counters().changes
    for number in range(1_000):
        store.api_keys.note_token_use("mta", f"192.0.2.{number % 200}")
    store.api_keys.note_token_use("other", "")
    await store.api_keys.finish_writing()
    assert store.counters().changes - before == 2
    assert {name: each.address for name, each in (await store.api_keys.token_uses()).items()} == {
        "mta": "192.0.2.0",
        "other": "",
    }
    store.api_keys._token_uses._noted["mta"] -= api_keys.USE_MILLISECONDS
    store.api_keys.note_token_use("mta", "192.0.2.7")
    await store.api_keys.finish_writing()
    assert (await store.api_keys.token_uses())["mta"].address == "192.0.2.7"


async def test_the_address_of_an_api_key(store: Store) -> None:
    made = await store.api_keys.create("k", None, True, None, ROOT)
    assert isinstance(made, tuple)
    assert isinstance(await store.api_keys.authenticate(made[0], "192.0.2.9"), ApiKey)
    await store.api_keys.finish_writing()
    (key,) = await store.api_keys.all()
    assert (bool(key.last_used), key.last_address) == (True, "192.0.2.9")
