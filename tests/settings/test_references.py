"""`${env:NAME}` and `${file:PATH}`: secrets that do not stand in the configuration files."""

from pathlib import Path

import pytest
from tests.data_folders import write_files
from tests.settings.refusals import find_faults

from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder
from gatepost.settings.files import ABBY_FILE, differing_settings, load, load_abby

SECRET = "3f9a5c1e7b2d8064e1f0a3b5c7d9" * 2
ABBY = """\
serviceProviders:
  core: {{hosts: ["https://127.0.0.1:9785"], secret: "{secret}"}}
staticApiTokens:
  - {{name: mta, token: "{token}"}}
storage: {{url: "{storage}"}}
"""


def write(folder: Path, *, secret: str = "s", token: str = "t", storage: str = "sqlite:g.db") -> Path:
    return write_files(folder, abby=ABBY.format(secret=secret, token=token, storage=storage))


def fault_of(folder: Path) -> str:
    (fault,) = find_faults(load_abby, folder)
    assert SECRET not in str(fault)
    assert fault.line > 1
    return f"{fault.key} {fault.sentence}"


def test_values_come_from_the_environment_and_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEPOST_TEST_SECRET", SECRET)
    (tmp_path / "token").write_text(f"{SECRET}\n")
    (tmp_path / ABBY_FILE).parent.mkdir(parents=True)
    (tmp_path / ABBY_FILE.parent / "near").write_text("u:p w")
    folder = write(
        tmp_path,
        secret="${env:GATEPOST_TEST_SECRET}",
        token=f"a-${{file:{tmp_path / 'token'}}}-z",
        storage="postgresql://${file:near}@db/${env:GATEPOST_TEST_SECRET}",
    )
    abby = load_abby(folder)
    assert abby.service_providers.core.secret == SECRET
    assert abby.static_api_tokens[0].token == f"a-{SECRET}-z"
    assert abby.storage.url == f"postgresql://u:p w@db/{SECRET}"
    assert "u:p w" not in str(differing_settings(abby))


def test_a_dollar_sign_can_be_written(tmp_path: Path) -> None:
    token = load_abby(write(tmp_path, token="a$b$${env:HOME}$")).static_api_tokens[0].token
    assert token == "a$b${env:HOME}$"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${env:GATEPOST_NOT_SET}", "needs the environment variable GATEPOST_NOT_SET, which is not set"),
        ("${env:GATEPOST_EMPTY}", "which is empty"),
        ("${env:}", "names no environment variable"),
        ("${env:A B}", "names no environment variable"),
        ("${GATEPOST_NOT_SET}", "neither ${env:NAME} nor ${file:PATH}"),
        ("${vault:x}", "neither ${env:NAME} nor ${file:PATH}"),
        ("${env:HOME", "neither ${env:NAME} nor ${file:PATH}"),
        ("${file:absent}", "no such file"),
        ("${file:empty}", "which is empty"),
        ("${file:.}", "is a directory"),
        ("${file:binary}", "not text in UTF-8"),
        ("${file:large}", "larger than 64 KiB"),
    ],
)
def test_references_that_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    monkeypatch.delenv("GATEPOST_NOT_SET", raising=False)
    monkeypatch.setenv("GATEPOST_EMPTY", "")
    folder = write(tmp_path, token=text)
    near = (folder / ABBY_FILE).parent
    for name, content in (("empty", b"\n"), ("binary", b"\xff\xfe"), ("large", b"x" * 70_000)):
        (near / name).write_bytes(content)
    assert said in fault_of(folder)
    assert fault_of(folder).startswith("staticApiTokens[0].token ")


def test_both_files_take_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEPOST_TEST_SECRET", SECRET)
    folder = write(tmp_path, secret="${env:GATEPOST_TEST_SECRET}")
    write_files(
        folder, 'scanSources: {restApi: {secret: "${env:GATEPOST_TEST_SECRET}"}}\nstorage: {url: "sqlite:g.db"}\n'
    )
    guard = load(folder).guard.scan_sources.rest_api
    assert guard is not None
    assert guard.secret == SECRET


def test_the_first_start_copies_a_reference_and_not_its_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEPOST_TEST_SECRET", SECRET)
    write_files(tmp_path, 'scanSources: {restApi: {secret: "${env:GATEPOST_TEST_SECRET}"}}\n')
    prepare(DataFolder(tmp_path), None)
    assert SECRET not in (tmp_path / ABBY_FILE).read_text()
    assert load(tmp_path).abby.service_providers.core.secret == SECRET
