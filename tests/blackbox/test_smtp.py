"""guard as a gateway, a real process: Python's smtplib and swaks deliver through it, and nothing is lost."""

import random
import shutil
import smtplib
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from email import policy
from email.message import EmailMessage
from pathlib import Path

import httpx
import pytest
from bench import large
from bench.gateway import Gateway, Sink, held_mail
from bench.noloss import trial
from bench.ports import free_port
from tests.blackbox.conftest import wait_for
from tests.conftest import MailSink

EICAR = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.close()


@pytest.fixture(scope="module")
def gateway(sink: Sink, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    figures = f"metrics: {{listen: '127.0.0.1:{free_port()}'}}\n"
    folder = tmp_path_factory.mktemp("gateway")
    with Gateway(folder, sink.port, smtp=", hostname: gate.example", more=figures) as made:
        yield made


def mail(identity: str, text: str = "Hello Bob") -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "Ann <ann@example.org>", "bob@example.com", "Minutes"
    message["Date"], message["Message-ID"] = "Tue, 10 Nov 2026 09:12:00 +0000", f"<{identity}>"
    message.set_content(text)
    return message


def test_smtplib_delivers_in_clear_and_under_tls(gateway: Gateway, sink: Sink) -> None:
    context = ssl.create_default_context(cafile=str(gateway.folder / "tls" / "certificate.pem"))
    context.check_hostname = False
    with smtplib.SMTP("127.0.0.1", gateway.port) as client:
        assert client.send_message(mail("clear@x")) == {}
        client.starttls(context=context)
        assert client.send_message(mail("secure@x")) == {}
        client.send_message(mail("wide@x", "ä" * 100), mail_options=["BODY=8BITMIME"])
    assert sink.taken["clear@x"] == sink.taken["secure@x"] == sink.taken["wide@x"] == 1
    secure = next(raw for raw in sink.messages if b"<secure@x>" in raw)
    assert b"with ESMTPS" in secure
    assert secure.startswith(b"Authentication-Results: gate.example;")
    assert b"X-Gatepost-Verdict: clean" in secure


def test_malware_is_held_and_not_delivered(gateway: Gateway, sink: Sink) -> None:
    with smtplib.SMTP("127.0.0.1", gateway.port) as client:
        client.send_message(mail("virus@x", EICAR))
    assert sink.taken["virus@x"] == 0
    assert [raw for raw in held_mail(gateway.folder).values() if b"<virus@x>" in raw]


def test_a_core_without_http_tells_its_figures(gateway: Gateway) -> None:
    with smtplib.SMTP("127.0.0.1", gateway.port) as client:
        client.send_message(mail("figures@x", EICAR))
    address = gateway.more.partition("'")[2].partition("'")[0]
    text = httpx.get(f"http://{address}/metrics", trust_env=False).text
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(figures["gatepost_quarantine_kept_total"]) >= 1
    assert float(figures['gatepost_smtp_messages_total{answer="2xx"}']) >= 1
    assert "gatepost_quarantine_held" in figures
    labels = f'{{next_hop="smtp://127.0.0.1:{gateway.next_hop}",route="default"}}'
    assert float(figures[f"gatepost_relay_connections_total{labels}"]) >= 1
    assert float(figures[f"gatepost_next_hop_up{labels}"]) == 1


@pytest.mark.variant
def test_a_next_hop_that_defers_everything_is_not_green(next_hop: MailSink, tmp_path: Path) -> None:
    metrics = f"127.0.0.1:{free_port()}"
    port = int(next_hop.url.rpartition(":")[2])

    def figures() -> dict[str, str]:
        text = httpx.get(f"http://{metrics}/metrics", trust_env=False).text
        return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

    with Gateway(tmp_path, port, more=f"metrics: {{listen: '{metrics}'}}\n") as gateway:
        with smtplib.SMTP("127.0.0.1", gateway.port) as client:
            client.send_message(mail("before@x"))
            assert float(figures()["gatepost_queue_status"]) == 0
            next_hop.answers["MAIL"] = "451 4.3.0 The mailbox store is full"
            for number in range(5):
                with pytest.raises(smtplib.SMTPSenderRefused, match=r"mailbox store is full"):
                    client.send_message(mail(f"{number}@x"))
            now = figures()
        wait_for(lambda: "next hops do not take mail" in (tmp_path / "guard.log").read_text("utf-8"))
    assert float(now["gatepost_queue_status"]) == 1, "the status is asked when it is read"
    assert float(now['gatepost_next_hop_answers_total{answer="4xx",route="default",stage="MAIL"}']) == 5
    assert "answers 451 4.3.0 to MAIL, 5 of 6 times" in (tmp_path / "guard.log").read_text("utf-8")


def test_a_large_message_goes_through_unchanged(gateway: Gateway, sink: Sink) -> None:
    large = mail("large@x", ".\n..\n.x\nSee the attachment.")
    large.add_attachment(random.Random(1).randbytes(3_000_000), maintype="image", subtype="x-raw", filename="scan.raw")
    raw = large.as_bytes(policy=policy.SMTP)
    with smtplib.SMTP("127.0.0.1", gateway.port) as client:
        client.sendmail("ann@example.org", ["bob@example.com"], raw)
    taken = next(each for each in sink.messages if b"<large@x>" in each)
    assert taken.replace(b"\r\n..", b"\r\n.").endswith(raw)


@pytest.mark.variant
@pytest.mark.parametrize("chunked", [False, True], ids=["DATA", "BDAT"])
def test_the_largest_message_is_spooled_to_disk(chunked: bool, tmp_path: Path) -> None:
    with closing(Sink()) as sink, Gateway(tmp_path, sink.port, more=large.PATIENT) as gateway:
        passage = large.passed(gateway, sink, chunked=chunked)
    assert passage.reply.startswith(b"250"), passage
    assert passage.whole
    # While it comes in it is on disk; guard has it in memory once, for its worker, whose own limit is workerMemory.
    assert passage.receiving < 12 << 20, passage
    assert passage.guard < large.SIZE * 3 // 2, passage


@pytest.mark.skipif(not shutil.which("swaks"), reason="not run: swaks is not installed")
@pytest.mark.parametrize("options", [[], ["--pipeline"], ["--tls"], ["--protocol", "SMTP"]], ids=" ".join)
def test_swaks_delivers(options: list[str], gateway: Gateway, sink: Sink) -> None:
    if "--tls" in options and "TLS supported" not in swaks_features():
        pytest.skip("not run: swaks has no TLS (Debian: apt-get install libnet-ssleay-perl)")
    before = len(sink.messages)
    arguments = f"--server 127.0.0.1 --port {gateway.port} --from ann@example.org --to bob@example.com".split()
    ended = subprocess.run(["swaks", *arguments, *options], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert len(sink.messages) == before + 1


def swaks_features() -> str:
    """What swaks can do with the Perl modules that are there."""
    return subprocess.run(["swaks", "--support"], capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize(("messages", "kills"), [(120, 1), pytest.param(400, 6, marks=pytest.mark.long)])
def test_nothing_is_lost_when_guard_is_killed_and_the_next_hop_fails(tmp_path: Path, messages: int, kills: int) -> None:
    result = trial(messages=messages, connections=20, kills=kills, folder=tmp_path)
    assert result.account.kills == kills
    assert not result.lost
    assert not result.unexplained
    assert len(result.account.accepted | result.account.refused) == messages
    assert result.held >= 10
    assert sum(result.failures.values()) > 20
