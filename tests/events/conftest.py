"""A receiver of webhooks for each test that asks for one, and outputs that try again soon."""

import threading
from collections.abc import Iterator

import pytest
from tests.events.receivers import Receiver

from gatepost.events import output


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(output, "LONGEST_WAIT", 0.02)
