"""A receiver of webhooks for each test that asks for one."""

import threading
from collections.abc import Iterator

import pytest
from tests.events.receivers import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()
