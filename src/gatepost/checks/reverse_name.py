"""The name of the sending host in DNS (iprev, RFC 8601 section 3).

Every provider gives its mail servers a name that leads back to their address; many receivers refuse mail otherwise.
Home lines have names made from their address. A failure of DNS says nothing.
"""

from collections.abc import Iterator

from gatepost.checks.helo import carries_address
from gatepost.findings import Finding, Kind, Reading

NAMELESS = Kind("host:no-name", "The sending host has no name in DNS")
FALSE = Kind("host:false-name", "The sending host's name in DNS does not lead back to it")
DYNAMIC = Kind("host:dynamic-name", "The sending host is a dial-up or home line by its name")
KINDS = (NAMELESS, FALSE, DYNAMIC)


def check(reading: Reading) -> Iterator[Finding]:
    seen = reading.authentication
    if not seen.host or seen.host_source != "border":
        return
    if seen.iprev.result == "permerror":
        yield NAMELESS.at("DNS", host=seen.host)
    elif seen.iprev.result == "fail":
        yield FALSE.at("DNS", host=seen.host, name=seen.iprev.name)
    elif seen.iprev.result == "pass" and carries_address(seen.iprev.name, seen.host):
        yield DYNAMIC.at("DNS", host=seen.host, name=seen.iprev.name)
