"""Links in QR codes."""

import pytest

from gatepost.checks.links.qr_codes import check
from gatepost.files.values import File
from gatepost.findings import Reading
from gatepost.kinds import URL_QR_CODE
from gatepost.mail.links import Source
from gatepost.mail.message import Link


def picture(source: Source, *hosts: str) -> Reading:
    links = tuple(Link(host, f"https://{host}/" if host else "", host, "", "1/a.png", source) for host in hosts)
    return Reading(files=(File("1/a.png", b"x", "png", "0" * 64, links=links),))


@pytest.mark.parametrize(
    ("reading", "hosts"),
    [
        (picture("qr", "evil.example"), ["evil.example"]),
        (picture("qr", "evil.example", "evil.example"), ["evil.example"]),
        (picture("qr", "a.example", "b.example"), ["a.example", "b.example"]),
        (picture("qr", ""), []),  # a code for a telephone number or an address book
        (picture("file", "a.example"), []),  # a link in a document is no code
        (picture("qr"), []),
        (Reading(), []),
    ],
)
def test_qr_code(reading: Reading, hosts: list[str]) -> None:
    found = list(check(reading))
    assert [finding.facts["leads_to"] for finding in found] == hosts
    assert {finding.kind for finding in found} <= {URL_QR_CODE.id}
    assert all(finding.where == "1/a.png" and finding.about.startswith("https://") for finding in found)
