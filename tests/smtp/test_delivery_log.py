"""What next hops answer: the id in a reply, what is kept of it, and what becomes of it while storage is away."""

from collections.abc import Sequence
from typing import Any

import pytest

from gatepost.smtp import hop_answers
from gatepost.smtp.hop_answers import DeliveryLog, find_queue_id, render_reply
from gatepost.smtp.replies import SmtpReply
from gatepost.store.errors import StorageError
from gatepost.store.message_records import MAX_REPLY, Delivery

MESSAGE = (
    b"Received: from border (border [192.0.2.9])\r\n\tby border with ESMTP id 4BoRdEr1\r\n\tfor <b@y.example>; Mon\r\n"
    b"X: y\r\n\r\ny\r\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.0.0 Ok: queued as ABC123", "ABC123"),
        ("2.0.0 from MTA(smtp:[127.0.0.1]:10025): 250 2.0.0 Ok: queued as 4XyZ1k2M3n", "4XyZ1k2M3n"),
        ("OK id=1tAbCd-00000001234-5xYz", "1tAbCd-00000001234-5xYz"),
        ("2.6.0 <a@b.example> [InternalId=12345678901, Hostname=mx.example] Queued mail for delivery", "12345678901"),
        ("2.0.0 4AFA0Xyz012345 Message accepted for delivery", "4AFA0Xyz012345"),
        ("2.0.0 a1b2c3d4 Message accepted for delivery", "a1b2c3d4"),
        ("2.0.0 <bob@y.example> aBcDeFgHiJkLm Saved", "aBcDeFgHiJkLm"),
        ("ok 1700000000 qp 12345", "1700000000 qp 12345"),
        ("2.0.0 OK  1700000000 d9443c01a7336-1b2si123.45 - gsmtp", "d9443c01a7336-1b2si123.45"),
        ("2.6.0 Accepted, reference 0198c5a2-7c11-7d3e-9f00-00000000aa01", "0198c5a2-7c11-7d3e-9f00-00000000aa01"),
        ("ok:  Message 987654 accepted", "987654"),
        ("Message Queued (2F6B-77)", "2F6B-77"),
        ("2.0.0 Ok: queued", ""),
        ("2.0.0 Ok", ""),
        ("", ""),
        ("2.0.0 queued as <script>", ""),
        ("id=" * 5_000, ""),
    ],
)
def test_the_id_in_a_reply(text: str, expected: str) -> None:
    assert find_queue_id(SmtpReply(250, (text.encode(),))) == expected
    assert find_queue_id(SmtpReply(451, (text.encode(),))) == ""


def test_a_reply_is_cut_and_made_harmless() -> None:
    hostile = SmtpReply(250, (b"2.0.0 \x1b[31mred\xff", b"x" * 5_000))
    assert render_reply(hostile).startswith("2.0.0 ?[31mred? xxx")
    assert len(render_reply(hostile)) == MAX_REPLY
    assert render_reply(SmtpReply(250, ())) == ""


class Store:
    def __init__(self) -> None:
        self.fault = False
        self.kept: list[Delivery] = []

    async def record_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        if self.fault:
            raise StorageError("away")
        self.kept += deliveries


async def test_what_storage_does_not_take_waits_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hop_answers, "MAX_WAITING", 5)
    monkeypatch.setattr(hop_answers, "BATCH", 2)
    store = Store()
    noted = DeliveryLog(store.record_deliveries)
    store.fault = True
    for number in range(7):
        noted.note(Delivery(str(number), number, "hop", 250, "ok"))
    with pytest.raises(StorageError):
        await noted.flush()
    assert (store.kept, noted.written, noted.dropped) == ([], 0, 2)
    store.fault = False
    await noted.stop()
    assert [each.ggrid for each in store.kept] == list("23456")
    assert noted.written == 5


class Notes(list[Delivery]):
    def note(self, delivery: Delivery) -> None:
        self.append(delivery)


async def send(gate: Any, raw: bytes = MESSAGE, *, ident: str = "") -> str:
    client = await gate.connect()
    await client.say("EHLO c")
    if ident:
        assert (await client.say(f"XFORWARD ADDR=192.0.2.9 IDENT={ident}")).startswith("250")
    await client.up_to_data()
    answer: str = await client.say(raw + b".\r\n")
    return answer


async def test_what_the_next_hop_says_is_noted_and_where_the_message_came_from(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop, listed=("127.0.0.1",)) as gate:
        gate.services.deliveries = notes = Notes()
        next_hop.says["dot"] = "250 2.0.0 Ok: queued as 4NeXt"
        assert await send(gate, ident="4Ident") == "250 2.0.0 Ok: queued as 4NeXt"
        next_hop.says["dot"] = "451 4.3.0 Full"
        assert await send(gate) == "451 4.3.0 Full"
        next_hop.says["dot"] = None
        assert (await send(gate, ident="bad+20ident")).startswith("451 4.4.2")
        gate.guard.decision = "quarantine"
        assert (await send(gate)).startswith("250")

        asked = gate.guard.scanned
        assert [each.queue_id for each in asked] == ["4Ident", "4BoRdEr1", "", "4BoRdEr1"]
        assert {each.client for each in asked} == {"127.0.0.1"}
        url = gate.relay.url
        assert [(each.next_hop, each.code, each.reply, each.queue_id) for each in notes] == [
            (url, 250, "2.0.0 Ok: queued as 4NeXt", "4NeXt"),
            (url, 451, "4.3.0 Full", ""),
            (url, 0, "the next hop closed the connection", ""),
        ]
        assert [each.ggrid for each in notes] == [each.ggrid for each in asked[:3]]


async def test_without_a_next_hop_that_is_what_is_noted(deployment: Any) -> None:
    async with deployment() as gate:
        gate.services.deliveries = notes = Notes()
        assert (await send(gate)).startswith("451 4.3.5")
        assert [(each.next_hop, each.code, each.reply) for each in notes] == [("", 0, "no next hop is configured")]
