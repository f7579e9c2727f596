"""Delivery to a real Dovecot over LMTP, and AUTH at a real Postfix whose passwords Dovecot checks."""

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from bench.gateway import postfix, postfix_missing
from bench.ports import free_port

from gatepost.service.certificates import sign_certificate
from gatepost.smtp.next_hop import Credentials, NextHopError, authenticate
from gatepost.smtp.routing import HopTls, Relay, Route, Routing, Tls

# Debian has LMTP in a package of its own, dovecot-lmtpd.
HAS_LMTP = shutil.which("dovecot") and Path("/usr/lib/dovecot/lmtp").exists()
MISSING = "Dovecot with LMTP is not installed" if not HAS_LMTP else "it needs root" if os.geteuid() else None
pytestmark = pytest.mark.skipif(MISSING is not None, reason=f"not run: {MISSING}")

PASSWORD = "eight ducks, two =geese"
RAW = b"From: a@x.example\r\nSubject: over LMTP\r\nMessage-ID: <lmtp@x>\r\n\r\n.dot\r\n"

CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = lmtp
ssl = no
first_valid_uid = 1
disable_plaintext_auth = no
auth_mechanisms = plain login scram-sha-1 scram-sha-256
mail_location = maildir:~/Maildir
passdb {{
  driver = passwd-file
  args = {folder}/users
}}
userdb {{
  driver = passwd-file
  args = {folder}/users
}}
service lmtp {{
  unix_listener {folder}/lmtp {{
    mode = 0666
  }}
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {port}
  }}
}}
service auth {{
  unix_listener {folder}/auth {{
    mode = 0666
  }}
}}
"""


class Dovecot(msgspec.Struct, frozen=True):
    folder: Path
    port: int

    def mails(self, user: str) -> list[bytes]:
        found = (self.folder / "mail" / user / "Maildir" / "new").glob("*")
        return [file.read_bytes() for file in found]


@pytest.fixture(scope="module")
def dovecot() -> Iterator[Dovecot]:
    with tempfile.TemporaryDirectory(prefix="gatepost-dovecot-") as name:
        folder, port = Path(name), free_port()
        folder.chmod(0o755)
        (folder / "mail").mkdir()
        shutil.chown(folder / "mail", "nobody", "nogroup")
        lines = [
            f"{user}@y.example:{{PLAIN}}{PASSWORD}:65534:65534::{folder}/mail/{user}" for user in ("bob", "eve", "gate")
        ]
        (folder / "users").write_text("\n".join(lines) + "\n")
        (folder / "dovecot.conf").write_text(CONFIG.format(folder=folder, port=port))
        with subprocess.Popen(["dovecot", "-F", "-c", str(folder / "dovecot.conf")], start_new_session=True) as process:
            try:
                _await_port(port, process)
                yield Dovecot(folder, port)
            finally:
                process.terminate()
                process.wait(180)


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        assert process.poll() is None, "Dovecot ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return
        time.sleep(0.05)
    raise TimeoutError("Dovecot does not listen")


async def test_mail_is_delivered_over_lmtp(dovecot: Dovecot) -> None:
    for count, url in enumerate((f"lmtp:{dovecot.folder}/lmtp", f"lmtp://127.0.0.1:{dovecot.port}"), 1):
        routing = Routing.through(Relay(url, "opportunistic", "gate.example"))
        routing.start()
        everybody = ("bob@y.example", "eve@y.example", "nobody@y.example")
        sent = await routing.send("a@x.example", everybody, RAW, {})
        assert sent.recipients == everybody[:2]
        assert sent.reply.code == 550, sent
        assert "8BITMIME" in await routing.features()
        await routing.close()
        for user in ("bob", "eve"):
            found = dovecot.mails(user)
            assert len(found) == count
            assert all(b"Subject: over LMTP" in each and each.endswith(b"\n.dot\n") for each in found)


@pytest.mark.skipif(postfix_missing() is not None, reason=f"not run: {postfix_missing()}")
def test_auth_and_certificates_at_a_real_postfix(dovecot: Dovecot, tmp_path: Path) -> None:
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="gatepost-auth-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        chain, key = sign_certificate(["127.0.0.1"], datetime.now(UTC))
        own_chain, own_key = sign_certificate(["gate.example"], datetime.now(UTC))
        for file, content in (("hop", chain + key), ("ca", chain), ("own", own_chain), ("key", own_key)):
            (folder / f"{file}.pem").write_bytes(content)
        main = (
            f"smtpd_tls_cert_file = {folder}/hop.pem\nsmtpd_tls_key_file = {folder}/hop.pem\n"
            "smtpd_tls_security_level = may\nsmtpd_tls_ask_ccert = yes\nsmtpd_tls_loglevel = 1\n"
            "smtpd_tls_received_header = yes\nsmtpd_tls_fingerprint_digest = sha256\n"
            f"smtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = dovecot\nsmtpd_sasl_path = {dovecot.folder}/auth\n"
            "smtpd_relay_restrictions = permit_sasl_authenticated, reject\ndefault_transport = discard:\n"
            "relay_transport = discard:\nmynetworks = 192.0.2.1\n"
        )
        master = f"127.0.0.1:{port} inet n - n - - smtpd\n"
        with postfix(folder / "postfix", main, master, port) as log:
            asyncio.run(_use_postfix(port, folder))
            text = log.read_text()
        assert "sasl_method=SCRAM-SHA-256, sasl_username=gate@y.example" in text, text
        # Postfix asks for a certificate and gets ours, whose authority it does not know; else it would say Anonymous.
        assert "Untrusted TLS connection established" in text, text
        assert "Anonymous TLS connection" not in text


async def _use_postfix(port: int, folder: Path) -> None:
    url, me = f"smtp://127.0.0.1:{port}", Credentials("gate@y.example", PASSWORD)

    def relay(mode: Tls, credentials: Credentials | None, ca: str | None = "ca.pem") -> Relay:
        files = HopTls(mode, ca and str(folder / ca), str(folder / "own.pem"), str(folder / "key.pem"))
        return Relay(url, mode, "gate.example", hop_tls=files, credentials=credentials)

    # SCRAM in clear, and whatever is preferred under a certificate of a private authority.
    for mode in ("off", "verified"):
        each = relay(mode, me)
        assert (await Route("r", [each]).send("a@x.example", ("b@example.com",), RAW))[1].positive
        await each.close()
    for mechanism in ("PLAIN", "LOGIN", "SCRAM-SHA-1"):
        each = relay("verified", None)
        link = await each.borrow()
        link.features["AUTH"] = mechanism
        await authenticate(link, me)
        each.give_back(link)
        await each.close()
    with pytest.raises(NextHopError, match="answered 535 to AUTH"):
        await relay("verified", Credentials("gate@y.example", "wrong")).borrow()
    with pytest.raises(NextHopError, match="could not start TLS"):
        await relay("verified", me, ca=None).borrow()
    refused = relay("verified", None)
    assert (await Route("r", [refused]).send("a@x.example", ("b@example.com",), RAW))[1].code == 554
    await refused.close()
