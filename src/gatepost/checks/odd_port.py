"""Links to an unusual door: a port that web sites do not use, or FTP.

Kits run on broken-into machines beside the real site. Administrators do mail links with ports to each other, so it
weighs little, and less on the ports that test servers use.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

PORT = Kind("url:odd-port", "A link leads to a port that web sites do not use")
KINDS = (PORT,)
NEEDS = frozenset({"link"})

_PORT = re.compile(r"[a-z]{2,5}://[^/?#]{0,400}:(\d{1,5})(?=[/?#]|\Z)")
_TEST_PORTS = frozenset(
    {"8000", "8008", "8080", "8081", "8443", "8888", "3000", "5000", "9000", "9090", "2082", "2083"}
)


def check(reading: Reading) -> Iterator[Finding]:
    for link in reading.web_links:
        # A colon after the scheme's own is needed.
        if link.url.find(":", 7) > 0 and (match := _PORT.match(link.url)):
            strength = 0.4 if match[1] in _TEST_PORTS else 1.0
            yield PORT.at(link.where, strength=strength, about=link.url, host=link.host, port=match[1])
            return
