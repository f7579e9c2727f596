"""Conversations: lines in, replies out, for every command and every limit."""

import asyncio
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from gatepost import __version__
from gatepost.smtp import intake, session
from gatepost.smtp.client import SmtpClient, identify_client
from gatepost.smtp.commands import SmtpLimits, Verb, parse_command

QUICK = SmtpLimits(greeting_pause=0.0)
EHLO = ("EHLO c.example", "250-gate.example|")
MAIL = ("MAIL FROM:<a@x.example>", "250 2.1.0 fine")
RCPT = ("RCPT TO:<b@y.example>", "250 2.1.0 fine")
LISTED: dict[str, Any] = {"listed": ("127.0.0.1",)}
UNAUTHENTIC = "550 5.7.0"
LONG = "x" * 510

# name, options of the gateway, what is said and how the reply begins. A reply of "" is a closed connection.
CONVERSATIONS: list[tuple[str, dict[str, Any], list[tuple[str | bytes, str]]]] = [
    (
        "ordinary",
        {},
        [
            EHLO,
            MAIL,
            RCPT,
            ("DATA", "354"),
            (b"x: y\r\n\r\nz\r\n.\r\n", "250 2.0.0 Ok: queued"),
            ("QUIT", "221"),
            ("", ""),
        ],
    ),
    (
        "helo",
        {},
        [("HELO c", "250 gate.example"), MAIL, RCPT, ("DATA", "354"), (b".\r\n", "550 5.6.0 Message is empty")],
    ),
    (
        "case and space",
        {},
        [("ehlo c", "250-"), ("mail from: <a@x.example>", "250"), ("Rcpt To:<b@y.example> ", "250")],
    ),
    ("hello twice resets", {}, [EHLO, MAIL, EHLO, (RCPT[0], "503 5.5.1")]),
    (
        "hello without name",
        {},
        [("EHLO", "501 5.5.4"), ("HELO ", "501"), ("EHLO a b", "501"), ("MAIL FROM:<a@b>", "503 5.5.1")],
    ),
    (
        "order",
        {},
        [(MAIL[0], "503"), EHLO, (RCPT[0], "503"), ("DATA", "503"), MAIL, (MAIL[0], "503"), ("DATA", "554 5.5.1")],
    ),
    ("reset", {}, [EHLO, MAIL, RCPT, ("RSET", "250 2.0.0"), ("DATA", "503"), MAIL, RCPT, ("DATA", "354")]),
    (
        "small ones",
        {},
        [
            ("NOOP", "250"),
            ("NOOP x y", "250"),
            ("HELP", "214"),
            ("HELP MAIL", "214"),
            ("VRFY a", "252"),
            ("EXPN a", "502"),
            ("RSET", "250"),
        ],
    ),
    (
        "arguments where none belong",
        {},
        [("RSET x", "501"), ("DATA x", "501"), ("QUIT now", "501"), ("STARTTLS x", "501"), ("QUIT", "221")],
    ),
    (
        "unknown",
        {},
        [
            ("FOO", "500 5.5.2"),
            ("AUTH PLAIN x", "502 5.5.1"),
            ("ETRN x", "502"),
            ("", "500"),
            ("MAIL", "501"),
            ("MAILFROM:<a@b>", "500"),
        ],
    ),
    ("web browser", {}, [(b"GET / HTTP/1.1\r\n", "500"), ("", "")]),
    ("web form", {}, [(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nEHLO c\r\n", "500"), ("", "")]),
    (
        "senders",
        {},
        [
            EHLO,
            ("MAIL FROM:<>", "250"),
            ("RSET", "250"),
            ("MAIL FROM:<@r.example,@s.example:a@x.example>", "250"),
            ("RSET", "250"),
            ('MAIL FROM:<"a >b"@x.example>', "250"),
            ("RSET", "250"),
            ("MAIL FROM:a@x.example", "501 5.1.7"),
            ("MAIL FROM:<a b@x>", "501"),
            ("MAIL FROM:<a@x.example", "501"),
            ("MAIL FROM:<alone>", "501 5.1.7"),
            ("MAIL FROM:<a@>", "501"),
        ],
    ),
    (
        "recipients",
        {},
        [
            EHLO,
            MAIL,
            ("RCPT TO:<postmaster>", "250"),
            ("RCPT TO:<>", "501 5.1.3"),
            ("RCPT TO:<alone>", "501"),
            ("RCPT TO:b@y.example", "501"),
            ("RCPT TO:<b@y.example>x", "501"),
            ("RCPT TO:<b@\x01y>", "501"),
            (f"RCPT TO:<{LONG}@y.example>", "501"),
        ],
    ),
    (
        "size",
        {},
        [
            EHLO,
            ("MAIL FROM:<a@x.example> SIZE=52428801", "552 5.3.4"),
            ("MAIL FROM:<a@x.example> SIZE=1x", "501"),
            ("MAIL FROM:<a@x.example> SIZE=52428800", "250"),
        ],
    ),
    (
        "8bit",
        {},
        [
            EHLO,
            ("MAIL FROM:<a@x.example> BODY=9BIT", "501"),
            ("MAIL FROM:<a@x.example> BODY=BINARYMIME", "501"),
            ("MAIL FROM:<a@x.example> BODY=8BITMIME", "250"),
        ],
    ),
    (
        "parameters",
        {},
        [
            EHLO,
            ("MAIL FROM:<a@x.example> FOO=1", "555 5.5.4"),
            ("MAIL FROM:<a@x.example> SIZE=1 SIZE=2", "501"),
            ("MAIL FROM:<a@x.example> AUTH=<>", "555"),
            ("MAIL FROM:<a@x.example> =", "501"),
            MAIL,
            ("RCPT TO:<b@y.example> FOO", "555"),
            ("RCPT TO:<b@y.example> NOTIFY=NEVER", "250"),
        ],
    ),
    ("parameters need EHLO", {}, [("HELO c", "250"), ("MAIL FROM:<a@x.example> SIZE=1", "555")]),
    (
        "international",
        {},
        [
            EHLO,
            ("MAIL FROM:<ä@x.example>", "553 5.6.7"),
            ("MAIL FROM:<ä@x.example> SMTPUTF8", "250"),
            ("RCPT TO:<ö@y.example>", "250"),
        ],
    ),
    ("international recipient without asking", {}, [EHLO, MAIL, ("RCPT TO:<ö@y.example>", "553 5.6.7")]),
    ("no UTF-8", {}, [EHLO, (b"MAIL FROM:<\xff@x.example> SMTPUTF8\r\n", "501")]),
    ("starttls off", {"tls": "off"}, [EHLO, ("STARTTLS", "502")]),
    ("starttls before ehlo", {}, [("STARTTLS", "503")]),
    (
        "tls required",
        {"tls": "required"},
        [
            EHLO,
            ("NOOP", "250"),
            (MAIL[0], "530 5.7.0"),
            (RCPT[0], "530"),
            ("DATA", "530"),
            (b"BDAT 3 LAST\r\nQUI", "530"),
            ("VRFY a", "530"),
            ("QUIT", "221"),
        ],
    ),
    (
        "xclient of strangers",
        {},
        [EHLO, ("XCLIENT ADDR=192.0.2.1", UNAUTHENTIC), ("XFORWARD ADDR=192.0.2.1", UNAUTHENTIC)],
    ),
    (
        "xforward",
        LISTED,
        [
            EHLO,
            ("XFORWARD NAME=n ADDR=192.0.2.1 HELO=h PROTO=ESMTP", "250"),
            ("XFORWARD ADDR=x", "501"),
            ("XFORWARD FOO=1", "501"),
            ("XFORWARD", "501"),
            MAIL,
            ("XFORWARD HELO=h", "503"),
        ],
    ),
    ("xforward needs ehlo", LISTED, [("XFORWARD ADDR=192.0.2.1", "503")]),
    (
        "xclient",
        LISTED,
        [
            EHLO,
            ("XCLIENT ADDR=IPV6:2001:db8::1 NAME=[UNAVAILABLE]", "220 gate.example ESMTP"),
            (MAIL[0], "503"),
            EHLO,
            MAIL,
        ],
    ),
    (
        "bdat",
        {},
        [
            EHLO,
            MAIL,
            RCPT,
            (b"BDAT 6\r\nx: y\r\n", "250 2.0.0 6 octets"),
            ("RCPT TO:<c@y.example>", "503"),
            ("DATA", "503"),
            (b"BDAT 5 LAST\r\n\r\nz\r\n", "250 2.0.0 Ok: queued"),
            MAIL,
        ],
    ),
    (
        "bdat nothing last",
        {},
        [EHLO, MAIL, RCPT, (b"BDAT 6\r\nx: y\r\n", "250"), ("BDAT 0 LAST", "250 2.0.0 Ok: queued")],
    ),
    ("bdat without recipients is swallowed", {}, [EHLO, MAIL, (b"BDAT 6 LAST\r\nQUIT\r\n", "554"), ("NOOP", "250")]),
    ("bdat nonsense closes", {}, [EHLO, MAIL, RCPT, (b"BDAT x\r\nQUIT\r\n", "501"), ("", "")]),
    (
        "bdat too large",
        {"limits": msgspec.structs.replace(QUICK, message=10)},
        [EHLO, MAIL, RCPT, (b"BDAT 11\r\nx: y\r\n12345", "552 5.3.4"), ("NOOP", "250"), (RCPT[0], "503")],
    ),
    (
        "bdat far too large",
        {"limits": msgspec.structs.replace(QUICK, message=10)},
        [EHLO, MAIL, RCPT, (b"BDAT 9999999999999999999 LAST\r\n", "421"), ("", "")],
    ),
    (
        "data too large",
        {"limits": msgspec.structs.replace(QUICK, message=10)},
        [EHLO, MAIL, RCPT, ("DATA", "354"), (b"x: y\r\n12345\r\n.\r\n", "552 5.3.4"), ("NOOP", "250")],
    ),
    (
        "data far too large",
        {"limits": msgspec.structs.replace(QUICK, message=10)},
        [EHLO, MAIL, RCPT, ("DATA", "354"), (b"x" * 30, "421"), ("", "")],
    ),
    ("data with what follows", {}, [EHLO, MAIL, RCPT, (b"DATA\r\nx: y\r\n.\r\n", "503 5.5.0"), ("", "")]),
    ("errors", {}, [*[("X", "500")] * 10, ("", "421 4.7.0 Too many errors"), ("", "")]),
    (
        "idle commands",
        {"limits": msgspec.structs.replace(QUICK, idle_commands=3)},
        [
            ("NOOP", "250"),
            ("RSET", "250"),
            ("NOOP", "250"),
            ("NOOP", "250"),
            ("", "421 4.7.0 Too many commands"),
            ("", ""),
        ],
    ),
    ("commands", {"limits": msgspec.structs.replace(QUICK, commands=2)}, [EHLO, MAIL, RCPT, ("", "421"), ("", "")]),
    (
        "many recipients",
        {"limits": msgspec.structs.replace(QUICK, recipients=2)},
        [EHLO, MAIL, RCPT, RCPT, (RCPT[0], "452 4.5.3"), ("DATA", "354")],
    ),
    (
        "long line",
        {},
        [
            (b"NOOP " + b"x" * 2041 + b"\r\n", "250"),
            (b"NOOP " + b"x" * 2100 + b"\r\n", "500 5.5.2 Line too long"),
            ("", ""),
        ],
    ),
    ("line without end", {}, [(b"NOOP " + b"x" * 2100, "500 5.5.2 Line too long"), ("", "")]),
    ("bare LF", {}, [(b"EHLO c\n", "500 5.5.2 Lines end"), ("", "")]),
    ("bare LF between commands", {}, [(b"NOOP\r\nRSET\nNOOP\r\n", "250"), ("", "500 5.5.2"), ("", "")]),
    ("bare CR", {}, [(b"EHLO c\rNOOP\r\n", "500 5.5.2"), ("", "")]),
    ("NUL", {}, [(b"EHLO c\0\r\n", "500 5.5.2"), ("", "")]),
    ("command too slow", {"limits": msgspec.structs.replace(QUICK, command_wait=0.05)}, [("", "421 4.4.2"), ("", "")]),
    (
        "half a command too slow",
        {"limits": msgspec.structs.replace(QUICK, command_wait=0.05)},
        [(b"NOO", "421 4.4.2"), ("", "")],
    ),
    (
        "data stops",
        {"limits": msgspec.structs.replace(QUICK, data_wait=0.05)},
        [EHLO, MAIL, RCPT, ("DATA", "354"), (b"x", "421 4.4.2"), ("", "")],
    ),
    (
        "data too slow",
        {"limits": msgspec.structs.replace(QUICK, data_grace=0.05, data_rate=1 << 30)},
        [EHLO, MAIL, RCPT, ("DATA", "354"), (b"x", "421"), ("", "")],
    ),
    (
        "data much at first, then too slow",
        {"limits": msgspec.structs.replace(QUICK, data_grace=0.05, data_rate=1, data_floor=1_000_000)},
        [EHLO, MAIL, RCPT, ("DATA", "354"), (b"x: y\r\n" + b"y" * 70 + b"\r\n" * 500, "421"), ("", "")],
    ),
    (
        "no room on disk",
        {"limits": msgspec.structs.replace(QUICK, spooled=3)},
        [EHLO, MAIL, RCPT, ("DATA", "354"), (b"x: y\r\n.\r\n", "452 4.3.1"), MAIL],
    ),
    (
        "no room for anybody",
        {"limits": msgspec.structs.replace(QUICK, spooled=0, place_wait=0.0)},
        [EHLO, MAIL, (RCPT[0], "452 4.3.1"), ("NOOP", "250")],
    ),
    (
        "hops",
        {"limits": msgspec.structs.replace(QUICK, hops=1)},
        [
            EHLO,
            MAIL,
            RCPT,
            ("DATA", "354"),
            (b"Received: a\r\nReceived: b\r\n\r\nx\r\n.\r\n", "554 5.4.6"),
            MAIL,
            RCPT,
            ("DATA", "354"),
            (b"Received: a\r\n\r\nReceived: in the text\r\n.\r\n", "250"),
        ],
    ),
    (
        "short line",
        {"limits": msgspec.structs.replace(QUICK, command_line=20)},
        [("NOOP 1234567890123", "250"), ("NOOP 12345678901234", "500 5.5.2 Line too long"), ("", "")],
    ),
    (
        "short path",
        {"limits": msgspec.structs.replace(QUICK, path=9)},
        [EHLO, ("MAIL FROM:<a@x.test>", "250"), ("RCPT TO:<bb@x.test>", "250"), ("RCPT TO:<bbb@x.test>", "501")],
    ),
    (
        "few errors",
        {"limits": msgspec.structs.replace(QUICK, errors=2)},
        [("X", "500"), ("NOOP", "250"), ("X", "500"), ("", "421 4.7.0 Too many errors"), ("", "")],
    ),
    (
        "data in drops",
        {"limits": msgspec.structs.replace(QUICK, data_most=0.05)},
        [EHLO, MAIL, RCPT, ("DATA", "354"), (b"x", "421 4.4.2"), ("", "")],
    ),
    (
        "pipelined",
        {},
        [
            (b"EHLO c\r\nMAIL FROM:<a@x.example>\r\nRCPT TO:<b@y.example>\r\nRCPT TO:<alone>\r\nDATA\r\n", "250-"),
            ("", "250 2.1.0"),
            ("", "250 2.1.0"),
            ("", "501"),
            ("", "354"),
            (b"x: y\r\n.\r\nRSET\r\nQUIT\r\n", "250 2.0.0 Ok: queued"),
            ("", "250"),
            ("", "221"),
            ("", ""),
        ],
    ),
]


def test_every_command_has_a_conversation_and_every_limit_a_test() -> None:
    lines = [line if isinstance(line, bytes) else line.encode() for _, _, said in CONVERSATIONS for line, _ in said]
    spoken = {line.split()[0].decode("latin-1").upper() for line in lines if line.strip()}
    assert set(get_args(Verb)) <= spoken
    tests = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    untested = {name for name in SmtpLimits.__struct_fields__ if f"{name}=" not in tests}
    assert not untested


@pytest.mark.parametrize(("options", "said"), [pytest.param(*each[1:], id=each[0]) for each in CONVERSATIONS])
async def test_conversation(
    options: dict[str, Any], said: list[tuple[str | bytes, str]], deployment: Any, hop: Any
) -> None:
    async with deployment(hop(), **options) as gate:
        client = await gate.connect()
        for index, (sent, expected) in enumerate(said):
            if sent == "" and (index == 0 or expected != "500"):
                answer = await client.reply()
            else:
                answer = await client.say(sent)
            assert answer.startswith(expected), (sent, answer)
            assert bool(answer) == bool(expected), (sent, answer)


async def test_what_is_announced_follows_the_next_hop(deployment: Any, hop: Any) -> None:
    own = ["PIPELINING", "SIZE 52428800", "ENHANCEDSTATUSCODES", "CHUNKING", "STARTTLS"]
    table = [
        (
            ("8BITMIME", "SMTPUTF8", "DSN", "CHUNKING", "BINARYMIME", "AUTH PLAIN"),
            {*own, "8BITMIME", "SMTPUTF8", "DSN"},
        ),
        (("8BITMIME",), {*own, "8BITMIME"}),
        (("SIZE 1000",), {*own} - {"SIZE 52428800"} | {"SIZE 500"}),
        # Room is left for the fields that are added.
        (("SIZE 1000000",), {*own} - {"SIZE 52428800"} | {"SIZE 995904"}),
        (("SIZE",), {*own}),
        ((), {*own}),
    ]
    for features, expected in table:
        async with deployment(hop(features)) as gate:
            name, *lines = (await (await gate.connect()).say("EHLO c")).split("|")
            assert name == "250-gate.example"
            assert {line[4:] for line in lines} == expected


async def test_only_listed_hosts_are_told_of_xclient(deployment: Any, hop: Any) -> None:
    async with deployment(hop(), listed=("127.0.0.0/8",)) as gate:
        said = await (await gate.connect()).say("EHLO c")
        assert "XFORWARD NAME ADDR PORT PROTO HELO IDENT SOURCE" in said
        assert "XCLIENT NAME" in said


async def test_nothing_said_names_the_software(deployment: Any, hop: Any) -> None:
    async with deployment(hop()) as gate:
        client = await gate.connect()
        gate.guard.fault = RuntimeError("secret detail")
        said = [await client.say(line) for line in ("EHLO c", "HELP", "VRFY x", "FOO", "NOOP")]
        await client.up_to_data()
        said.append(await client.say(b"x: y\r\n.\r\n"))
        assert said[-1].startswith("421 4.3.0")
        whole = "".join(said).lower()
        assert not [
            word for word in ("gatepost", "python", __version__, "secret", "traceback", "postfix") if word in whole
        ]


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody on loopback is somebody from elsewhere."""
    monkeypatch.setattr(intake, "identify_client", lambda _peer, _listed: SmtpClient("192.0.2.9"))


@pytest.mark.usefixtures("strangers")
async def test_whoever_speaks_before_the_greeting_is_sent_away(deployment: Any, hop: Any) -> None:
    async with deployment(hop(), limits=SmtpLimits(greeting_pause=3.0)) as gate:
        client = await gate.connect(greeted=False)
        assert (await client.say("EHLO c")).startswith("554 5.5.0")
        assert await client.closed()
    async with deployment(hop(), limits=SmtpLimits(greeting_pause=0.05)) as gate:
        client = await gate.connect()
        assert (await client.say("EHLO c")).startswith("250")


# Paths that another server may read as another mailbox: a comment, a quoted pair outside of quotes, a route whose
# quotes do not end where it does, a second "@", a quoted domain, controls beyond ASCII.
AMBIGUOUS = (
    "t@y.example(c)",
    "t@(c)y.example",
    "t(c)@y.example",
    't\\"t@other.example>"@y.example',
    '@"x:t@other.example>"@y.example',
    '@"x:t@other.example> NOTIFY=NEVER"@y.example',
    "@x.example,t@y.example",
    "t@other.example@y.example",
    't@"y.example"',
    "t@y.example;x",
    "t@y.example,x",
    "t\u0085@y.example",
    "t\u2028@y.example",
)


@pytest.mark.parametrize("path", AMBIGUOUS)
async def test_a_path_names_one_mailbox_for_every_reader(path: str, deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        client = await gate.connect()
        await client.say("EHLO c")
        assert (await client.say(f"MAIL FROM:<{path}> SMTPUTF8")).startswith("501 5.1.7")
        assert (await client.say("MAIL FROM:<a@x.example> SMTPUTF8")).startswith("250")
        assert (await client.say(f"RCPT TO:<{path}>")).startswith("501 5.1.3")
        assert not [line for line in next_hop.lines if "t@" in line or "other" in line]


@pytest.mark.usefixtures("strangers")
@pytest.mark.parametrize("local", ["u%other.example", "other.example!u", '"u@other.example"', '"u%other.example"'])
async def test_no_stranger_routes_mail_by_way_of_us(local: str, deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        client = await gate.connect()
        await client.say("EHLO c")
        await client.say(f"MAIL FROM:<{local}@x.example>")
        assert await client.say(f"RCPT TO:<{local}@y.example>") == "550 5.7.1 Mail is not routed by way of this host"
        assert (await client.say("DATA")).startswith("554 5.5.1")
        assert not [line for line in next_hop.lines if line.startswith("RCPT")]


async def test_hosts_of_ours_may_route_mail(deployment: Any, hop: Any) -> None:
    async with deployment(hop(), **LISTED) as gate:
        client = await gate.connect()
        for line in ("EHLO c", "MAIL FROM:<a@x.example>", "RCPT TO:<u%other.example@y.example>"):
            assert (await client.say(line)).startswith("250")


async def test_long_attributes_are_refused(deployment: Any, hop: Any) -> None:
    """What XFORWARD says goes on to the next hop, in a line of all attributes."""
    async with deployment(hop(), **LISTED) as gate:
        client = await gate.connect()
        await client.say("EHLO c")
        assert (await client.say("XFORWARD HELO=" + "x" * 255)).startswith("250")
        assert (await client.say("XFORWARD HELO=" + "x" * 766)).startswith("501")


@pytest.mark.usefixtures("strangers")
async def test_connections_of_one_address_have_a_limit(deployment: Any, hop: Any) -> None:
    async with deployment(hop(), limits=msgspec.structs.replace(QUICK, per_address=1)) as gate:
        first = await gate.connect()
        second = await gate.connect(greeted=False)
        assert (await second.reply()).startswith("421 4.7.0 Too many connections")
        first.writer.close()
        await gate.until(lambda: not gate.intake.open)
        await gate.connect()
        assert (gate.intake.turned_away, gate.intake.turned_away_full) == (1, 0)


async def test_strangers_leave_the_reserve_to_listed_hosts(deployment: Any, hop: Any, monkeypatch: Any) -> None:
    """Silent strangers from several addresses fill what is theirs; the border MTA still gets in."""
    real, peers = identify_client, [f"192.0.2.{number}" for number in (1, 1, 2, 2, 3)] + ["198.51.100.7"] * 3

    def identified(_peer: str, listed: Any) -> Any:
        return real(peers.pop(0), listed)

    monkeypatch.setattr("gatepost.smtp.intake.identify_client", identified)
    limits = msgspec.structs.replace(QUICK, per_address=2)
    async with deployment(hop(), limits=limits, max_connections=6, reserved=2, listed=("198.51.100.7",)) as gate:
        for _ in range(4):
            await gate.connect(greeted=False)
        refused = await gate.connect(greeted=False)
        assert (await refused.reply()).startswith("421 4.7.0")
        for _ in range(2):
            border = await gate.connect()
            assert (await border.say("NOOP")).startswith("250")
        last = await gate.connect(greeted=False)
        assert (await last.reply()).startswith("421 4.7.0")
        assert (gate.intake.open, gate.intake.turned_away) == (6, 2)
        assert gate.intake.turned_away_full == 2


async def test_a_stop_ends_idle_sessions_at_once_and_others_after_their_message(deployment: Any, hop: Any) -> None:
    async with deployment(hop()) as gate:
        idle, busy = await gate.connect(), await gate.connect()
        await busy.up_to_data()
        gate.guard.may_end.clear()
        busy.send(b"Subject: x\r\n\r\ny\r\n.\r\n")
        await gate.until(lambda: gate.guard.scanned)
        gate.intake.should_exit = True
        assert (await idle.reply()).startswith("421 4.3.2")
        assert await idle.closed()
        with pytest.raises(ConnectionRefusedError):
            await gate.connect()
        gate.guard.may_end.set()
        assert (await busy.reply()).startswith("250 2.0.0 Ok: queued")
        assert (await busy.reply()).startswith("421 4.3.2")


async def test_a_stop_lets_a_client_that_talks_send_its_message_and_say_goodbye(
    deployment: Any, hop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatepost.smtp.intake.LINGER_SECONDS", 60.0)
    monkeypatch.setattr("gatepost.smtp.session.STOP_SECONDS", 60.0)
    async with deployment(hop()) as gate:
        first, other = await gate.connect(), await gate.connect()
        for each in (first, other):
            await each.up_to_data()
            each.send(b"Subject: x\r\n\r\ny\r\n.\r\n")
            assert (await each.reply()).startswith("250 2.0.0 Ok: queued")
            assert (await each.say("MAIL FROM:<a@example.org>")).startswith("250")
        gate.intake.should_exit = True
        for each in (first, other):
            assert (await each.say("RCPT TO:<b@example.com>")).startswith("250")
            assert (await each.say("DATA")).startswith("354")
            each.send(b"Subject: x\r\n\r\ny\r\n.\r\n")
            assert (await each.reply()).startswith("250 2.0.0 Ok: queued")
        assert (await first.say("QUIT")).startswith("221")
        assert (await other.say("MAIL FROM:<a@example.org>")).startswith("421 4.3.2")
        assert await other.closed()


async def test_a_stop_does_not_wait_for_ever(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop, limits=msgspec.structs.replace(QUICK, stop=0.05)) as gate:
        busy = await gate.connect()
        await busy.up_to_data()
        gate.guard.may_end.clear()
        busy.send(b"Subject: x\r\n\r\ny\r\n.\r\n")
        await gate.until(lambda: gate.guard.scanned)
        gate.intake.should_exit = True
        # No answer was given: the sender has the message still, and nobody else has it.
        assert await busy.closed()
        assert next_hop.messages == gate.holding.kept == []


async def test_thousands_of_commands_at_once_leave_others_their_turn(
    deployment: Any, hop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading a command that has come already does not wait: without turns, all of them would be one callback."""
    handled = most = 0

    def parse(line: bytes, limits: SmtpLimits) -> Any:
        nonlocal handled
        handled += 1
        return parse_command(line, limits)

    async def watch() -> None:
        nonlocal most
        before = 0
        while True:
            most, before = max(most, handled - before), handled
            await asyncio.sleep(0)

    monkeypatch.setattr(session, "parse_command", parse)
    async with deployment(hop(), limits=msgspec.structs.replace(QUICK, commands=5_000)) as gate:
        client = await gate.connect()
        for said in (EHLO[0], MAIL[0], RCPT[0]):
            await client.say(said)
        watching = asyncio.create_task(watch())
        client.send(b"BDAT 1\r\nx" * 2_000 + b"BDAT 2 LAST\r\n\r\n")
        await gate.until(lambda: handled >= 2_000)
        watching.cancel()
    assert handled >= 2_000
    assert most <= session.COMMANDS_IN_A_TURN
