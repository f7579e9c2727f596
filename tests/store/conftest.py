"""Records to keep."""

from collections.abc import Callable

import pytest

from gatepost.analysis import Report
from gatepost.mail.message import Envelope
from gatepost.store.ids import uuid7
from gatepost.store.interface import MessageRecord

NewRecord = Callable[..., MessageRecord]


@pytest.fixture
def new_record() -> NewRecord:
    def made(
        ggrid: str = "", completed: int = 2_000, subject: str = "Hello", tenant: str | None = None
    ) -> MessageRecord:
        report = Report("spam", "quarantine", ("text:lure", "url:homograph"), 730, "it adds up", subject=subject)
        envelope = Envelope("a@sender.example", ("b@rcpt.example", "ü@rcpt.example"), "192.0.2.1", "mx", tenant)
        return MessageRecord(ggrid or uuid7(), 1_000, completed, envelope, 1_234, "ab" * 32, report)

    return made
