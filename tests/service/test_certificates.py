"""The self-signed certificate, as a client sees it."""

import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gatepost.service import certificates
from gatepost.service.data_folder import DataFolder


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
    assert certificates.read_expiry(data.certificate.read_bytes()) - datetime.now(UTC) > timedelta(days=3000)
    assert stat.S_IMODE(data.key.stat().st_mode) == 0o600


def test_it_is_made_once_and_a_half_is_made_anew(data: DataFolder) -> None:
    before = data.certificate.read_bytes()
    certificates.ensure_certificate(data)
    assert data.certificate.read_bytes() == before
    data.key.unlink()
    certificates.ensure_certificate(data)
    assert data.certificate.read_bytes() != before
    shake(data, "localhost", False)
