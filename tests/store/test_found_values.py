"""What a search finds at a glance, on both engines, on record and held: values are counted as a search finds them."""

import random

import pytest
from tests.store.test_search_expressions import MINE, PLACE, make_record, parse

from gatepost.store import messages, quarantine
from gatepost.store.held_search import HeldFilter
from gatepost.store.search_conditions import MessageFilter, RecordFacts, fits
from gatepost.store.search_language import SearchFault, parse_search, write_term
from gatepost.store.store import Store


async def test_every_value_is_counted_as_a_search_finds_it(store: Store) -> None:
    chance = random.Random(3)
    records = [make_record(number, chance) for number in range(40)]

    for record in records:
        await store.messages.record(record)
        await store.quarantine.hold(record)
    for text in ("", "verdict:spam OR score>5", "NOT host:imgur", "to:corp.example", "url:evil.example/login"):
        query = parse(text)
        expected = [each for each in records if fits(query, RecordFacts(each.ggrid, each.completed, each.detail))]
        on_record = await store.messages.explore(MessageFilter(query=query))
        held = await store.quarantine.explore(HeldFilter(query=query))
        again = await store.quarantine.explore(HeldFilter(query=query), [each.ggrid for each in expected])
        for found in (on_record, held, again):
            assert (found.counted, found.more) == (len(expected), False), text
            assert len(found.times) == len(expected)
            for facet, values in found.facets.items():
                for value, count in values:
                    term = parse_search(write_term(facet, value), _place(value))
                    assert not isinstance(term, SearchFault), (facet, value)
                    having = [each for each in expected if fits(term, RecordFacts(each.ggrid, 0, each.detail))]
                    # Rows have the first 20 recipients of a message.
                    assert len(having) == count or facet == "to", (text, facet, value)
        assert {"verdict", "host", "file", "ip", "tag", "to", "sender", "tenant"} <= on_record.facets.keys()


def _place(value: str):  # type: ignore[no-untyped-def]
    import msgspec

    return msgspec.structs.replace(PLACE, tenants={value: value})


async def test_what_was_not_counted_is_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(4)
    records = [make_record(number, chance) for number in range(12)]
    for module in (messages, quarantine):
        monkeypatch.setattr(module, "COUNTED", 5)

    for record in records:
        await store.messages.record(record)
        await store.quarantine.hold(record)
    found = await store.messages.explore(MessageFilter())
    assert (found.counted, found.more, found.reached) == (5, True, records[-5].completed)
    held = await store.quarantine.explore(HeldFilter())
    assert (held.counted, held.more) == (5, True)
    mine = sum(each.envelope.tenant == MINE for each in records)
    found = await store.messages.explore(MessageFilter(tenant=MINE))
    assert (found.counted, found.more) == (min(mine, 5), mine > 5)
