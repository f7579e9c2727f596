"""The password that Excel enters by itself: it opens what it should, and nothing raises."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.files.documents import dispatch, office_encryption
from gatepost.files.documents.compound import CompoundFile
from gatepost.files.values import File, UnpackBudget

Shared = Callable[[str], Path]


def streams(path: Path) -> dict[str, bytes]:
    document = CompoundFile(path.read_bytes())
    return {entry.path: document.read(entry, 1 << 20) for entry in document.entries}


@pytest.mark.parametrize(
    ("name", "start"),
    [("dde-test-encrypt-standardpassword.xlsx", b"PK\x03\x04"), ("encrypted.xlsx", b"")],
)
def test_packages(shared: Shared, name: str, start: bytes) -> None:
    found = streams(shared("files") / "office/encrypted" / name)
    assert office_encryption.decrypt_package(found["ENCRYPTIONINFO"], found["ENCRYPTEDPACKAGE"])[:4] == start


@pytest.mark.parametrize(("name", "opens"), [("dde-test-encrypt-standardpassword.xls", True), ("encrypted.xls", False)])
def test_workbooks(shared: Shared, name: str, opens: bool) -> None:
    found = streams(shared("files") / "office/encrypted" / name)
    assert (b"cmd\x03/c calc.exe" in office_encryption.decrypt_workbook(found["WORKBOOK"])) == opens


def test_a_password_that_the_mail_gives_away(shared: Shared) -> None:
    content = (shared("files") / "office/encrypted/encrypted.xls").read_bytes()
    file = File("1", content, "ole", "0" * 64)
    closed = dispatch.inspect(file, UnpackBudget(), ("wrong",))
    opened = dispatch.inspect(file, UnpackBudget(), ("wrong", "encrypted"))
    assert [trait.name for trait in closed.traits] == ["encrypted"]
    assert [trait.name for trait in opened.traits] == ["document-password"]


NAMES = ("saltSize", "spinCount", "keyBits", "hashAlgorithm", "saltValue", "encryptedVerifierHashInput")
MORE = ("encryptedVerifierHashValue", "encryptedKeyValue", "blockSize")
VALUES = st.sampled_from(
    ["SHA512", "SHA1", "16", "128", "256", "99999999999999999999", "-1", "AAAAAAAAAAAAAAAAAAAAAA==", "é", ""]
)


@given(st.fixed_dictionaries(dict.fromkeys((*NAMES, *MORE), VALUES)))
def test_no_description_raises(values: dict[str, str]) -> None:
    text = " ".join(f'{name}="{value}"' for name, value in values.items())
    xml = f"<encryption><keyData {text}/><p:encryptedKey {text}/></encryption>".encode()
    assert office_encryption.decrypt_package(b"\x04\0\x04\0\x40\0\0\0" + xml, bytes(5_000)) == b""


@given(st.binary(max_size=300))
def test_no_bytes_raise(data: bytes) -> None:
    assert office_encryption.decrypt_package(b"\x04\0\x02\0" + data[:60], bytes(64)) == b""
    assert office_encryption.decrypt_workbook(b"\x2f\0\x80\0\x01\0\x02\0" + data) == b""
