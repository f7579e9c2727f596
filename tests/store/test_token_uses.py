"""The last uses of tokens and keys, on both engines: the newest wins, one write a minute, and an address."""

from tests.store.conftest import Use
from tests.store.test_second_factors import ROOT

from gatepost.store import token_uses
from gatepost.store.api_keys import ApiKey
from gatepost.store.store import Store
from gatepost.store.token_uses import TokenUse


def test_the_newest_use_wins(use: Use) -> None:
    async def scenario(store: Store) -> None:
        assert await store.token_uses() == {}
        await store._set_token_use("mta", 200, "192.0.2.2")
        await store._set_token_use("mta", 100, "192.0.2.1")
        await store._set_token_use("other", 50, "x" * 1_000)
        uses = await store.token_uses()
        assert uses["mta"] == TokenUse("mta", 200, "192.0.2.2"), "another node was later"
        assert len(uses["other"].address) == token_uses.MAX_TEXT

    use(scenario)


def test_a_use_is_written_once_a_minute(use: Use) -> None:
    async def scenario(store: Store) -> None:
        before = store.counters().changes
        for number in range(1_000):
            store.note_token_use("mta", f"192.0.2.{number % 200}")
        store.note_token_use("other", "")
        await store._finish_writing_token_uses()
        assert store.counters().changes - before == 2
        assert {name: each.address for name, each in (await store.token_uses()).items()} == {
            "mta": "192.0.2.0",
            "other": "",
        }
        store._token_uses["mta"] -= token_uses.USE_MILLISECONDS
        store.note_token_use("mta", "192.0.2.7")
        await store._finish_writing_token_uses()
        assert (await store.token_uses())["mta"].address == "192.0.2.7"

    use(scenario)


def test_the_address_of_an_api_key(use: Use) -> None:
    async def scenario(store: Store) -> None:
        made = await store.create_api_key("k", None, True, None, ROOT)
        assert isinstance(made, tuple)
        assert isinstance(await store.api_key(made[0], "192.0.2.9"), ApiKey)
        await store._finish_writing_uses()
        (key,) = await store.api_keys()
        assert (bool(key.last_used), key.last_address) == (True, "192.0.2.9")

    use(scenario)
