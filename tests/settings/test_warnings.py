"""What is allowed and hardly wanted is named by `config check`; certificates and keys are loaded."""

import json
import random
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.data_folders import write_files
from tests.settings.refusals import find_faults

from gatepost.service import certificates
from gatepost.service.doctor import examination
from gatepost.service.doctor.rows import read_files
from gatepost.settings.consistency import describe_weakness
from gatepost.settings.files import find_warnings, load, load_abby

GOOD = secrets.token_hex(32)
CORE = 'serviceProviders: {core: {hosts: ["https://127.0.0.1:9785"]}}\n'


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "password",
        "deadbeef",
        "<ACCESS_TOKEN>",
        "64 hex digits",
        "changeme" * 8,
        "deadbeef" * 8,
        "a" * 64,
        "0123456789abcdef" * 4,
        "your-token-here-your-token-here-00",
        "s3cr3t",
        "{{ token }}",
        "12345678901234567890",
    ],
)
def test_weak_tokens_are_named(tmp_path: Path, token: str) -> None:
    abby = f"{CORE}staticApiTokens:\n  - {{name: mta, token: {json.dumps(token)}}}\n"
    (warning,) = find_warnings(write_files(tmp_path, "scanSources:\n  restApi {}\n", abby))
    assert (warning.key, warning.line) == ("staticApiTokens[0].token", 3)
    assert "placeholder" in warning.sentence or "weak" in warning.sentence
    assert token not in warning.sentence or len(token) < 2


def test_strong_ones_are_not() -> None:
    # The same ones each time: of 300,000 short ones, one has no more than eight different digits.
    chance = random.Random(1)
    for _ in range(2_000):
        assert not describe_weakness(chance.randbytes(32).hex())
        assert not describe_weakness(chance.randbytes(16).hex())


def test_a_missing_token_and_a_missing_next_hop(tmp_path: Path) -> None:
    folder = write_files(tmp_path, "scanSources:\n  restApi {}\n  smtp {}\n", CORE)
    found = {warning.key: warning.sentence for warning in find_warnings(folder)}
    assert set(found) == {"staticApiTokens", "scanSources.smtp"}
    assert "has no token" in found["staticApiTokens"]
    assert "nextHop" in found["scanSources.smtp"]
    row = examination.describe_files(read_files(folder), folder)
    assert row.state == "warn"
    assert "has no token" in row.found
    assert "nextHop" in row.found
    quiet = write_files(tmp_path, "scanSources: {smtp: {}}\ndelivery: {nextHop: smtp://127.0.0.1:1}\n", CORE)
    assert find_warnings(quiet) == []


def test_secrets_between_the_services(tmp_path: Path) -> None:
    guard = "scanSources: {restApi: {secret: hunter2}}\n"
    abby = CORE.replace("}}\n", ", secret: hunter2}}\n") + f"staticApiTokens: [{{name: a, token: {GOOD}}}]\n"
    keys = {warning.key for warning in find_warnings(write_files(tmp_path, guard, abby))}
    assert keys == {"scanSources.restApi.secret", "serviceProviders.core.secret"}


def make_pair(folder: Path, name: str, now: datetime | None = None) -> tuple[Path, Path]:
    chain, key = certificates.sign_certificate(["127.0.0.1"], now or datetime.now(UTC))
    (folder / f"{name}.pem").write_bytes(chain)
    (folder / f"{name}.key").write_bytes(key)
    return folder / f"{name}.pem", folder / f"{name}.key"


def with_tls(folder: Path, certificate: Path, key: Path) -> Path:
    tls = f"tls: {{certificate: {certificate}, key: {key}}}\nstaticApiTokens: [{{name: a, token: {GOOD}}}]\n"
    return write_files(folder, "scanSources:\n  restApi {}\n", CORE + tls)


def faults_of(folder: Path) -> list[tuple[str, str]]:
    found = find_faults(load, folder, certificates=True)
    assert found == find_faults(load_abby, folder, certificates=True)
    return [(fault.key, fault.sentence) for fault in found]


def test_a_pair_that_fits(tmp_path: Path) -> None:
    folder = with_tls(tmp_path, *make_pair(tmp_path, "good"))
    assert load(folder, certificates=True).abby.tls is not None
    assert find_warnings(folder) == []


def encrypt(key: Path) -> None:
    made = ec.generate_private_key(ec.SECP256R1())
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key.write_bytes(made.private_bytes(*form, serialization.BestAvailableEncryption(b"x")))


@pytest.mark.parametrize(
    ("spoil", "key", "said"),
    [
        (lambda pair, other: pair[1].write_bytes(other[1].read_bytes()), "tls.key", "does not belong to"),
        (lambda pair, _other: encrypt(pair[1]), "tls.key", "is encrypted"),
        (lambda pair, _other: pair[1].write_text("no key"), "tls.key", "no PEM file with a private key"),
        (lambda pair, _other: pair[1].write_bytes(b""), "tls.key", "no PEM file with a private key"),
        (
            lambda pair, _other: pair[0].write_text("no certificate"),
            "tls.certificate",
            "no PEM file with a certificate",
        ),
        (lambda pair, _other: pair[0].write_bytes(pair[1].read_bytes()), "tls.certificate", "no PEM file"),
    ],
)
def test_pairs_that_do_not_fit(tmp_path: Path, spoil: Any, key: str, said: str) -> None:
    pair, other = make_pair(tmp_path, "one"), make_pair(tmp_path, "other")
    spoil(pair, other)
    ((found, sentence),) = faults_of(with_tls(tmp_path, *pair))
    assert found == key
    assert said in sentence


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = make_pair(tmp_path, "one")
    folder = with_tls(tmp_path, *pair)
    plain = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path == pair[1]:
            raise PermissionError(13, "Permission denied")
        return plain(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    ((key, sentence),) = faults_of(folder)
    assert key == "tls.key"
    assert "permission denied" in sentence
    assert load(folder).abby.tls is not None  # commands that need no certificate go on


def test_an_authority_that_is_no_pem(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    core = CORE.replace("}}\n", f", ca: {tmp_path / 'ca.pem'}}}}}\n")
    ((key, sentence),) = faults_of(write_files(tmp_path, "scanSources:\n  restApi {}\n", core))
    assert key == "serviceProviders.core.ca"
    assert "no PEM file with certificates" in sentence


@pytest.mark.parametrize(("days", "said"), [(-3700, "expired on"), (-3645, "expires on"), (40, "is not valid before")])
def test_certificates_that_are_not_valid(tmp_path: Path, days: int, said: str) -> None:
    folder = with_tls(tmp_path, *make_pair(tmp_path, "old", datetime.now(UTC) + timedelta(days=days)))
    load(folder, certificates=True)
    (warning,) = find_warnings(folder)
    assert warning.key == "tls.certificate"
    assert said in warning.sentence


@pytest.mark.parametrize(
    ("guard", "abby", "key", "said"),
    [
        ("", "tls: false\n", "tls", "the word off"),
        ("", "tls: Off\n", "tls", "the word off"),
        ("", "tls: on\n", "tls", "certificate and key"),
        ("scanSources: {smtp: {tls: false}}\n", "", "scanSources.smtp.tls", "the word off"),
        ("analysisTimeout: 1000\nstageLimit: 2000\n", "", "stageLimit", "more than analysisTimeout"),
        ("clamd: {address: ''}\n", "", "clamd.address", "host:port"),
        ("delivery: {nextHop: 'smtp://u:hunter2@h'}\n", "", "delivery.nextHop", "stand under auth"),
        ("scanSources: {smtp: {xclientHosts: [0.0.0.0/0]}}\n", "", "scanSources.smtp.xclientHosts[0]", "too wide"),
        ("tenants: {co.uk: 0198c5a2-7c11-7d3e-9f00-00000000aa01}\n", "", "tenants.co.uk", "public suffix"),
        ("", "listen: {host: '*'}\n", "listen.host", "::"),
        ("", "listen: {host: [127.0.0.1, 999.1.1.1]}\n", "listen.host[1]", "an address or a host name"),
        ("", "staticApiTokens: [{name: a, token: x}, {name: a, token: y}]\n", "staticApiTokens[1].name", "another"),
    ],
)
def test_wrong_values_are_refused(tmp_path: Path, guard: str, abby: str, key: str, said: str) -> None:
    (fault,) = find_faults(load, write_files(tmp_path, guard or "scanSources: {}\n", CORE + abby))
    assert fault.key.startswith(key)
    assert said in fault.sentence
    assert "hunter2" not in str(fault)


def test_a_file_in_a_folder_that_may_not_be_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = with_tls(tmp_path, *make_pair(tmp_path, "one"))

    def refuse(_path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    keys = [key for key, sentence in faults_of(folder) if "permission denied" in sentence]
    assert keys == ["tls.certificate", "tls.key"]
