"""Links in QR codes.

A code in a picture takes the reader from the company's machine, with its filters, to a telephone without any, and no
one can read where it leads before going there. Tickets, payment slips and posters carry codes honestly, so a code alone
is a small thing; what it leads to is looked at like every other link.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

QR = Kind("url:qr-code", "A picture holds a QR code that leads to a web page")
KINDS = (QR,)
NEEDS = frozenset({"link-in-file"})


def check(reading: Reading) -> Iterator[Finding]:
    hosts = {link.host: link for file in reading.files for link in file.links if link.source == "qr" and link.host}
    for host, link in hosts.items():
        yield QR.at(link.where, about=link.url, leads_to=host)
