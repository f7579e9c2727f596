"""A burst is near-copies to many recipients within the window, and memory has an end."""

from gatepost.guard.answers.campaigns import Campaigns
from gatepost.mail.message import Envelope
from gatepost.questions import AskCampaign, Campaign

TEXT = AskCampaign(tuple(range(1, 9)))
COPY = AskCampaign((*range(1, 8), 99))
OTHER = AskCampaign(tuple(range(11, 19)))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def to(name: str) -> Envelope:
    return Envelope("a@b.example", (f"{name}@c.example",))


def test_recipients_of_near_copies_are_counted() -> None:
    seen = Campaigns(Clock())
    assert seen.answer(to("ann"), TEXT) == Campaign(0, 0)
    assert seen.answer(to("bob"), COPY) == Campaign(1, 1)
    assert seen.answer(to("cid"), OTHER) == Campaign(0, 0)
    assert seen.answer(to("dan"), TEXT) == Campaign(2, 2)


def test_the_same_recipient_again_is_no_burst() -> None:
    seen = Campaigns(Clock())
    for _ in range(5):
        answer = seen.answer(to("Ann"), TEXT)
    assert answer == Campaign(4, 0)
    assert seen.answer(to("ann"), TEXT).recipients == 0


def test_what_is_older_than_the_window_is_forgotten() -> None:
    clock = Clock()
    seen = Campaigns(clock, window=100)
    seen.answer(to("ann"), TEXT)
    clock.now = 101
    assert seen.answer(to("bob"), TEXT) == Campaign(0, 0)
    assert len(seen) == 1


def test_memory_is_bounded() -> None:
    seen = Campaigns(Clock(), maximum=10)
    for number in range(50):
        seen.answer(to(str(number)), AskCampaign(tuple(range(number * 8, number * 8 + 8))))
    assert len(seen) <= 10
    assert len(seen._by_hash) <= 80


def test_a_text_without_a_signature_is_not_remembered() -> None:
    seen = Campaigns(Clock())
    seen.answer(to("ann"), AskCampaign(()))
    assert len(seen) == 0
