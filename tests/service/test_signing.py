"""Signing keys of the settings: what DNS must have, what it has, and what keeps a service from starting."""

from pathlib import Path
from typing import Any

import pytest
from tests.data_folders import write_files

from gatepost.questions import Dns, DnsAnswer
from gatepost.service import signing
from gatepost.service.data_folder import StartError
from gatepost.service.doctor.mail_path import check_signing_keys
from gatepost.service.signing import build_signer, compare_with_dns, make_record, render_record, write_key
from gatepost.settings.faults import ConfigError
from gatepost.settings.files import load_guard


class Names:
    """DNS that answers one thing."""

    answer = DnsAnswer("no-name")

    def __init__(self, *_settings: object) -> None:
        self.asked: list[Dns] = []

    async def ask(self, question: Dns) -> DnsAnswer:
        return self.answer if question.name == "s1._domainkey.own.example" else DnsAnswer("no-name")

    async def close(self) -> None:
        return None


def settings(folder: Path, text: str) -> Any:
    return load_guard(write_files(folder, text))


def configured(folder: Path) -> Any:
    return settings(folder, f"dkim: {{keys: [{{domain: Own.example, selector: s1, file: {folder / 'k.pem'}}}]}}\n")


def test_keys_are_compared_with_dns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "Resolver", Names)
    record = make_record(write_key(tmp_path / "k.pem", "rsa"))
    found = configured(tmp_path)
    spaced = record.replace("p=", "p= ").replace("; k=rsa", "").rstrip("=")
    for answer, state, row in (
        (DnsAnswer("found", ("v=spf1 -all", spaced)), "ok", "ok"),
        (DnsAnswer("found", ("v=DKIM1; p=",)), "different", "fail"),
        (DnsAnswer("no-name"), "missing", "fail"),
        (DnsAnswer("failed"), "unknown", "warn"),
    ):
        monkeypatch.setattr(Names, "answer", answer)
        assert [each.state for each in compare_with_dns(found)] == [state]
        assert [each.state for each in check_signing_keys(found)] == [row]
    (tmp_path / "k.pem").chmod(0o644)
    (broken,) = compare_with_dns(found)
    assert (broken.state, "chmod 0600" in broken.reason) == ("unusable", True)
    with pytest.raises(StartError, match="chmod 0600"):
        build_signer(found, Any)  # type: ignore[arg-type]


def test_a_record_is_written_in_strings_that_dns_takes() -> None:
    line = render_record("s1._domainkey.own.example", "v=DKIM1; p=" + "a" * 400)
    strings = line.split('"')[1::2]
    assert "".join(strings) == "v=DKIM1; p=" + "a" * 400
    assert all(len(each) <= 255 for each in strings)


def test_two_keys_under_one_name(tmp_path: Path) -> None:
    write_key(tmp_path / "k.pem", "ed25519")
    key = f"{{domain: own.example, selector: s1, file: {tmp_path / 'k.pem'}}}"
    with pytest.raises(ConfigError, match="has domain and selector of the key before"):
        settings(tmp_path, f"dkim: {{keys: [{key}, {key}]}}\n")
