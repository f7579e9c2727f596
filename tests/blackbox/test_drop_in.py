"""docs/drop-in.md with the real clients: spamc, rspamc and Exim ask a guard that runs."""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.gateway import Gateway
from bench.ports import free_port, free_ports
from tests.doc_blocks import blocks_of

EICAR = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
CLEAN = (
    b"From: Ann <ann@example.org>\nTo: bob@example.com\nSubject: Minutes\nDate: Tue, 10 Nov 2026 09:12:00 +0000\n"
    b"Message-ID: <1@example.org>\n\nHello Bob,\n\nhere are the minutes of Monday.\n"
)
VIRUS = CLEAN.replace(b"Message-ID", b"MIME-Version: 1.0\nContent-Disposition: attachment; filename=a.com\nMessage-ID")
VIRUS = VIRUS.partition(b"\n\n")[0] + b"\n\n" + EICAR.encode() + b"\n"


class Ports:
    """The ports of one guard."""

    def __init__(self, spamd: int, rspamd: int) -> None:
        self.spamd, self.rspamd = spamd, rspamd


@pytest.fixture(scope="module")
def guard() -> Iterator[Ports]:
    ports = Ports(*free_ports(2))
    sources = f"  spamd: {{listen: '127.0.0.1:{ports.spamd}'}}\n  rspamd: {{listen: '127.0.0.1:{ports.rspamd}'}}\n"
    with tempfile.TemporaryDirectory(prefix="gatepost-drop-in-") as name, contextlib.ExitStack() as stack:
        stack.enter_context(Gateway(Path(name), free_port(), sources=sources))
        yield ports


def need(program: str) -> str:
    """The path of a program; without it the test is reported as not run."""
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin")
    if found is None:
        pytest.skip(f"not run: there is no {program}")
    return found


def call(*command: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, input=given, capture_output=True, timeout=180, check=False)


def test_spamc(guard: Ports) -> None:
    spamc = (need("spamc"), "-p", str(guard.spamd), "-x")
    assert call(*spamc, "-K").stdout == b"SPAMD/1.5 0\n"
    for message, is_spam in ((CLEAN, False), (VIRUS, True)):
        checked = call(*spamc, "-c", given=message)
        score, required = map(float, checked.stdout.split(b"/"))
        assert (checked.returncode, score >= required) == (int(is_spam), is_spam)
        processed = call(*spamc, "-u", "bob@example.com", given=message)
        assert processed.returncode == 0
        assert (b"\nX-Spam-Flag: YES\n" in processed.stdout) == is_spam
        assert processed.stdout.endswith(message.partition(b"\n\n")[2])
        assert call(*spamc, "--headers", given=message).stdout.endswith(message.partition(b"\n\n")[2])
    assert b"FILE_EICAR," in call(*spamc, "-y", given=VIRUS).stdout
    assert b"malware, decision quarantine." in call(*spamc, "-R", given=VIRUS).stdout
    assert call(*spamc, "-z", "-c", given=VIRUS).returncode in (1, 64)  # 64: this spamc was built without zlib
    assert call(*spamc, "-L", "spam", given=VIRUS).returncode != 0


def test_rspamc(guard: Ports) -> None:
    rspamc = (need("rspamc"), "-h", f"127.0.0.1:{guard.rspamd}")
    envelope = ("--ip", "192.0.2.1", "--helo", "x.example", "-F", "ann@example.org", "-r", "bob@example.com")
    for message, action in ((CLEAN, b"no action"), (VIRUS, b"add header")):
        said = call(*rspamc, *envelope, "symbols", given=message)
        assert said.returncode == 0
        assert b"Action: " + action in said.stdout
    assert b"Symbol: FILE_EICAR" in said.stdout
    assert call(*rspamc, "learn_spam", given=VIRUS).returncode != 0


def send_through_exim(folder: Path, address: str, acl: str) -> list[bytes]:
    """What Exim answers to a clean message and to a virus, and then keeps in its queue below `folder`."""
    exim, settings = need("exim4"), folder / "exim.conf"
    settings.write_text(
        f"primary_hostname = mx.example\nexim_user = root\nexim_group = root\nlog_file_path = {folder}/%slog\n"
        f"spool_directory = {folder}/spool\nspamd_address = {address}\nacl_smtp_rcpt = accept\n"
        f"acl_smtp_data = check\nqueue_only\nbegin acl\ncheck:\n{acl}\naccept\n"
    )
    said = []
    for message in (CLEAN, VIRUS):
        data = message.replace(b"\n", b"\r\n")
        session = b"EHLO x.example\r\nMAIL FROM:<ann@example.org>\r\nRCPT TO:<bob@example.com>\r\nDATA\r\n" + data
        ended = call(exim, "-C", str(settings), "-oMa", "192.0.2.9", "-bs", given=session + b".\r\nQUIT\r\n")
        said.append(ended.stdout + ended.stderr)
    return said


def test_exim_as_its_page_says(guard: Ports, tmp_path: Path) -> None:
    texts = [block.code for block in blocks_of("text") if block.page.endswith("exim.md")]
    (line,) = (text for text in texts if text.startswith("spamd_address = "))
    (acl,) = (text for text in texts if text.startswith("deny "))
    address = line.partition(" = ")[2].strip().replace("11333", str(guard.rspamd))
    clean, virus = send_through_exim(tmp_path, address, acl)
    assert b"250 OK id=" in clean, clean
    assert b"250 OK id=" in virus, virus
    kept = sorted(file.read_text() for file in (tmp_path / "spool/input").glob("*-H"))
    assert sorted("X-Spam-Action: add header" in text for text in kept) == [False, True]
    assert sorted("X-Spam-Action: no action" in text for text in kept) == [False, True]


@pytest.mark.parametrize("variant", ["rspamd", "spamd"])
def test_exim_refuses(guard: Ports, tmp_path: Path, variant: str) -> None:
    address = f"127.0.0.1 {guard.rspamd} variant=rspamd" if variant == "rspamd" else f"127.0.0.1 {guard.spamd}"
    acl = "deny spam = nobody\n    message = refused: $spam_action, $spam_score"
    clean, virus = send_through_exim(tmp_path, address, acl)
    assert b"250 OK id=" in clean, clean
    assert (b"550 refused: add header, " if variant == "rspamd" else b"550 refused: ") in virus, virus
