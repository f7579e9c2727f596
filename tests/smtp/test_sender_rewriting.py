"""SRS: senders of strangers leave as ours, bounces find their way back, and nobody else can use the addresses."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError
from tests.clock import Clock
from tests.smtp.sender_counts import sender_counts

from gatepost.settings.scan_sources import SenderRewritingSettings
from gatepost.smtp.client import OutboundTenants
from gatepost.smtp.outbound import HourlyLimits, Outbound, SenderLimits
from gatepost.smtp.routing import Relay, Routing
from gatepost.smtp.sender_rewriting import MAX_DAYS, SenderRewriting

KEY, OTHER = "a key of some length", "another key of that length"
SRS = "srs.own.example"
DAY = 86_400.0


def make(*keys: str, domain: str = SRS, clock: Callable[[], float] | None = None) -> SenderRewriting:
    return SenderRewriting(domain, keys or (KEY,), ("own.example",), clock or Clock(1_763_300_000.0))


@pytest.mark.parametrize(
    "address",
    [
        "ann@x.example",
        "Ann.B+tag@X.example",
        "a=b=c@x.example",
        '"quoted one"@x.example',
        "prvs=1234abcdef=ann@x.example",
        "bounce-1=ann=own.example@list.x.example",
        "ünï@x.example",
        "srs@x.example",
    ],
)
def test_there_and_back(address: str) -> None:
    rewriting = make()
    made = rewriting.rewrite(address)
    assert made.startswith("SRS0=")
    assert made.endswith(f"@{SRS}")
    assert rewriting.is_rewritten(made)
    assert rewriting.reverse(made) == address
    assert (rewriting.rewritten, rewriting.returned) == (1, 1)
    # On the way, letters may lose their case.
    assert (rewriting.reverse(made.lower()) or "").lower() == address.lower()


def test_the_form() -> None:
    made = make().rewrite("ann@x.example")
    kind, digest, day, domain, local = made.removesuffix(f"@{SRS}").split("=")
    assert (kind, len(digest), len(day), domain, local) == ("SRS0", 8, 2, "x.example", "ann")


@pytest.mark.parametrize("separator", ["=", "+", "-"])
def test_a_second_forwarder_goes_back_to_the_first(separator: str) -> None:
    first, second = make(domain="first.example"), make(OTHER, domain="second.example")
    third = make("third key of such length")
    once = first.rewrite("ann@x.example").replace("SRS0=", f"SRS0{separator}", 1)
    twice = second.rewrite(once)
    assert twice.startswith("SRS1=")
    assert "=first.example=" in twice
    assert second.reverse(twice) == once
    again = third.rewrite(twice)
    assert again.startswith("SRS1=")
    assert "second.example" not in again, "a bounce goes past the forwarders between"
    assert third.reverse(again) == once
    assert first.reverse(once) == "ann@x.example"


def test_what_is_left_alone() -> None:
    rewriting = make()
    assert rewriting.rewrite("") == ""
    assert rewriting.rewrite("nobody") == "nobody"
    assert rewriting.rewrite("a" * 300 + "@x.example") == "a" * 300 + "@x.example"
    assert rewriting.keeps("own.example")
    assert rewriting.keeps(SRS)
    assert not rewriting.keeps("x.example")


def test_nobody_else_makes_such_addresses_and_they_end() -> None:
    clock = Clock(1_763_300_000.0)
    rewriting = make(clock=clock)
    made = rewriting.rewrite("ann@x.example")
    later = make(domain="b.example").rewrite(make(domain="a.example").rewrite("ann@x.example"))
    forged = [
        made.replace("=ann@", "=bob@"),
        made.replace("x.example", "y.example"),
        make(OTHER).rewrite("ann@x.example"),
        later.replace("a.example", "evil.example"),
        f"SRS0=aaaaaaaa=aa=x.example=ann@{SRS}",
        f"SRS0=@{SRS}",
        f"SRS0={'=' * 500}@{SRS}",
        f"SRS1={'=' * 500}@{SRS}",
        f"SRS0=aaaa=00=x.example=ann@{SRS}",
        f"SRS1=aaaa=x.example==y@{SRS}",
        f"srs0+@{SRS}",
    ]
    for address in forged:
        assert rewriting.reverse(address) is None, address
    assert rewriting.refused == len(forged)
    clock.now -= DAY
    assert rewriting.reverse(made) == "ann@x.example", "clocks of nodes pass midnight one after the other"
    clock.now -= DAY
    assert rewriting.reverse(made) is None
    clock.now += (2 + MAX_DAYS) * DAY
    assert rewriting.reverse(made) == "ann@x.example"
    clock.now += DAY
    assert rewriting.reverse(made) is None
    clock.now += 1_000 * DAY
    assert rewriting.reverse(made) is None


def test_keys_change() -> None:
    made = make(KEY).rewrite("ann@x.example")
    both = make(OTHER, KEY)
    assert both.reverse(made) == "ann@x.example"
    assert make(OTHER).reverse(both.rewrite("ann@x.example")) == "ann@x.example"
    assert make(OTHER).reverse(made) is None


def test_settings() -> None:
    SenderRewritingSettings.model_validate({"domain": SRS, "keys": [KEY]})
    for wrong in ({"domain": SRS, "keys": []}, {"domain": SRS, "keys": ["short"]}, {"keys": [KEY]}):
        with pytest.raises(ValidationError):
            SenderRewritingSettings.model_validate(wrong)


MESSAGE = b"From: Ann <ann@x.example>\r\nSubject: x\r\n\r\ny\r\n.\r\n"


async def test_over_smtp(deployment: Any, hop: Any) -> None:
    """A stranger's mail leaves with our sender, mail of our own with its own; the bounce goes out to the stranger, and
    nothing else gets through the address."""
    world, mailboxes, rewriting = hop(), hop(), make(clock=time.time)
    relay = Relay(f"smtp://127.0.0.1:{await world.start()}", "off", "gate.example")
    routing, limits = Routing.through(relay), SenderLimits(HourlyLimits(), sender_counts())

    def outbound(*hosts: str) -> Outbound:
        return Outbound(OutboundTenants(hosts), None, routing, limits, rewriting=rewriting)

    async with deployment(mailboxes, tenants={"tenant.example": "t"}) as gate:
        gate.services.outbound = outbound("127.0.0.0/8")
        client = await gate.connect()
        for sender in ("ann@x.example", "bob@own.example", "eve@tenant.example", ""):
            await client.up_to_data(sender, "carol@world.example")
            assert (await client.say(MESSAGE)).startswith("250")
        said = [line for line in world.lines if line.startswith("MAIL")]
        assert said[0].startswith("MAIL FROM:<SRS0=")
        assert said[0].endswith(f"=x.example=ann@{SRS}>")
        assert said[1:] == ["MAIL FROM:<bob@own.example>", "MAIL FROM:<eve@tenant.example>", "MAIL FROM:<>"]
        assert gate.guard.scanned[0].envelope.sender == "ann@x.example"
        address = said[0].removeprefix("MAIL FROM:<").removesuffix(">")

        gate.services.outbound = outbound()
        client, before = await gate.connect(), len(world.messages)
        await client.up_to_data("", address)
        assert (await client.say(MESSAGE)).startswith("250")
        assert len(world.messages) == before + 1
        assert [line for line in world.lines if line.startswith("RCPT")][-1] == "RCPT TO:<ann@x.example>"
        assert not mailboxes.messages
        assert gate.guard.scanned[-1].envelope.recipients == ("ann@x.example",)
        for sender, recipient in (("spammer@evil.example", address), ("", address.replace("=ann@", "=bob@"))):
            await client.say(f"MAIL FROM:<{sender}>")
            assert await client.say(f"RCPT TO:<{recipient}>") == "550 5.1.1 No such recipient here"
            await client.say("RSET")
        # Other recipients of the domain are as before, and each has a transaction of its own.
        await client.say("MAIL FROM:<>")
        assert (await client.say(f"RCPT TO:<postmaster@{SRS}>")).startswith("250")
        assert (await client.say(f"RCPT TO:<{address}>")).startswith("452 4.5.3")
        await client.say("DATA")
        assert (await client.say(MESSAGE)).startswith("250")
        assert len(mailboxes.messages) == 1
        assert len(world.messages) == before + 1
    await routing.close()
    await world.stop()
