"""`gatepost demo` fills a new service with a day of mail, the same for the same seed, and leaves others alone."""

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.data_folders import with_store

from gatepost.cli.demo import load_content, write_mail
from gatepost.store.held_search import HeldFilter
from gatepost.store.recipients import RequestFilter
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.store import Store

DAY = 86_400_000
TENANTS = [("one", "one.example"), ("two", "two.example")]


def test_the_same_seed_writes_the_same_mail() -> None:
    first = list(write_mail(100, 1, 2 * DAY, TENANTS))
    assert first == list(write_mail(100, 1, 2 * DAY, TENANTS))
    assert first != list(write_mail(100, 2, 2 * DAY, TENANTS))
    assert [mail.time for mail in first] == sorted(mail.time for mail in first)
    assert all(DAY <= mail.time < 2 * DAY for mail in first)
    assert {mail.tenant for mail in first} == {"one", "two"}
    assert all(mail.sender.endswith(".example") and mail.recipient.endswith(".example") for mail in first)


def test_every_template_is_used() -> None:
    templates = load_content().mail
    senders = Counter(mail.sender.rpartition("@")[2] for mail in write_mail(len(templates), 1, DAY, TENANTS))
    assert senders == Counter(each.sender.rpartition("@")[2].rstrip(">") for each in templates)


@pytest.mark.process
def test_a_new_service_is_filled_once(run: Run, data: Path) -> None:
    _, out, _ = run("demo", "--messages", "40", "--json")
    said = json.loads(out)
    assert said["messages"] == 40
    assert {"clean", "phishing", "malware", "fraud", "policy"} <= said["verdicts"].keys()

    async def look(store: Store) -> tuple[int, int, int, int]:
        found = await store.messages.count(MessageFilter())
        held = await store.quarantine.search(HeldFilter())
        content = await store.quarantine.content(held.rows[0].record.ggrid)
        requests = await store.recipients.requests(RequestFilter())
        return found.messages, len(held.rows), len(content or b""), len(requests.rows)

    messages, held, content, requests = with_store(data, look)
    assert messages == 40
    assert held >= 10
    assert content > 100
    assert requests >= 1
    code, _, fault = run("demo")
    assert code == 1
    assert "has tenants or mail already" in fault
