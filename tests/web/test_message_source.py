"""The source of a message: header sections of delivered mail, whole held messages, and files of them."""

import os
import threading
from typing import Any

import pytest

from gatepost.files.archives.zip_archive import read_members
from gatepost.files.values import UnpackBudget
from gatepost.store.record_packing import HEAD_BYTES, MAX_HEADER, compress, cut_header
from gatepost.web.pages.messages import PASSWORD, zip_with_password


def actions(site: Any, tenant: str) -> list[str]:
    return [record.action for record in site.trail(scope=tenant)]


@pytest.mark.parametrize(
    ("message", "section"),
    [
        (b"A: 1\r\nB: 2\r\n\r\nbody", b"A: 1\r\nB: 2\r\n"),
        (b"A: 1\nB: 2\n\nbody\r\n\r\n", b"A: 1\nB: 2\n"),
        (b"\r\nA: in the body", b""),
        (b"\nA: in the body", b""),
        (b"A: no body", b"A: no body"),
        (b"", b""),
        (b"A: " + b"x" * HEAD_BYTES, b"A: " + b"x" * (MAX_HEADER - 3)),
        (b"A: " + b"x" * (MAX_HEADER - 5) + b"\r\n\r\n", b"A: " + b"x" * (MAX_HEADER - 5) + b"\r\n"),
    ],
)
def test_where_the_header_section_ends(message: bytes, section: bytes) -> None:
    assert cut_header(message[:HEAD_BYTES]) == section


@pytest.mark.parametrize("size", [0, 1, 16, 17, 100_000])
def test_a_zip_with_a_password_is_opened_with_it_alone(size: int) -> None:
    content = os.urandom(size)
    packed = zip_with_password(content, "m.eml")
    assert content not in packed or size < 2
    (member,) = read_members(packed, UnpackBudget(), [PASSWORD])
    assert (member.names, member.content) == (("m.eml",), content)
    (closed,) = read_members(packed, UnpackBudget(), ["another"])
    assert closed.content in (None, b"")


def test_the_header_section_of_delivered_mail(site: Any, tenant: str) -> None:
    header = "Subject: \u202egpj.exe\r\nX-Odd: \x1b[31m <script>alert(1)</script> ".encode() + b"\xe4\r\n"
    ggrid = site.message(tenant, header=compress(header))
    page = site.visitor("auditor", tenant).get(f"/messages/{ggrid}/source").text
    assert "Subject: \\u202egpj.exe" in page
    assert "\\x1b[31m &lt;script&gt;" in page
    assert "\\xe4" in page
    assert "The rest of the message is not stored." in page
    page = site.visitor(tenant=tenant).get(f"/messages/{site.message(tenant)}/source").text
    assert "The header section of this message is not stored." in page


def test_the_source_of_held_mail_is_on_record_as_read(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, held=True, text="Subject: x\r\n\r\n" + "y" * 300_000)
    page = site.visitor("analyst", tenant).get(f"/messages/{ggrid}/source").text
    assert "Subject: x" in page
    assert "more bytes, which are not shown" in page
    assert actions(site, tenant)[0] == "quarantine.view"


def test_held_mail_as_files(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, held=True, text="Subject: x\r\n\r\nevil")
    visitor = site.visitor("analyst", tenant)
    assert PASSWORD in visitor.get(f"/messages/{ggrid}").text
    packed = visitor.post(f"/messages/{ggrid}/export", {"form": "zip"})
    assert packed.headers["content-disposition"] == f'attachment; filename="{ggrid}.zip"'
    (member,) = read_members(packed.content, UnpackBudget(), [PASSWORD])
    assert member.content == b"Subject: x\r\n\r\nevil"
    assert visitor.post(f"/messages/{ggrid}/export").content == b"Subject: x\r\n\r\nevil"
    assert visitor.post(f"/messages/{ggrid}/export", {"form": "tar"}).status_code == 400
    assert actions(site, tenant)[:2] == ["quarantine.export", "quarantine.export"]
    assert site.visitor("auditor", tenant).post(f"/messages/{ggrid}/export").status_code == 403


def test_a_source_is_written_off_the_event_loop(site: Any, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of a mebibyte of control characters takes a tenth of a second."""
    threads = []

    def note(content: bytes) -> str:
        threads.append(threading.get_ident())
        return content.decode()

    monkeypatch.setattr("gatepost.web.pages.messages.decode_source", note)
    ggrid = site.message(tenant, held=True, text="\x01<b>")
    assert "\\x01&lt;b&gt;" in site.visitor("analyst", tenant).get(f"/messages/{ggrid}/source").text
    assert threads
    assert site._thread.ident not in threads
