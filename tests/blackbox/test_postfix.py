"""The recipes of docs/postfix.md, as they stand there, with a real Postfix before and behind guard, or asking it."""

import asyncio
import contextlib
import json
import smtplib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from email.parser import Parser
from email.policy import compat32
from pathlib import Path
from typing import NamedTuple

import pytest
from bench.dovecot import PASSWORD, dovecot_missing, password_service
from bench.gateway import Gateway, Sink, held_mail, postfix, postfix_missing, recipe
from bench.name_server import NameServer
from bench.ports import free_port, free_ports
from tests.command_line import run_command

from gatepost.store import open_store
from gatepost.store.evidence import Evidence
from gatepost.store.search_conditions import MessageFilter

pytestmark = pytest.mark.skipif(postfix_missing() is not None, reason=f"not run: {postfix_missing()}")

OWN, STRANGER = "203.0.113.9", "192.0.2.66"
# Postfix listens on the first one only, so that the second one is another host to it.
HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"
EICAR = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"


def message(identity: str, text: str = "Hello Bob", subject: str = "Minutes") -> bytes:
    return (
        f"From: Ann <ann@example.org>\r\nTo: bob@example.com\r\nSubject: {subject}\r\n"
        f"Date: Tue, 10 Nov 2026 09:12:00 +0000\r\nMessage-ID: <{identity}>\r\n\r\n{text}\r\n"
    ).encode()


Chain = tuple[int, Sink, Gateway, Path]


@pytest.fixture(scope="module")
def before() -> Iterator[Chain]:
    with chain("before") as made:
        yield made


@pytest.fixture(scope="module")
def after() -> Iterator[Chain]:
    with chain("after") as made:
        yield made


@contextlib.contextmanager
def chain(kind: str) -> Iterator[Chain]:
    """Postfix → guard → Postfix → sink; the port of the first, and the rest."""
    outer, inner = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="gatepost-postfix-") as name, contextlib.ExitStack() as stack:
        folder, sink = Path(name), Sink()
        stack.callback(sink.close)
        smtp = ", xclientHosts: ['127.0.0.1'], hostname: gate.example"
        smtp += ", afterQueue: true" if kind == "after" else ""
        (folder / "gate").mkdir()
        gateway = stack.enter_context(Gateway(folder / "gate", inner, smtp=smtp))

        def placed(text: str) -> str:
            text = text.replace("10025", str(gateway.port)).replace("127.0.0.1:10026", f"127.0.0.1:{inner}")
            return text.replace("smtp      inet", f"127.0.0.1:{outer} inet")

        main = deliver_to(sink) + (placed(recipe("main.cf", "after")) if kind == "after" else "")
        log = stack.enter_context(postfix(folder / "postfix", main, placed(recipe("master.cf", kind)), outer))
        yield outer, sink, gateway, log


def deliver_to(sink: Sink) -> str:
    """Lines of main.cf: all mail goes to the sink, and clients here may say that they are another host."""
    hop = f"smtp:[127.0.0.1]:{sink.port}"
    return f"default_transport = {hop}\nrelay_transport = {hop}\nsmtpd_authorized_xclient_hosts = 127.0.0.0/8\n"


@contextlib.contextmanager
def client_at(address: str, port: int, source: str = ELSEWHERE) -> Iterator[smtplib.SMTP]:
    """A client that Postfix takes for the host at this address. XCLIENT begins the session anew, but what XFORWARD
    tells in SOURCE Postfix finds by the address that the connection comes from, `source`."""
    with smtplib.SMTP(HERE, port, local_hostname="client.example", source_address=(source, 0)) as client:
        client.ehlo()
        code, answer = client.docmd("XCLIENT", f"ADDR={address} NAME=client.example")
        assert code == 220, answer
        client.ehlo()
        yield client


def arrived(sink: Sink, identity: str, seconds: float = 180.0) -> bytes:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for raw in list(sink.messages):
            if f"<{identity}>".encode() in raw:
                return raw
        time.sleep(0.02)
    raise AssertionError(f"{identity} did not arrive")


@pytest.mark.process
@pytest.mark.parametrize("kind", ["before", pytest.param("after", marks=pytest.mark.variant)])
def test_a_recipe_delivers_holds_and_tells_the_border_data(kind: str, request: pytest.FixtureRequest) -> None:
    port, sink, gateway, log = request.getfixturevalue(kind)
    with client_at(STRANGER, port) as client:
        client.sendmail("ann@example.org", ["bob@example.com", "eve@example.com"], message("one@x"))
        raw = arrived(sink, "one@x")
        assert b"X-Gatepost-Verdict: clean" in raw, log.read_text()
        assert raw.count(b"X-Gatepost-Id:") == 1
        # XFORWARD told who the client was: without it, there would be no host whose name to ask for.
        assert f"policy.iprev={STRANGER}".encode() in raw
        assert b"the sending host is not known" not in raw
        client.sendmail("ann@example.org", ["bob@example.com"], message("virus@x", EICAR))
        client.sendmail("", ["bob@example.com"], message("bounce@x"))
        client.sendmail("ann@example.org", ["bob@example.com"], message("dots@x", ".\r\n..\r\n.x"))
    arrived(sink, "bounce@x")
    assert b"\r\n..\r\n...\r\n..x\r\n" in arrived(sink, "dots@x")
    end = time.monotonic() + 180
    while time.monotonic() < end and not _held(gateway, b"<virus@x>"):
        time.sleep(0.02)
    assert _held(gateway, b"<virus@x>")
    assert sink.taken["virus@x"] == 0
    received, given = asyncio.run(_find_queue_ids(gateway, "one@x"))
    assert f"{given}: " in log.read_text()
    if kind == "after":  # before the queue, a message has no id yet
        assert f"{received}: " in log.read_text()


async def _find_queue_ids(gateway: Gateway, identity: str) -> tuple[str, str]:
    """The queue id that a message had before guard, and the one that the next hop gave it, which is written soon."""
    store = open_store("sqlite:gatepost.db", gateway.folder)
    try:
        async with asyncio.timeout(180):
            while True:
                wanted = MessageFilter(evidence=Evidence(message_id=identity))
                for row in (await store.messages.search(wanted)).rows:
                    found = await store.messages.timeline(row.ggrid)
                    if found and found.deliveries:
                        return found.record.detail.queue_id, found.deliveries[0].queue_id
                await asyncio.sleep(0.1)
    finally:
        await store.close()


@pytest.mark.variant
def test_while_guard_is_away_senders_are_told_to_try_again_before_the_queue(before: Chain) -> None:
    port, sink, gateway, _ = before
    gateway.kill()
    with smtplib.SMTP("127.0.0.1", port) as client, pytest.raises(smtplib.SMTPException):
        client.sendmail("ann@example.org", ["bob@example.com"], message("away@x"))
    gateway.start()
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.sendmail("ann@example.org", ["bob@example.com"], message("away@x"))
    arrived(sink, "away@x")
    assert sink.taken["away@x"] == 1


@pytest.mark.variant
def test_while_guard_is_away_the_queue_keeps_the_mail(after: Chain) -> None:
    port, sink, gateway, log = after
    gateway.kill()
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.sendmail("ann@example.org", ["bob@example.com"], message("away@x"))
    end = time.monotonic() + 180
    while "status=deferred" not in log.read_text():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)
    assert sink.taken["away@x"] == 0
    gateway.start()
    arrived(sink, "away@x")
    assert sink.taken["away@x"] == 1


SMUGGLED = b"MAIL FROM:<s@x.example>\r\nRCPT TO:<t@example.com>\r\nDATA\r\nMessage-ID: <smuggled@x>\r\n\r\nx\r\n.\r\n"
# Ends of messages for who counts the bytes of a line in another way: in front of a second message.
ENDS = (
    b"\r\n..\r\n",
    b"\r\n.\t\r\n",
    b"\r\n. \r\n",
    b"\r\n.\x0b\r\n",
    b"\r\n.\x1a\r\n",
    b"\x85.\x85",
    "\u2028.\u2028".encode(),
    *(b"\r\n" + b"y" * length + b".\r\n" for length in (997, 998, 999, 2_045, 2_046, 2_047, 2_048, 2_049, 4_096)),
)
BARE = (
    b"\n.\n",
    b"\n.\r\n",
    b"\r\n.\n",
    b"\r.\r",
    b"\r.\r\n",
    b"\r\n.\r",
    b"\r\n\0.\r\n",
    b"\r\n.\0\r\n",
    b"\r\r\n.\r\r\n",
)


@pytest.mark.process
@pytest.mark.parametrize("chunked", [False, True])
def test_postfix_behind_us_reads_the_one_message_that_was_judged(before: Chain, chunked: bool) -> None:
    """Straight to guard, which believes this host; what the next hop has got is at the sink."""
    _, sink, gateway, log = before
    with smtplib.SMTP("127.0.0.1", gateway.port, timeout=180) as client:
        for number, end in enumerate((*ENDS, *BARE)):
            identity = f"end-{number}-{chunked}@x"
            raw = message(identity).removesuffix(b"\r\n") + end + SMUGGLED
            # After DATA, dots are stuffed: but for a bare end, what goes over the wire is what was meant.
            code, said = _send_raw(client, raw, chunked=chunked, is_bare=end in BARE)
            assert (code, end) == (550 if end in BARE else 250, end), said
            if end in ENDS:
                body = raw.partition(b"\r\n\r\n")[2]
                # Postfix folds lines of more than 998 octets when it sends them on.
                got = arrived(sink, identity).partition(b"\r\n\r\n")[2].replace(b"\r\n ", b"")
                assert got.replace(b"\r\n..", b"\r\n.") == body.replace(b"\r\n ", b""), end
    assert "smuggled@x" not in sink.taken, log.read_text()
    assert not [line for line in sink.lines if "s@x.example" in line or "t@example.com" in line]


def _send_raw(client: smtplib.SMTP, raw: bytes, *, chunked: bool, is_bare: bool) -> tuple[int, bytes]:
    client.ehlo_or_helo_if_needed()
    assert client.mail("ann@example.org")[0] == client.rcpt("bob@example.com")[0] == 250
    if not chunked:
        assert client.docmd("DATA")[0] == 354
        stuffed = raw if is_bare else b"\r\n".join(b"." * line.startswith(b".") + line for line in raw.split(b"\r\n"))
        # A bare end is followed by a whole second message, dot and all.
        client.send(stuffed + (b"" if is_bare else b".\r\n"))
        return client.getreply()
    half = raw.rindex(b".") - 1
    client.send(b"BDAT %d\r\n" % half + raw[:half] + b"BDAT %d LAST\r\n" % (len(raw) - half) + raw[half:])
    first = client.getreply()
    return client.getreply() if first[0] == 250 else (client.getreply(), first)[1]


# What a stranger may write of a result: in front of our fields, in one of ours, in our name.
CLAIMS = (
    b" X-Gatepost-Verdict: folded\r\n",
    b" \r\nX-Gatepost-Verdict: blank\r\n",
    b"\tx\r\n\tX-Gatepost-Verdict: tabs\r\n",
    b"X-Gatepost-Verdict : space\r\n",
    b"x-gatepost-VERDICT:\r\n case\r\n",
    b"Authentication-Results: gate.example; dkim=pass (claim)\r\n",
    b'Authentication-Results: (c) "gate.example" 1;\r\n dkim=pass (claim)\r\n',
    b"Subject: a\r\nno field\r\nX-Gatepost-Verdict: behind\r\n",
)


@pytest.mark.process
def test_no_claim_in_our_name_reaches_postfix_behind_us(before: Chain) -> None:
    _, sink, gateway, _ = before
    with smtplib.SMTP("127.0.0.1", gateway.port, timeout=180) as client:
        for number, claim in enumerate(CLAIMS):
            code, said = _send_raw(client, claim + message(f"claim-{number}@x"), chunked=False, is_bare=False)
            assert code == 250, said
            fields = Parser(policy=compat32).parsestr(arrived(sink, f"claim-{number}@x").decode("latin-1"))
            assert fields.get_all("X-Gatepost-Verdict") == ["clean"], claim
            assert "claim" not in str(fields.get_all("Authentication-Results"))
            ours = [value for name, value in fields.items() if "gate.example" in value or name.startswith("X-Gatepost")]
            assert not [value for value in ours if "folded" in value or "blank" in value or "tabs" in value], claim


# A Postfix in front hands RCPT on as it came, and takes comments and quotes out of what it looks at itself.
TWO_WAYS = ("bob@example.com(c)", "bob@(c)example.com", 'bob@"example.com"', 'bob\\"@example.com')


@pytest.mark.process
@pytest.mark.parametrize("kind", ["before", "milter"])
def test_a_recipient_that_reads_in_two_ways_is_of_no_other_tenant(kind: str, request: pytest.FixtureRequest) -> None:
    asked = request.getfixturevalue(kind)
    outer, sink = (asked.ports["inet"], asked.sink) if kind == "milter" else asked[:2]
    with client_at(STRANGER, outer) as client:
        for path in TWO_WAYS:
            client.mail("ann@example.org")
            # It answers RCPT itself, and what guard says behind DATA.
            code, said = client.docmd("RCPT", f"TO:<{path}>")
            said = client.data(message("two@x"))[1] if code == 250 else said
            assert said == b"5.1.3 Bad recipient address syntax", path
            client.rset()
    assert "two@x" not in sink.taken


def _held(gateway: Gateway, identity: bytes) -> bool:
    return any(identity in raw for raw in held_mail(gateway.folder).values())


def test_nothing_that_is_refused_after_the_queue_becomes_a_bounce(after: Chain) -> None:
    port, sink, gateway, log = after
    gtube = "XJS*C4JDBQADN1.NSBN3*2IDNEN*" + "GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X"
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.sendmail("forged@victim.example", ["bob@example.com"], message("nul@x", "a\0b"))
        client.sendmail("forged@victim.example", ["bob@example.com"], message("gtube@x", gtube))
    end = time.monotonic() + 180
    while not (_held(gateway, b"<nul@x>") and _held(gateway, b"<gtube@x>")):
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)
    assert "non-delivery notification" not in log.read_text()
    assert sink.taken["nul@x"] == sink.taken["gtube@x"] == 0


class MilterChain(NamedTuple):
    """Postfix that asks guard over TCP on one port, and over a Unix socket on another, and sends to the sink itself."""

    ports: dict[str, int]
    sink: Sink
    gateway: Gateway
    postfix: Path


@pytest.fixture(scope="module")
def milter() -> Iterator[MilterChain]:
    outer, local, inner, port = free_ports(4)
    with tempfile.TemporaryDirectory(prefix="gatepost-postfix-") as name, contextlib.ExitStack() as stack:
        folder, sink = Path(name), Sink()
        stack.callback(sink.close)
        (folder / "gate").mkdir()
        shared = folder / "postfix" / "queue" / "gatepost"
        shared.mkdir(parents=True)
        listen = f"['127.0.0.1:{port}', 'unix:{shared}/milter']"
        options = "socketMode: '666', hostname: gate.example, maxMessageSize: 65536"
        sources = f"  milter: {{listen: {listen}, {options}}}\n"
        gateway = stack.enter_context(Gateway(folder / "gate", inner, sources=sources))
        main = deliver_to(sink) + recipe("main.cf", "milter").replace("8894", str(port))
        master = recipe("master.cf", "milter").replace("127.0.0.1:10026", f"127.0.0.1:{inner}")
        master = master.replace("smtp      inet", f"127.0.0.1:{outer} inet")
        master += f"127.0.0.1:{local} inet n - n - - smtpd\n    -o smtpd_milters=unix:gatepost/milter\n"
        stack.enter_context(postfix(folder / "postfix", main, master, outer))
        yield MilterChain({"inet": outer, "unix": local}, sink, gateway, folder / "postfix")


@pytest.mark.parametrize("kind", ["inet", pytest.param("unix", marks=pytest.mark.variant)])
def test_the_milter_recipe_delivers_holds_and_releases(milter: MilterChain, kind: str) -> None:
    sink, gateway = milter.sink, milter.gateway
    clean, virus, dots = (f"{name}-{kind}@x" for name in ("clean", "virus", "dots"))
    forged = message(clean).replace(
        b"Subject:",
        b"X-Gatepost-Verdict: clean\r\nX-Gatepost-Id: 1\r\nAuthentication-Results: gate.example; spf=pass\r\n"
        b"x-gatepost-verdict: clean\r\nAuthentication-Results: other.example; spf=pass\r\nSubject:",
    )
    with smtplib.SMTP("127.0.0.1", milter.ports[kind], local_hostname="client.example") as client:
        client.sendmail("ann@example.org", ["bob@example.com", "eve@example.com"], forged)
        client.sendmail("ann@example.org", ["bob@example.com"], message(virus, EICAR))
        # Postfix has its answer, so it is on disk.
        assert _held(gateway, f"<{virus}>".encode()), (milter.postfix / "log").read_text()
        client.sendmail("", ["bob@example.com"], message(dots, ".\r\n..\r\n.x"))
        with pytest.raises(smtplib.SMTPDataError, match="552"):
            client.sendmail("ann@example.org", ["bob@example.com"], message("large@x", "x" * 200 + "\r\n" * 40_000))
    raw = arrived(sink, clean)
    assert raw.lower().count(b"x-gatepost-verdict:") == raw.count(b"X-Gatepost-Id:") == 1, raw
    assert b"\r\nX-Gatepost-Verdict: clean\r\n" in raw
    assert b"X-Gatepost-Id: 1\r\n" not in raw
    assert raw.count(b"Authentication-Results: gate.example;") == 1
    assert b"Authentication-Results: other.example; spf=pass\r\n" in raw
    assert raw.endswith(b"\r\n\r\nHello Bob\r\n")
    assert b"\r\n..\r\n...\r\n..x\r\n" in arrived(sink, dots)
    assert sink.taken[virus] == 0
    place = ("--config", str(gateway.folder), "--data", str(gateway.folder))
    held = json.loads(run_command("quarantine", "list", "--json", *place)[1])
    code, _, fault = run_command("quarantine", "release", held[0]["ggrid"], "--dangerous", *place)
    assert code == 0, fault
    # By the listener without milters.
    assert b"X-Gatepost-Released:" in arrived(sink, virus)


class House(NamedTuple):
    """A Postfix whose users log in, by the ports of a listener before guard and of one that asks guard as a milter."""

    ports: dict[str, int]
    sink: Sink
    gateway: Gateway
    log: Path


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    if missing := dovecot_missing():
        pytest.skip(f"not run: {missing}")
    before, milter, inner, port = free_ports(4)
    dns = NameServer({"house.example": "v=spf1 ip4:203.0.113.250 -all", "_dmarc.house.example": "v=DMARC1; p=reject"})
    with tempfile.TemporaryDirectory(prefix="gatepost-postfix-") as name, contextlib.ExitStack() as stack:
        folder, sink = Path(name), Sink()
        stack.callback(sink.close)
        stack.callback(dns.close)
        (folder / "gate").mkdir()
        gateway = Gateway(
            folder / "gate",
            inner,
            smtp=", xclientHosts: ['127.0.0.1'], hostname: gate.example",
            sources=f"  milter: {{listen: '127.0.0.1:{port}', hostname: gate.example}}\n",
            more="ownNetworks: ['203.0.113.0/24']\n",
            nameserver=dns.address,
            dns_timeout=20_000,
        )
        stack.enter_context(gateway)
        stack.enter_context(password_service(folder / "postfix" / "queue" / "dovecot"))
        main = deliver_to(sink) + (
            "smtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = dovecot\nsmtpd_sasl_path = dovecot/auth\n"
            "smtpd_tls_auth_only = no\n"
        )
        master = recipe("master.cf", "before").replace("10025", str(gateway.port))
        master = master.replace("127.0.0.1:10026", f"127.0.0.1:{inner}")
        master = master.replace("smtp      inet", f"127.0.0.1:{before} inet")
        master += f"127.0.0.1:{milter} inet n - n - - smtpd\n"
        for line in recipe("main.cf", "milter").replace("8894", str(port)).splitlines():
            master += f"    -o {line.replace(' = ', '=')}\n"
        log = stack.enter_context(postfix(folder / "postfix", main, master, before))
        yield House({"before": before, "milter": milter}, sink, gateway, log)


def own_mail(identity: str) -> bytes:
    """Unsigned mail of a domain whose DMARC policy is p=reject. Each is another one, so that none is a copy."""
    return message(identity, f"Here are the minutes, {identity}", identity).replace(b"example.org", b"house.example")


@pytest.mark.parametrize("kind", ["before", "milter"])
@pytest.mark.parametrize(
    ("address", "login", "reason"),
    [
        (STRANGER, "ann@house.example", "the sender had logged in"),
        (OWN, "", "the message comes from an own network"),
    ],
    ids=["login", "own-network"],
)
def test_mail_of_own_users_is_delivered(house: House, kind: str, address: str, login: str, reason: str) -> None:
    identity = f"{kind}-{'login' if login else 'office'}@x"
    with client_at(address, house.ports[kind]) as client:
        if login:
            client.login(login, PASSWORD)
        client.sendmail("ann@house.example", ["bob@example.com"], own_mail(identity))
    raw = arrived(house.sink, identity)
    assert f'dmarc=none reason="not evaluated, {reason}"'.encode() in raw, house.log.read_text()


# Behind a proxy on this machine Postfix tells SOURCE=LOCAL of everybody.
@pytest.mark.parametrize("source", [ELSEWHERE, HERE], ids=["client", "proxied"])
@pytest.mark.parametrize("kind", ["before", "milter"])
def test_mail_of_strangers_in_the_same_name_is_held(house: House, kind: str, source: str) -> None:
    identity = f"{kind}-stranger-{source}@x"
    with client_at(STRANGER, house.ports[kind], source) as client:
        client.sendmail("ann@house.example", ["bob@example.com"], own_mail(identity))
    # The client has its answer, so it is on disk.
    assert _held(house.gateway, f"<{identity}>".encode()), house.log.read_text()
    assert house.sink.taken[identity] == 0


@pytest.mark.variant
def test_a_milter_that_is_away_is_a_temporary_failure(milter: MilterChain) -> None:
    sink, gateway, port = milter.sink, milter.gateway, milter.ports["unix"]
    gateway.kill()
    with smtplib.SMTP("127.0.0.1", port) as client, pytest.raises(smtplib.SMTPException) as failed:
        client.sendmail("ann@example.org", ["bob@example.com"], message("away@x"))
    assert "451" in str(failed.value)
    # The file of the socket that the kill left behind is replaced.
    gateway.sources = gateway.sources.replace("socketMode", "quarantine: queue, socketMode")
    gateway.start()
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.sendmail("ann@example.org", ["bob@example.com"], message("away@x"))
        client.sendmail("ann@example.org", ["bob@example.com"], message("queue@x", EICAR))
    arrived(sink, "away@x")
    assert sink.taken["away@x"] == 1
    listed = subprocess.run(["postqueue", "-c", milter.postfix / "etc", "-j"], check=True, capture_output=True)
    queued = [json.loads(line) for line in listed.stdout.splitlines()]
    assert [each["queue_name"] for each in queued] == ["hold"], queued
    shown = ["postcat", "-c", milter.postfix / "etc", "-qh", queued[0]["queue_id"]]
    assert "X-Gatepost-Verdict: malware" in subprocess.run(shown, check=True, capture_output=True, text=True).stdout
    assert not _held(gateway, b"<queue@x>")


def test_postfix_knows_the_keys_of_limits_on_strangers(tmp_path: Path) -> None:
    (tmp_path / "main.cf").write_text(recipe("main.cf", "limits"))
    (tmp_path / "master.cf").write_text(recipe("master.cf", "limits"))
    known = subprocess.run(["postconf", "-c", tmp_path, "-d"], check=True, capture_output=True, text=True).stdout
    stated = subprocess.run(["postconf", "-c", tmp_path, "-n"], check=True, capture_output=True, text=True)
    names = {line.partition(" = ")[0] for line in known.splitlines()}
    found = {line.partition(" = ")[0] for line in stated.stdout.splitlines()}
    assert found <= names
    assert {f"smtpd_client_{each}_rate_limit" for each in ("connection", "message", "recipient")} < found
    assert "unused parameter" not in stated.stderr
    services = subprocess.run(["postconf", "-c", tmp_path, "-M"], check=True, capture_output=True, text=True).stdout
    assert [line.split()[-1] for line in services.splitlines()] == ["postscreen", "smtpd", "tlsproxy"]
