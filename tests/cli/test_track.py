"""`gatepost messages track`: what is asked for, and what is printed."""

import json
from collections.abc import Iterator
from typing import Any, Self

import pytest
from tests.command_line import run_command

from gatepost.api import examples
from gatepost.api.messages import FoundMessage, Timeline
from gatepost.cli.api_client import MessageService


class Client:
    """A service that has one message, whose subject would move the cursor of a terminal."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.found = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def messages(self, **filters: Any) -> Iterator[FoundMessage]:
        self.asked.append(filters)
        yield from examples.FOUND.messages[:1] * self.found

    def message_timeline(self, _ggrid: str) -> Timeline:
        return examples.TIMELINE


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    fake = Client()
    monkeypatch.setattr(MessageService, "connect", lambda _service: fake)
    return fake


def test_a_message_is_tracked_by_what_is_known(client: Client) -> None:
    code, out, _ = run_command("messages", "track", "4XyZ", "--recipient", "bob@example.com")
    assert code == 0
    assert client.asked == [{"anywhere": "4XyZ", "recipient": "bob@example.com"}]
    lines = out.splitlines()
    assert lines[0] == f"{examples.TIMELINE.ggrid}  Your account"
    assert lines[1] == "  from ann@company.example to bob@example.com"
    assert lines[2].startswith("  2026-11-15T10:00:00.000Z  Received over SMTP by the node mx1")
    code, out, _ = run_command("messages", "track", "--next-hop-id", "4AbC", "--json")
    assert json.loads(out)[0]["steps"][1]["queueId"] == "4AbC"
    assert client.asked[1] == {"next_hop_id": "4AbC"}


def test_no_message_and_no_question(client: Client) -> None:
    client.found = 0
    code, out, _ = run_command("messages", "track", "4XyZ")
    assert (code, out) == (1, "No such message is on record.\n")
    code, _, err = run_command("messages", "track")
    assert code == 2
    assert "say which message" in err
