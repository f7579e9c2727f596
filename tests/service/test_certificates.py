"""The self-signed certificate, as a client sees it, and which certificate takes the place of another."""

import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gatepost.process import logs
from gatepost.service import certificates
from gatepost.service.certificates import CertificatesInUse, CertificateWatch, load_certificates, sign_certificate
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.plan import Plan
from gatepost.settings.consistency import read_validity
from gatepost.settings.keys import GuardSettings


@pytest.fixture
def data(tmp_path: Path) -> DataFolder:
    made = DataFolder(tmp_path)
    certificates.ensure_certificate(made, ["192.0.2.7", "mail.example"])
    return made


def shake(data: DataFolder, name: str, strict: bool) -> None:
    """A handshake over a socket pair with a client that trusts only this certificate."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(data.certificate, data.key)
    client = ssl.create_default_context(cafile=str(data.certificate))
    if strict:
        client.verify_flags |= ssl.VERIFY_X509_STRICT
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=lambda: _serve(server, theirs))
    thread.start()
    try:
        with ours:
            client.wrap_socket(ours, server_hostname=name).close()
    finally:
        thread.join()


def _serve(context: ssl.SSLContext, sock: socket.socket) -> None:
    with sock:
        try:
            context.wrap_socket(sock, server_side=True).close()
        except OSError:
            pass


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1", "192.0.2.7", "mail.example"])
@pytest.mark.parametrize("strict", [False, True])
def test_it_is_good_for_its_names(data: DataFolder, name: str, strict: bool) -> None:
    shake(data, name, strict)


def test_it_is_good_for_no_other_name(data: DataFolder) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(data, "other.example", False)


def test_it_lasts_and_its_key_is_private(data: DataFolder) -> None:
    assert read_validity(data.certificate.read_bytes())[1] - datetime.now(UTC) > timedelta(days=3000)
    assert stat.S_IMODE(data.key.stat().st_mode) == 0o600


def test_it_is_made_once_and_a_half_is_made_anew(data: DataFolder) -> None:
    before = data.certificate.read_bytes()
    certificates.ensure_certificate(data)
    assert data.certificate.read_bytes() == before
    data.key.unlink()
    certificates.ensure_certificate(data)
    assert data.certificate.read_bytes() != before
    shake(data, "localhost", False)


class Watched:
    """A plan with one pair in files, which ports and next hops are shown; `shown` has what was taken over."""

    def __init__(self, folder: Path) -> None:
        self.now = datetime.now(UTC)
        self.chain, self.key = folder / "chain.pem", folder / "own.key"
        self.write(*self.sign())
        pair = {"certificate": str(self.chain), "key": str(self.key)}
        settings = GuardSettings.model_validate({"tls": pair, "delivery": {"nextHop": "smtp://a", **pair}})
        self.plan = Plan(DataFolder(folder), settings)
        self.shown: list[str] = []
        self.watch = CertificateWatch(
            self.plan,
            self.show_ports,
            lambda: self.shown.append("next hops"),
            lambda _ca: None,
        )

    async def show_ports(self, _plan: Plan, _contexts: object) -> None:
        self.shown.append("ports")

    def sign(self, days: int = 0) -> tuple[bytes, bytes]:
        """Return a pair that is valid from so many days after now, and the grace before that, for ten years."""
        return sign_certificate(["localhost"], self.now + timedelta(days=days))

    def write(self, chain: bytes, key: bytes) -> None:
        for path, content in ((self.chain, chain), (self.key, key)):
            path.with_suffix(".new").write_bytes(content)
            path.with_suffix(".new").replace(path)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    made = Watched(tmp_path)
    monkeypatch.setattr(certificates, "in_use", CertificatesInUse(lambda: made.now))
    assert list(load_certificates(made.plan)) == ["guard"]
    return made


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("expired", "expired on"),
        ("not yet valid", "is not valid before"),
        ("another key", "cannot be used with the key"),
        ("half a file", "cannot be used with the key"),
    ],
)
async def test_what_clients_refuse_never_takes_the_place_of_a_valid_one(
    wrong: str, reason: str, watched: Watched, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure("info", "json")
    chain, key = watched.sign({"expired": -4_000, "not yet valid": 30}.get(wrong, 0))
    await watched.watch.look()
    watched.write(
        chain[:200] if wrong == "half a file" else chain, watched.sign()[1] if wrong == "another key" else key
    )
    for _ in range(3):
        await watched.watch.look()
    assert watched.shown == []
    assert watched.watch.fault.count("the one before is in use") == 2
    logged = [line for line in capsys.readouterr().err.splitlines() if "not taken over" in line]
    assert len(logged) == 2, "once for the ports and once for next hops"
    assert all(reason in line and '"level":"warning"' in line.replace(": ", ":") for line in logged)
    with pytest.raises(StartError, match=reason):
        load_certificates(watched.plan)
    watched.write(*watched.sign())
    await watched.watch.look()
    assert watched.shown == ["ports", "next hops"]
    assert watched.watch.fault == ""


async def test_what_is_not_valid_yet_is_taken_over_once_it_is(watched: Watched) -> None:
    await watched.watch.look()
    watched.write(*watched.sign(30))
    await watched.watch.look()
    assert watched.shown == []
    watched.now += timedelta(days=31)
    await watched.watch.look()
    assert watched.shown == ["ports", "next hops"]


async def test_where_the_one_before_has_expired_too_the_file_counts(watched: Watched) -> None:
    await watched.watch.look()
    watched.write(*watched.sign(-10))
    watched.now += timedelta(days=3_700)
    await watched.watch.look()
    assert watched.shown == ["ports", "next hops"]
